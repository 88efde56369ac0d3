"""From groups to one row a problem, and from those to a mean with its interval."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from diver.core.statistics import Estimate, bounds_of, by_problem, interval, pass_at_k
from diver.core.tables import Measure, clean
from diver.core.types import Group, Problem

TITLES = {
    "textual": "TD", "equational": "ED", "hidden-state": "hidden state", "embedding": "embedding",
    "distinct-n": "Distinct-n", "self-bleu": "1 - Self-BLEU", "words": "length in words",
}  # fmt: skip

RANGES = {
    **dict.fromkeys(("textual", "equational", "distinct-n", "self-bleu"), (0.0, 1.0)),
    **dict.fromkeys(("hidden-state", "embedding"), (0.0, 2.0)),
    **dict.fromkeys(("words", "entropy", "length_mean"), (0.0, math.inf)),
}
"""Between which a value must lie, of what is no share (`bounds_of`)."""

SINGLE = "single responses, whose diversity is not defined: it is left out"


class ProblemTable(NamedTuple):
    """What is known of each problem: its groups' means, averaged over its groups."""

    problems: list[str]
    """See `name_of`."""
    columns: dict[str, np.ndarray]
    """float64 [problems] each: the metrics by their names, `pass@k`, and `words`, the mean length of a response."""


def group_row(group: Group, ks: Sequence[int] = (), threshold: float = 0.5) -> dict[str, float]:
    """The means of a measured group: its metrics, `pass@k` for k in `ks`, and `words` between white space.

    The metrics of a single response are NaN, since it has no other response to differ from. An outcome of at least
    `threshold` is correct. Pass@k is NaN where an outcome is unknown, or the group smaller than k.
    """
    names = group.rollouts[0].diversity
    several = len(group) > 1
    row = {name: float(np.mean([r.diversity[name] for r in group.rollouts])) if several else np.nan for name in names}
    known = not np.isnan(group.outcomes).any()
    correct = int((group.outcomes >= threshold).sum())
    row |= {f"pass@{k}": float(pass_at_k(len(group), correct, k)) if known else np.nan for k in ks}
    return {**row, "words": float(np.mean([len(response.split()) for response in group.responses]))}


def name_of(problem: Problem) -> str:
    """Its id, after the benchmark where that is known: two benchmarks may number their problems alike."""
    return f"{problem.source}/{problem.id}" if problem.source else problem.id


def owner(problem: Problem, column: str = "") -> str:
    """Whose responses to it these are, as tables name them; `column` is what --by names, for those of which it says
    nothing."""
    return clean(problem.meta.get("by", f"(no {column or 'name'})"))


def problem_table(groups: Sequence[Group], ks: Sequence[int] = (), threshold: float = 0.5) -> ProblemTable:
    """One row a problem of measured groups; a problem with several groups (at several steps) has the mean of those
    known."""
    if not groups:
        raise ValueError("a table needs at least one group")
    problems = [name_of(group.problem) for group in groups]
    rows = [group_row(group, ks, threshold) for group in groups]
    columns = {name: by_problem(problems, [row[name] for row in rows]) for name in rows[0]}
    return ProblemTable(list(dict.fromkeys(problems)), columns)


def summary(table: ProblemTable) -> Mapping[str, Estimate]:
    """The mean of each column over problems with its 95 % interval; columns without any value are left out."""
    return {name: estimate(name, v) for name, v in table.columns.items() if not np.isnan(v).all()}


def estimate(name: str, values: ArrayLike) -> Estimate:
    """The mean of values by that name with its 95 % interval, which has no end where none of them can lie."""
    found = interval(values, bounds_of(name))
    return found.within(*RANGES[name]) if name in RANGES else found


def title(name: str) -> str:
    """A column as tables and figures call it."""
    return TITLES.get(name, name.replace("pass@", "Pass@"))


def is_metric(name: str) -> bool:
    return name != "words" and not name.startswith("pass@")


def column(name: str) -> Measure:
    """A column as a table shows it: Pass@k in per cent, lengths with one decimal."""
    return Measure(name, title(name), 100 if name.startswith("pass@") else 1, 3 if is_metric(name) else 1)
