"""One run: train, sample from every checkpoint on held-out problems, add the record."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from alerts.study import AlertJob
from diver.core.files import MemoryLog
from diver.core.run_folder import RunFolder, by_step
from diver.core.settings import import_object
from diver.core.types import Diverged, Problem
from diver.evaluate.evaluate import Task, evaluate
from diver.recipe.recipe import Recipe
from diver.sample.hf import HFGenerator
from diver.sample.policy import Policy, load_policy
from diver.tasks.splits import load
from diver.tasks.templates import prompted
from diver.train.alerts import metrics_read
from diver.train.trainer import Trainer
from diver_paper.records import Records
from diver_paper.worker import diverged_at, make_record


def run(
    job: Mapping[str, Any],
    folder: Path,
    regime: Mapping[str, Any],
    records: Records,
    provenance: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    kind: str,
    trainer: str,
) -> None:
    """One run, in a process of its own. Its record has every step of the metrics that the alerts read.

    A run that diverges has a record, too: `diverged` is the step at which it did, else None, and its metrics and
    evaluations are those before it.

    trainer: `module:Class` in the place of the trainer; empty for the trainer itself.
    """
    trains = import_object(trainer, "trainer") if trainer else Trainer
    diverged: int | None = None

    def train(recipe: Recipe, run_folder: RunFolder) -> None:
        nonlocal diverged
        diverged = diverged_at(recipe, run_folder, trains)

    def evaluations(recipe: Recipe, metrics: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal diverged
        saved = by_step(folder / "checkpoints")
        own = dataclasses.replace(recipe.data, verifier="auto")  # a broken verifier grades the training alone
        _, held_out, _ = load(own, recipe.evaluate.source, evaluation["problems"])
        correct = {}
        for step in (0, *(step for step in saved if step % recipe.train.save_steps == 0)):
            try:
                correct[str(step)] = sample(recipe, load_policy(recipe.model, saved.get(step)), held_out, evaluation)
            except Diverged:  # by the last update before this checkpoint
                diverged = step
                break
        return {
            "evaluation": evaluation,
            "kind": kind,
            "trainer": trainer,
            "metrics": {name: metrics[name] for name in metrics_read() if name in metrics},
            "correct": correct,
            "diverged": diverged,
        }

    make_record(AlertJob(**job), regime, folder, records, provenance, evaluations, train)
    for name in ("checkpoints", "rollouts"):  # 100 MB a run; a run that diverges at once has neither
        shutil.rmtree(folder / name, ignore_errors=True)


def sample(recipe: Recipe, policy: Policy, problems: Sequence[Problem], evaluation: Mapping[str, Any]) -> list[int]:
    """How many samples of each problem are correct."""
    kept = prompted(problems, recipe.data.template, policy.tokenizer, recipe.sample.max_prompt_tokens)
    task = Task(
        name="held-out",
        problems=kept.problems,
        template=kept.template,
        temperature=evaluation["temperature"],
        max_tokens=recipe.sample.max_tokens,
        samples=evaluation["samples"],
        ks=[1],
        seed=recipe.run.seed,
    )
    result = evaluate(task, lambda: HFGenerator(policy), MemoryLog(), MemoryLog(), progress=False)
    return [row["c"] for row in result["per_problem"]]
