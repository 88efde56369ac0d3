"""Evaluation on held-out problems while a run goes on, from a random stream of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from diver.generate.base import Sampler
from diver.stats import bootstrap_interval, pass_at_k
from diver.types import Grade, Group, Problem
from diver.verify import solution

KS = (1, 4, 16, 64)


def evaluate(
    sampler: Sampler,
    problems: Sequence[Problem],
    prompts: Sequence[str],
    verify: Callable[[Sequence[Group]], list[Group]],
    samples: int,
    **how: Any,
) -> dict[str, Any]:
    """Pass@k for k in 1, 4, 16, 64 up to `samples`, distinct correct solutions, and the grades; see `summarise`."""
    drawn = sampler(prompts, samples, **how)
    groups = verify([Group(p, tuple(rollouts)) for p, rollouts in zip(problems, drawn, strict=True)])
    return {**summarise(groups), "samples": samples, "temperature": how["temperature"]}


def summarise(groups: Sequence[Group]) -> dict[str, Any]:
    """Estimates over problems with 95 % bootstrap intervals, counts of grades, and a row a problem."""
    n = len(groups[0])
    rows: list[dict[str, Any]] = []
    for group in groups:
        correct = [r.response for r in group.rollouts if r.grade is Grade.CORRECT]
        distinct = {solution(group.problem, response) for response in correct}
        rows.append({"id": group.problem.id, "correct": len(correct), "distinct": len(distinct)})
    counts = np.array([row["correct"] for row in rows])
    values: dict[str, np.ndarray] = {f"pass@{k}": pass_at_k(n, counts, k) for k in KS if k <= n}
    values[f"distinct@{n}"] = np.array([float(row["distinct"]) for row in rows])
    return {
        "problems": len(groups),
        "estimates": {name: bootstrap_interval(v)._asdict() for name, v in values.items()},
        "grades": dict(Counter(str(r.grade) for g in groups for r in g.rollouts)),
        "per_problem": rows,
    }


def metrics(result: Mapping[str, Any]) -> dict[str, float]:
    """The estimates' means under the contract's names, eval/pass@k and eval/distinct@n."""
    return {f"eval/{name}": estimate["mean"] for name, estimate in result["estimates"].items()}
