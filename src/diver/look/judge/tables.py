"""Average rank and shares of each rank in the layout of the paper's table, as Markdown and LaTeX."""

import math
from collections.abc import Mapping, Sequence

from diver.core.statistics import Estimate
from diver.core.tables import escape_latex, escape_markdown, markdown
from diver.look.judge.ranks import Standing

OVERALL = "Overall Avg."
Blocks = Mapping[str, Sequence[Standing]]
"""Benchmark, or OVERALL, -> a standing for each model."""


def ranks_markdown(blocks: Blocks, models: Sequence[str]) -> str:
    rows = [
        [escape_markdown(f"{benchmark}: {model}"), *_cells(standing)]
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
            rank = _number(standing.rank, 1, 2)
            cells = [rf"\textbf{{{rank}}}" if round(standing.rank.mean, 2) == best else rank]
            cells += [_number(share, 100, 1).replace("%", r"\%") for share in standing.shares]
            lines.append(" & ".join(["", escape_latex(model), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _rank_titles(n: int) -> list[str]:
    ends = {1: " (best)", n: " (worst)"}
    return [f"Rank {rank}{ends.get(rank, '')}" for rank in range(1, n + 1)]


def _cells(standing: Standing) -> list[str]:
    return [_cell(standing.rank, 1, 2), *(_cell(share, 100, 1) for share in standing.shares)]


def _cell(estimate: Estimate, scale: float, digits: int) -> str:
    mean = _number(estimate, scale, digits)
    if math.isnan(estimate.low):
        return mean
    return f"{mean} ({scale * estimate.low:.{digits}f}–{scale * estimate.high:.{digits}f})"


def _number(estimate: Estimate, scale: float, digits: int) -> str:
    if math.isnan(estimate.mean):
        return "–"
    return f"{scale * estimate.mean:.{digits}f}" + ("%" if scale == 100 else "")
