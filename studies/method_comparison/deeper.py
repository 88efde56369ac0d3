"""From 1,024 samples at temperature 1: Pass@k, and the problems that a training gains and loses."""

from __future__ import annotations

import numpy as np

from diver.core.statistics import UNKNOWN, Estimate, interval, pass_at_k
from diver_paper.aggregate import of_samples
from diver_paper.runs import Record, Runs
from method_comparison.results import Results, difference


def gained_and_lost(results: Results, label: str) -> tuple[float, float]:
    """The number of problems that a variant solves in 1,024 samples and the untrained policy does not, and the reverse.

    Both are means over seeds.
    """
    if results.untrained is None:
        return np.nan, np.nan
    before = np.array(results.untrained["evaluations"]["large 1"]["c"]) > 0
    after = np.array([record["evaluations"]["large 1"]["c"] for record in results.of(label).values()]) > 0
    return float((after & ~before).sum(1).mean()), float((before & ~after).sum(1).mean())


def gained_by_chance(untrained: Record) -> float:
    """The number of problems that one half of the untrained policy's 1,024 samples solves and the other does not.

    It is the mean over all halves.
    """
    evaluation = untrained["evaluations"]["large 1"]
    n, c = evaluation["samples"], np.array(evaluation["c"])
    return float((1 - pass_at_k(n, c, n // 2) - (c == 0)).sum())


def large(runs: Runs, k: int) -> Estimate:
    """Pass@k of the 1,024 samples at temperature 1."""
    passed = np.array([of_samples(record["evaluations"]["large 1"], "pass", k) for record in runs.values()])
    return interval(passed, (0, 1)) if len(passed) else UNKNOWN


def large_difference(results: Results, label: str, k: int) -> Estimate:
    """Pass@k of the 1,024 samples at temperature 1 minus clip-higher's."""
    mine, theirs = (
        {seed: of_samples(record["evaluations"]["large 1"], "pass", k) for seed, record in runs.items()}
        for runs in (results.of(label), results.baseline)
    )
    return difference(mine, theirs)
