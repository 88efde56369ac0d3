"""Deeper than means: problems gained and lost, solutions kept, and where a difference lies, by difficulty."""

from __future__ import annotations

import numpy as np

from diver.core.statistics import UNKNOWN, Estimate, interval, pass_at_k
from diver_paper.aggregate import of_samples
from diver_paper.runs import Record, Runs
from method_comparison.results import Results, difference, pass_at, rows


def gained_and_lost(results: Results, label: str) -> tuple[Estimate, Estimate]:
    """Shares of the problems: solved in 1,024 samples, but by the untrained policy not in as many; and the reverse."""
    if results.untrained is None:
        return UNKNOWN, UNKNOWN
    before = np.array(results.untrained["evaluations"]["large 1"]["c"]) > 0
    after = np.array([record["evaluations"]["large 1"]["c"] for record in results.of(label).values()]) > 0
    return interval(after & ~before, (0, 1)), interval(before & ~after, (0, 1))


def gained_by_chance(untrained: Record) -> float:
    """Problems that one half of the untrained policy's 1,024 samples solves and the other does not, the mean over all
    halves."""
    evaluation = untrained["evaluations"]["large 1"]
    n, c = evaluation["samples"], np.array(evaluation["c"])
    return float((1 - pass_at_k(n, c, n // 2) - (c == 0)).sum())


def by_difficulty(results: Results, label: str, k: int, parts: int = 4) -> list[Estimate]:
    """Pass@k minus clip-higher's at temperature 1, in quarters of the problems by the untrained policy's Pass@1,
    hardest first."""
    if results.untrained is None:
        return []
    order = np.argsort(pass_at(results.untrained, "final 1", 1), kind="stable")
    mine, theirs = (
        rows(runs, "final 1", lambda record, name: pass_at(record, name, k))
        for runs in (results.runs[label], results.baseline)
    )
    return [
        difference({s: row[part] for s, row in mine.items()}, {s: row[part] for s, row in theirs.items()})
        for part in np.array_split(order, parts)
    ]


def large(runs: Runs, kind: str, k: int) -> Estimate:
    """pass@k or distinct@k of the 1,024 samples at temperature 1."""
    found = np.array([of_samples(record["evaluations"]["large 1"], kind, k) for record in runs.values()])
    if not len(found):
        return UNKNOWN
    # Few problems have anything near k solutions: as a share of k, the interval would be that of a much rarer event.
    return interval(found, (0, 1)) if kind == "pass" else interval(found).within(0, k)


def large_difference(results: Results, label: str, k: int) -> Estimate:
    """Pass@k of the 1,024 samples at temperature 1 minus clip-higher's."""
    mine, theirs = (
        {seed: of_samples(record["evaluations"]["large 1"], "pass", k) for seed, record in runs.items()}
        for runs in (results.of(label), results.baseline)
    )
    return difference(mine, theirs)


def kept(runs: Runs) -> tuple[float, float]:
    """Solutions sampled after the first checkpoint, and how many of them are sampled again after the last: means over
    seeds."""
    shared = [record["evaluations"]["solutions"]["shared"] for record in runs.values()]
    found = [(counts[0][0], counts[0][-1]) for counts in shared if len(counts) > 1]
    first, last = np.mean(found, axis=0) if found else (np.nan, np.nan)
    return float(first), float(last)
