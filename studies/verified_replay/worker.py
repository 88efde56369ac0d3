"""One run: train, sample from the last checkpoint on held-out and on training problems, add the record.

The untrained policy is only sampled, and its record has the levels of the problems.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diver.recipe.recipe import Recipe
from diver.tasks.splits import load
from diver_paper.records import Records
from diver_paper.worker import make_record
from method_comparison.worker import sample_last, thinned
from verified_replay.study import ReplayJob


def run(
    job: Mapping[str, Any],
    folder: Path,
    regime: Mapping[str, Any],
    records: Records,
    provenance: Mapping[str, Any],
    evaluation: Mapping[str, Any],
) -> None:
    """One run, in a process of its own."""
    made = ReplayJob(**job)

    def evaluations(recipe: Recipe, metrics: Mapping[str, Any]) -> dict[str, Any]:
        training, held_out, _ = load(recipe.data, recipe.evaluate.source, evaluation["held_out"])
        problems = {"held-out": held_out, "trained": training[: evaluation["trained"]]}
        levels = {name: Counter(p.source for p in of) for name, of in (("held-out", held_out), ("trained", training))}
        return {
            **({} if made.trained else {"levels": levels}),
            "evaluation": evaluation,
            "metrics": {name: thinned(column) for name, column in metrics.items()},
            "evaluations": sample_last(recipe, folder, problems, evaluation["samples"], evaluation["temperatures"]),
        }

    make_record(made, regime, folder, records, provenance, evaluations)
