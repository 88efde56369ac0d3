"""From groups to one row a problem, and from those to a mean with its interval."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from diver.render.tables import Measure
from diver.stats import Estimate, bounds_of, interval, pass_at_k
from diver.types import Group, Problem

TITLES = {
    "textual": "TD", "equational": "ED", "hidden-state": "hidden state", "embedding": "embedding", "distinct-n": "Distinct-n",
    "self-bleu": "1 - Self-BLEU", "words": "length in words",
}  # fmt: skip


class ProblemTable(NamedTuple):
    """What is known of each problem: its groups' means, averaged over its groups."""

    problems: list[str]
    """See `name_of`."""
    columns: dict[str, np.ndarray]
    """float64 [problems] each: the metrics by their names, `pass@k`, and `words`, the mean length of a response."""


def group_row(group: Group, ks: Sequence[int] = (), threshold: float = 0.5) -> dict[str, float]:
    """The means of a measured group: its metrics, `pass@k` for k in `ks`, and `words` between white space.

    An outcome of at least `threshold` is correct. Pass@k is NaN where an outcome is unknown, or the group smaller than k.
    """
    names = group.rollouts[0].diversity
    row = {name: float(np.mean([rollout.diversity[name] for rollout in group.rollouts])) for name in names}
    known = not np.isnan(group.outcomes).any()
    correct = int((group.outcomes >= threshold).sum())
    row |= {f"pass@{k}": float(pass_at_k(len(group), correct, k)) if known else np.nan for k in ks}
    return {**row, "words": float(np.mean([len(response.split()) for response in group.responses]))}


def name_of(problem: Problem) -> str:
    """Its id, after the benchmark where that is known: two benchmarks may number their problems alike."""
    return f"{problem.source}/{problem.id}" if problem.source else problem.id


def problem_table(groups: Sequence[Group], ks: Sequence[int] = (), threshold: float = 0.5) -> ProblemTable:
    """One row a problem of measured groups; a problem with several groups (at several steps) has their mean."""
    if not groups:
        raise ValueError("a table needs at least one group")
    rows: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
    for group in groups:
        rows[name_of(group.problem)].append(group_row(group, ks, threshold))
    names = next(iter(rows.values()))[0]
    columns = {name: np.array([np.mean([row[name] for row in problem]) for problem in rows.values()]) for name in names}
    return ProblemTable(list(rows), columns)


def summary(table: ProblemTable) -> Mapping[str, Estimate]:
    """The mean of each column over problems with its 95 % interval; columns without any value are left out."""
    return {name: interval(v, bounds_of(name)) for name, v in table.columns.items() if not np.isnan(v).all()}


def title(name: str) -> str:
    """A column as tables and figures call it."""
    return TITLES.get(name, name.replace("pass@", "Pass@"))


def is_metric(name: str) -> bool:
    return name != "words" and not name.startswith("pass@")


def column(name: str) -> Measure:
    """A column as a table shows it: Pass@k in per cent, lengths with one decimal."""
    return Measure(name, title(name), 100 if name.startswith("pass@") else 1, 3 if is_metric(name) else 1)
