"""The learning rate of a variant: the one of three whose training solves most, on problems that no other run of the
testbed has.

Each is tried for some steps with one seed; what counts is the mean outcome over the last quarter of them. Where the
best is not better than clip-higher's rate by more than one standard error, paired over these steps, it is
clip-higher's: chance should not give two methods different rates. A rate is chosen for every method. Under AdamW and a
bound on the norm of the gradient a constant factor on the advantage has almost no effect, so methods with advantages of
one size would not have equal conditions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.settings import merge
from diver.recipe.recipe import make_recipe
from diver_paper.runs import Record, find, given, records_file
from method_comparison.plan import BASELINE, CHOICE_SEED, Plan, Variant

RECORDS = "methods"
TAIL = 0.25


def choice_regime(plan: Plan, testbed: str) -> dict[str, Any]:
    """The testbed's recipe for the choice of a learning rate."""
    bed = plan.testbeds[plan.testbeds[testbed].rates_of]
    changes = {
        "data": {"path": f"method_comparison.problems:{bed.name}", "template": "plain"},
        "train": {"steps": bed.choice_steps, "save_steps": bed.choice_steps},
    }
    return merge(bed.recipe, changes)


def choice_visits(plan: Plan, testbed: str) -> float:
    """How often a run by which a rate is chosen trains on each of its problems."""
    recipe = make_recipe(plan.regime(plan.testbeds[testbed].rates_of))
    problems = getattr(recipe.data, recipe.data.path.replace("-", "_")).problems
    return plan.testbeds[testbed].choice_steps * recipe.train.batch_size / problems


def tried(plan: Plan, testbed: str, variant: Variant, out: Path) -> dict[float, Record]:
    """Learning rate -> the record of its run, for the finished runs of a variant."""
    regime, file = choice_regime(plan, testbed), records_file(out, RECORDS)
    records = {rate: find(file, given(regime, variant.changes(rate), CHOICE_SEED)) for rate in plan.rates}
    return {rate: record for rate, record in records.items() if record is not None}


def outcome(record: Record) -> np.ndarray:
    """The outcome over the last quarter of a run, float64 [blocks of steps]."""
    column = record["metrics"]["reward/outcome"]
    return np.array(column[-max(1, round(TAIL * len(column))) :], dtype=float)


def outcomes(plan: Plan, testbed: str, variant: Variant, out: Path) -> dict[float, np.ndarray]:
    """Learning rate -> the `outcome` of its run."""
    return {rate: outcome(record) for rate, record in tried(plan, testbed, variant, out).items()}


def chosen(plan: Plan, testbed: str, variants: Mapping[str, Variant], out: Path) -> dict[str, float]:
    """The rate of each variant whose choice is finished, before its `rate_factor`."""
    rates = {}
    reference = outcomes(plan, testbed, plan.variants[BASELINE], out)
    if len(reference) < len(plan.rates):
        return {}
    for label, variant in variants.items():
        owner = variants.get(variant.rate_of or label) or plan.variants[variant.rate_of or label]
        by_rate = outcomes(plan, testbed, owner, out)
        if len(by_rate) == len(plan.rates):
            rates[label] = best_rate(by_rate, best_rate(reference))
    return rates


def best_rate(found: Mapping[float, np.ndarray], unless_better: float | None = None) -> float:
    """The rate with the highest mean outcome, the lowest of several such.

    It is `unless_better` if the best is not better than that by more than one standard error.
    """
    best = max(sorted(found), key=lambda rate: found[rate].mean())
    if unless_better is None:
        return best
    gain = found[best] - found[unless_better]
    error = gain.std(ddof=1) / math.sqrt(len(gain)) if len(gain) > 1 else 0.0
    return best if gain.mean() > error else unless_better
