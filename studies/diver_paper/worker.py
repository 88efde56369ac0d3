"""One run of a study: train by the recipe, sample from every checkpoint, save what the tables need."""

from __future__ import annotations

import dataclasses
import datetime
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.files import Log, MemoryLog
from diver.core.run_folder import RunFolder
from diver.core.seeds import stream_seed
from diver.core.types import Diverged, Group, Problem, Rollout, trained_on
from diver.diversity import Diversity, measure
from diver.evaluate.evaluate import Task
from diver.evaluate.evaluate import evaluate as evaluate_task
from diver.methods import OBSERVED
from diver.recipe.recipe import Recipe
from diver.recipe.run import open_run
from diver.sample.policy import load_policy
from diver.sample.prefix_tree import PrefixTreeGenerator
from diver.tasks.splits import load
from diver.tasks.templates import prompted
from diver.train.trainer import Trainer
from diver_paper.job import Job, study_recipe
from diver_paper.records import Records, rounded

CURVE = (1, 4, 16)  # k of the evaluations during training
SHOWN = 32  # problems of which 8 responses are saved
SHOWN_RESPONSES = 8


def run(
    job: Mapping[str, Any],
    folder: Path,
    regime: Mapping[str, Any],
    records: Records,
    provenance: Mapping[str, Any],
    temperatures: Sequence[float],
) -> None:
    """One run, in a process of its own: every checkpoint is evaluated, the last one at `temperatures`, too."""
    made = Job(**job)

    def evaluations(recipe: Recipe, metrics: Mapping[str, Any]) -> dict[str, Any]:
        checkpoints = sorted((folder / "checkpoints").glob("step_*")) if made.trained else [None]
        found = {_step(path): evaluate(recipe, path, last=path == checkpoints[-1]) for path in checkpoints}
        others = {
            f"{t:g}": evaluate(
                dataclasses.replace(recipe, evaluate=dataclasses.replace(recipe.evaluate, temperature=t)),
                checkpoints[-1],
            )
            for t in temperatures
        }
        return {"metrics": metrics, "evaluations": found, **({"at": others} if others else {})}

    make_record(made, regime, folder, records, provenance, evaluations)


def train(recipe: Recipe, folder: RunFolder) -> None:
    """Train to the last step."""
    Trainer(recipe, folder).run()


def diverged_at(recipe: Recipe, folder: RunFolder, trainer: type[Trainer] = Trainer) -> int | None:
    """Train to the last step; the step at which the training diverges, None where it does not."""
    try:
        trainer(recipe, folder).run()
    except Diverged:
        return 1 + max((row["step"] for row in folder.rows("metrics.jsonl")), default=0)
    return None


def make_record(
    job: Job,
    regime: Mapping[str, Any],
    folder: Path,
    records: Records,
    provenance: Mapping[str, Any],
    evaluations: Callable[[Recipe, Mapping[str, Any]], Mapping[str, Any]],
    train: Callable[[Recipe, RunFolder], object] = train,
) -> None:
    """Train in `folder`, resuming where it was stopped, evaluate after the training, and add the record.

    evaluations: from the recipe and the metrics of the training, what the record holds of them. The commit of a run
    that was resumed at another one is A..B, and its training time is unknown.
    """
    settings = job.recipe(regime)
    recipe = study_recipe(settings)
    start = time.process_time()
    resumed = job.trained and (folder / "config.json").exists()
    metrics, commit = (
        train_run(recipe, job, folder, provenance, train) if job.trained else ({}, provenance.get("commit"))
    )
    trained = time.process_time()
    found = evaluations(recipe, metrics)
    seconds = {"train": None if resumed else trained - start, "evaluate": time.process_time() - trained}
    record = {
        "recipe": settings,
        "seed": job.seed,
        "command": job.command,
        **provenance,
        "commit": commit,
        "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu_seconds": seconds,
        **found,
    }
    records.add(job, record)


def train_run(
    recipe: Recipe,
    job: Job,
    folder: Path,
    provenance: Mapping[str, Any],
    train: Callable[[Recipe, RunFolder], object] = train,
) -> tuple[dict[str, list[Any]], str | None]:
    """Train or resume; the columns of its metrics, and the commits of the code that trained."""
    recipe = dataclasses.replace(
        recipe,
        run=dataclasses.replace(recipe.run, folder=str(folder)),
        evaluate=dataclasses.replace(recipe.evaluate, problems=0),
    )
    run = open_run(recipe, origin={"command": job.command, **provenance})
    try:
        saved = run.checkpoints()
        if not saved or _step(saved[-1]) < recipe.train.steps:
            train(recipe, run)
        first, now = run.config.get("commit"), provenance.get("commit")
        return columns(run), now if first == now else f"{first}..{now}"
    finally:
        run.close()


