"""One run: train, sample from the last checkpoint on held-out problems, add the record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.study import AgentJob
from diver.core.run_folder import RunFolder
from diver.core.types import Diverged
from diver.recipe.recipe import Recipe
from diver.tasks.splits import load
from diver_paper.records import Records
from diver_paper.worker import diverged_at, make_record
from method_comparison.worker import sample_last, thinned


def run(
    job: Mapping[str, Any],
    folder: Path,
    regime: Mapping[str, Any],
    records: Records,
    provenance: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    policy: str,
) -> None:
    """One run, in a process of its own. A run that diverges has a record without evaluations.

    Its `diverged` is the step at which it did, else None. `policy`: the fingerprint of the starting policy.
    """
    diverged: int | None = None

    def train(recipe: Recipe, run_folder: RunFolder) -> None:
        nonlocal diverged
        diverged = diverged_at(recipe, run_folder)

    def evaluations(recipe: Recipe, metrics: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal diverged
        _, held_out, _ = load(recipe.data, recipe.evaluate.source, evaluation["held_out"])
        found: dict[str, Any] = {}
        if diverged is None:
            problems, samples = {"held-out": held_out}, evaluation["samples"]
            try:
                found = sample_last(recipe, folder, problems, samples, evaluation["temperatures"])
            except Diverged:  # by the last update
                diverged = recipe.train.steps
        return {
            "evaluation": evaluation,
            "policy": policy,
            "diverged": diverged,
            "metrics": {name: thinned(column) for name, column in metrics.items() if not name.startswith("time/")},
            "evaluations": found,
        }

    make_record(AgentJob(**job), regime, folder, records, provenance, evaluations, train)
