"""From the grades of many samples to estimates: sampled once, reduced many ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from diver.evaluate.grade import SCORED, votes
from diver.stats import avg_at_k, best_of_k, bootstrap_interval, distinct_at_k, maj_at_k, over_runs, pass_at_k
from diver.types import Grade, Problem


class Sample(NamedTuple):
    """One graded response: what it votes for, and its solution if it is correct."""

    grade: Grade
    answer: str | None
    solution: str | None


def summarise(
    problems: Sequence[Problem], samples: Mapping[str, Sequence[Sample]], ks: Sequence[int], grader: str, runs: int
) -> dict[str, Any]:
    """Estimates over problems with 95 % bootstrap intervals, counts of grades, a row a problem.

    n of a problem are its scored samples: a sample without a grade is left out, and a problem with n < k has no
    estimate at that k (`problems` of an estimate says how many have one). `runs` > 0 adds the paper's best of k, in
    which a sample without a grade counts as wrong, as it does there.
    """
    scored = {name: [s for s in drawn if s.grade in SCORED] for name, drawn in samples.items()}
    rows = [_row(problem.id, scored[problem.id]) for problem in problems]
    n, c = (np.array([row[name] for row in rows]) for name in ("n", "c"))
    drawn = max(map(len, samples.values()))
    estimates = {f"avg@{drawn}": avg_at_k(n, c, 1)}
    estimates |= {f"pass@{k}": pass_at_k(n, c, k) for k in ks}
    if all(votes(problem, grader) for problem in problems):
        ballots = [_ballots(scored[problem.id]) for problem in problems]
        estimates |= {f"maj@{k}": np.array([maj_at_k(b, k) for b in ballots]) for k in ks if k > 1}
    counts = [Counter(s.solution for s in scored[p.id] if s.solution is not None) for p in problems]
    estimates |= {
        f"distinct@{k}": np.array(
            [distinct_at_k(row["n"], [*q.values()], k) for row, q in zip(rows, counts, strict=True)]
        )
        for k in ks
    }
    grades = Counter(s.grade for drawn in samples.values() for s in drawn)
    result: dict[str, Any] = {
        "estimates": {name: _estimate(values) for name, values in estimates.items()},
        "grades": {str(v): grades[v] for v in Grade if grades[v]},
        "unscored": sum(count for v, count in grades.items() if v not in SCORED),
    }
    if runs:
        correct = np.array([[s.grade is Grade.CORRECT for s in samples[p.id]] for p in problems])
        best = {f"pass@{k}": best_of_k(correct, k, runs) for k in ks}
        result["runs"] = {name: {**over_runs(v)._asdict(), "values": v.tolist()} for name, v in best.items()}
    return {**result, "per_problem": rows}


def _row(name: str, scored: Sequence[Sample]) -> dict[str, Any]:
    solutions = {s.solution for s in scored if s.solution is not None}
    correct = sum(s.grade is Grade.CORRECT for s in scored)
    return {"id": name, "n": len(scored), "c": correct, "distinct": len(solutions)}


def _ballots(scored: Iterable[Sample]) -> np.ndarray:
    """Votes as `maj_at_k` takes them: 0 for a correct answer, -1 for none, else a number for each answer."""
    numbers: dict[str, int] = {}
    ballots = []
    for sample in scored:
        if sample.grade is Grade.CORRECT:
            ballots.append(0)
        elif sample.grade is Grade.WRONG and sample.answer is not None:
            ballots.append(numbers.setdefault(sample.answer, len(numbers) + 1))
        else:
            ballots.append(-1)
    return np.array(ballots, dtype=np.int64)


def _estimate(values: np.ndarray) -> dict[str, Any]:
    known = int(np.sum(~np.isnan(values)))
    return {**bootstrap_interval(values)._asdict(), "problems": known}