def _step(checkpoint: Path | None) -> int:
    return int(checkpoint.name.removeprefix("step_")) if checkpoint else 0


# ---- metrics of the training -----------------------------------------------------------------------------------------


def columns(run: RunFolder) -> dict[str, list[Any]]:
    """metrics.jsonl a column a metric, and where the signal of each step came from."""
    rows = [
        {**row, **signal([(group.outcomes, group.advantages) for group in trained_on(run.rollouts(row["step"]))])}
        for row in run.rows("metrics.jsonl")
        if "time/update" in row
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [rounded(row.get(name)) for row in rows] for name in names}


def signal(groups: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """The fraction of the sum of |A| that comes from groups all correct, mixed, and with none correct; 0 of nothing.

    groups: (outcomes [G], advantages [G]). In a group all correct or all wrong the outcome gives no advantage, so
    whatever there is comes from the diversity reward, and does not depend on lambda.
    """
    weight = dict.fromkeys(("all_correct", "mixed", "none_correct"), 0.0)
    for outcomes, advantages in groups:
        correct = outcomes >= 0.5
        kind = "all_correct" if correct.all() else "mixed" if correct.any() else "none_correct"
        weight[kind] += float(np.abs(advantages).sum())
    total = sum(weight.values())
    return {f"signal/{kind}": value / total if total else 0.0 for kind, value in weight.items()}


# ---- evaluation of a policy ------------------------------------------------------------------------------------------


def evaluate(recipe: Recipe, checkpoint: Path | None, *, last: bool = True) -> dict[str, Any]:
    """Many samples of the held-out problems from a checkpoint (None: the initial policy).

    After training: `solutions`, how often each distinct correct solution of each problem came, the `diversity` of 8 of
    the responses to each, and some `responses` to read; during training the estimates of `CURVE` only.
    """
    config = recipe.evaluate
    samples = config.num_samples if last else config.num_samples_in_training
    _, held_out, _ = load(recipe.data, config.source, config.problems)
    policy = load_policy(recipe.model, checkpoint)
    kept = prompted(held_out, recipe.data.template, policy.tokenizer, recipe.sample.max_prompt_tokens)
    task = Task(
        name="held-out",
        problems=kept.problems,
        template=kept.template,
        temperature=config.temperature,
        max_tokens=recipe.sample.max_tokens,
        samples=samples,
        ks=[k for k in CURVE if k <= samples],
    )
    seed = stream_seed(recipe.run.seed, "evaluate", checkpoint.name if checkpoint else "initial")
    generations = MemoryLog()
    result = evaluate_task(
        task, lambda: PrefixTreeGenerator(policy, seed=seed), generations, solutions=True, progress=False
    )
    header = {"samples": samples, "temperature": config.temperature, "problems": len(kept.problems)}
    if not last:
        names = [*(f"pass@{k}" for k in task.ks), f"distinct@{max(task.ks)}"]
        return {**header, **{name: rounded(result["estimates"][name]["mean"]) for name in names}}
    groups = draw(kept.problems, generations, recipe.run.seed)
    return {
        **header,
        "solutions": [row["solutions"] for row in result["per_problem"]],
        "diversity": _diversity(groups),
        "responses": [group.responses for group in groups[:SHOWN]],
        "ids": [group.problem.id for group in groups[:SHOWN]],
    }


def draw(problems: Sequence[Problem], generations: Log, seed: int) -> list[Group]:
    """A group of 8 of the samples of each problem, in random order: as good as 8 samples of its own."""
    pools: dict[str, list[str]] = {problem.id: [] for problem in problems}
    for row in generations.rows():
        pools[row["problem"]] += [row["response"]] * row.get("count", 1)
    groups = []
    for problem in problems:
        pool = pools[problem.id]
        responses = random.Random(stream_seed(seed, "shown", problem.id)).sample(pool, min(SHOWN_RESPONSES, len(pool)))
        groups.append(Group(problem, tuple(Rollout(response) for response in responses)))
    return groups


def _diversity(groups: Sequence[Group]) -> dict[str, list[float]]:
    """Mean TD and ED of the whole responses to each problem, with the paper's settings whatever the recipe has."""
    measured = [measure(group, OBSERVED, Diversity(until="end")) for group in groups]
    return {name: [rounded(float(m[name].mean())) for m in measured] for name in OBSERVED}
