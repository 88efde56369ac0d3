"""Do the metrics of diversity agree? The paper's table, and their correlations, which it does not have.

The paper (appendix, "Analysis of Diversity Metrics Validity") compares four methods by the means of TD, ED and two
similarities, and finds them in the same order. Four means say little, so here the metrics are also compared problem by
problem: Spearman's correlation of each pair, with the interval that a finite set of problems leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from diver.core.statistics import Estimate
from diver.core.tables import markdown
from diver.rollouts.problems import ProblemTable, column, is_metric, summary, title
from diver_paper.correlations import Correlations, rank_correlations

SIMILARITIES = ("hidden-state", "embedding")  # the paper's table has 1 - d of these


Pair = tuple[str, str]


class Validity(NamedTuple):
    """For each method the mean of every column, and how the columns correlate over its problems."""

    means: dict[str, Mapping[str, Estimate]]
    correlations: dict[str, dict[Pair, Estimate]]
    partial: dict[str, dict[Pair, Estimate]]
    """The partial correlation of two metrics with the length of the responses as control: longer responses differ more,
    or less, by any metric."""
    problems: dict[str, int]
    between: dict[Pair, float]
    """The correlations of the methods' means, as in the paper's table; empty for fewer than 3 methods."""


def validity(tables: Mapping[str, ProblemTable]) -> Validity:
    """The means and correlations of the columns of each method's table.

    Every metric is a diversity, so two that agree have a correlation above 0, with and without the length as control.
    Columns with a missing value are left out of the correlations; a pair with a constant column has NaN.
    """
    correlations, partial = {}, {}
    for method, table in tables.items():
        names = [name for name, values in table.columns.items() if not np.isnan(values).any()]
        values = np.column_stack([table.columns[name] for name in names])
        correlations[method] = dict(_pairs(names, rank_correlations(values)))
        by_length = rank_correlations(values, control=names.index("words")) if "words" in names else None
        controlled = _pairs(names, by_length) if by_length else ()
        partial[method] = {pair: rho for pair, rho in controlled if all(map(is_metric, pair))}
    means = {method: summary(table) for method, table in tables.items()}
    problems = {method: len(table.problems) for method, table in tables.items()}
    return Validity(means, correlations, partial, problems, _between(means))


def _between(means: Mapping[str, Mapping[str, Estimate]]) -> dict[Pair, float]:
    if len(means) < 3:
        return {}
    shared = [name for name in next(iter(means.values())) if all(name in columns for columns in means.values())]
    values = [[columns[name].mean for name in shared] for columns in means.values()]
    return {pair: e.mean for pair, e in _pairs(shared, rank_correlations(values, resamples=1))}


def _pairs(names: Sequence[str], estimates: Correlations) -> Iterator[tuple[Pair, Estimate]]:
    for (i, a), (j, b) in combinations(enumerate(names), 2):
        yield (a, b), Estimate(*(float(table[i, j]) for table in estimates))


def pairs(result: Validity) -> list[Pair]:
    """Every pair of columns with at least one metric, pairs of two metrics first."""
    tables = result.correlations.values()
    candidates = dict.fromkeys(pair for table in tables for pair in table if any(map(is_metric, pair)))
    return sorted(candidates, key=lambda pair: not all(map(is_metric, pair)))


def strength(rho: Estimate) -> str:
    """The size of a correlation in words, by Cohen's limits (.1, .3, .5), and whether its interval contains 0."""
    size = abs(rho.mean)
    word = "strong" if size >= 0.5 else "moderate" if size >= 0.3 else "weak" if size >= 0.1 else "none"
    return f"{word}, could be 0" if rho.low <= 0 <= rho.high and size >= 0.1 else word


def means_table(result: Validity) -> str:
    """The paper's table, a row for each method. Metrics by models are shown as similarity: lower is more diverse."""
    names = list(dict.fromkeys(name for columns in result.means.values() for name in columns))
    header = ["", "problems", *map(_heading, names)]
    rows = [
        [
            method,
            str(result.problems[method]),
            *(column(name).text(_as_the_paper(name, means.get(name))) for name in names),
        ]
        for method, means in result.means.items()
    ]
    return markdown(header, rows)


def _as_the_paper(name: str, e: Estimate | None) -> Estimate | None:
    return Estimate(1 - e.mean, 1 - e.high, 1 - e.low) if e and name in SIMILARITIES else e


def _heading(name: str) -> str:
    if name in SIMILARITIES:
        return f"{title(name)} similarity ↓"
    return "words" if name == "words" else f"{title(name)} ↑"


def correlation_table(result: Validity) -> str:
    """A row for each pair, a column for each method: Spearman's correlation over problems, its interval, its size."""
    header, rows = ["", *result.correlations], []
    for pair in pairs(result):
        cells = [_rho_cell(table.get(pair)) for table in result.correlations.values()]
        between = [f"{result.between[pair]:+.2f}" if pair in result.between else "–"] if result.between else []
        rows.append([" ~ ".join(map(title, pair)), *cells, *between])
        if any(pair in table for table in result.partial.values()):
            cells = [_rho_cell(table.get(pair)) for table in result.partial.values()]
            rows.append(["… given the length", *cells, *["–" for _ in between]])
    return markdown([*header, *([f"{len(result.means)} means"] if result.between else [])], rows)


def _rho_cell(rho: Estimate | None) -> str:
    if rho is None or math.isnan(rho.mean):
        return "–"
    return f"{rho.mean:+.2f} [{rho.low:+.2f}, {rho.high:+.2f}] {strength(rho)}"


def as_json(result: Validity) -> dict[str, Any]:
    """For a file: {method: {problems, means, correlations}}, a pair named `a ~ b`."""
    return {
        method: {
            "problems": result.problems[method],
            "means": {name: e._asdict() for name, e in result.means[method].items()},
            "correlations": {f"{a} ~ {b}": e._asdict() for (a, b), e in result.correlations[method].items()},
            "given the length": {f"{a} ~ {b}": e._asdict() for (a, b), e in result.partial[method].items()},
        }
        for method in result.means
    }
