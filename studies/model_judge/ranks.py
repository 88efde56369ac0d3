"""Average ranks and shares of each rank, with intervals over problems, in the layout of the paper's table, as Markdown
and LaTeX."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from diver.core.statistics import UNKNOWN, Estimate
from diver.core.tables import escape_latex, escape_markdown, markdown

OVERALL = "Overall Avg."


class Standing(NamedTuple):
    """The ranks of one model: its average rank, and the share of comparisons in which it had rank 1, 2, ..."""

    rank: Estimate
    shares: tuple[Estimate, ...]


Blocks = Mapping[str, Sequence[Standing]]
"""Benchmark, or OVERALL, -> a standing for each model."""


def standings(ranks: Mapping[Any, np.ndarray], benchmarks: Mapping[Any, str], models: int) -> list[Standing]:
    """A standing for each of so many models, from the ranks int [comparisons, models] of each problem.

    A problem counts once, however often it was compared. A benchmark (`benchmarks`: problem -> benchmark) counts once,
    however many problems it has, since the paper's overall average is the mean over benchmarks. Without problems all
    values are NaN.
    """
    names = np.array([benchmarks[p] for p in ranks])

    def estimate(values: Sequence[float], low: float, high: float) -> Estimate:
        return over_strata([np.array(values)[names == name] for name in dict.fromkeys(names)]).within(low, high)

    return [
        Standing(
            estimate([r[:, m].mean() for r in ranks.values()], 1, models),
            tuple(estimate([(r[:, m] == rank).mean() for r in ranks.values()], 0, 1) for rank in range(1, models + 1)),
        )
        for m in range(models)
    ]


def by_position(ranks: Sequence[Sequence[int]]) -> list[float]:
    """The mean rank of the answer shown first, second, ..., from the ranks in the order shown; equal without position
    bias."""
    return np.array(ranks, dtype=float).mean(axis=0).tolist() if len(ranks) else []


def ranks_markdown(blocks: Blocks, models: Sequence[str]) -> str:
    rows = [
        [
            escape_markdown(f"{benchmark}: {model}"),
            _text(standing.rank, 1, 2),
            *(_text(share, 100, 1) for share in standing.shares),
        ]
        for benchmark, standings in blocks.items()
        for model, standing in zip(models, standings, strict=True)
    ]
    return markdown(["", "Avg. Rank (↓)", *_rank_titles(len(models))], rows)


def ranks_latex(blocks: Blocks, models: Sequence[str]) -> str:
    """For booktabs and multirow; means only, as in the paper."""
    lines = [
        r"\begin{tabular}{l|l|" + "|".join("c" * (len(models) + 1)) + "}",
        r"\toprule",
        " & ".join([r"Benchmark & Model & Avg.\ Rank ($\downarrow$)", *_rank_titles(len(models))]) + r" \\",
    ]
    for benchmark, standings in blocks.items():
        lines += [r"\midrule", rf"\multirow{{{len(models)}}}{{*}}{{{escape_latex(benchmark)}}}"]
        best = min((round(s.rank.mean, 2) for s in standings if not math.isnan(s.rank.mean)), default=math.nan)
        for model, standing in zip(models, standings, strict=True):
            rank = _text(standing.rank, 1, 2, ends=False)
            cells = [rf"\textbf{{{rank}}}" if round(standing.rank.mean, 2) == best else rank]
            cells += [_text(share, 100, 1, ends=False).replace("%", r"\%") for share in standing.shares]
            lines.append(" & ".join(["", escape_latex(model), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _rank_titles(n: int) -> list[str]:
    ends = {1: " (best)", n: " (worst)"}
    return [f"Rank {rank}{ends.get(rank, '')}" for rank in range(1, n + 1)]


def _text(estimate: Estimate, scale: float, digits: int, ends: bool = True) -> str:
    if math.isnan(estimate.mean):
        return "–"
    mean = f"{scale * estimate.mean:.{digits}f}" + ("%" if scale == 100 else "")
    if not ends or math.isnan(estimate.low):
        return mean
    return f"{mean} ({scale * estimate.low:.{digits}f}–{scale * estimate.high:.{digits}f})"


def over_strata(values: Sequence[ArrayLike], level: float = 0.95) -> Estimate:
    """The mean of the means of several sets, [problems] each, such as benchmarks, with a confidence interval for other
    problems.

    The sets themselves are not random. The variance is the sum of the variances of their means, over their number
    squared, and t has Satterthwaite's degrees of freedom. The interval is NaN if a set has one value; without any
    set all three are NaN.
    """
    from scipy.special import stdtrit

    sets = [np.asarray(v, dtype=np.float64) for v in values]
    if not sets:
        return UNKNOWN
    mean = float(np.mean([v.mean() for v in sets]))
    if min(map(len, sets)) < 2:
        return Estimate(mean, np.nan, np.nan)
    variances = np.array([v.var(ddof=1) / len(v) / len(sets) ** 2 for v in sets])
    if not variances.any():
        return Estimate(mean, mean, mean)
    freedom = variances.sum() ** 2 / np.sum(variances**2 / np.array([len(v) - 1 for v in sets]))
    half = float(stdtrit(freedom, 0.5 + level / 2) * np.sqrt(variances.sum()))
    return Estimate(mean, mean - half, mean + half)
