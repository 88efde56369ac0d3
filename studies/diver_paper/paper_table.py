"""Our scores beside the paper's, in its layout, as Markdown and LaTeX.

AIME 24 and 25 share a column. The in-domain average is over the six benchmarks, the out-of-domain average over the
three, each only if all of its parts are present. The best score of a column, compared as printed, is bold if at least
two rows have a score. A missing score or NaN is a dash. A note is marked at its number and written below the table.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from diver.core.files import write_text
from diver.core.tables import escape_latex, escape_markdown
from diver.core.tables import markdown as markdown_table
from diver.evaluate.results import read_results
from diver.tasks.benchmarks import BENCHMARKS
from diver_paper import paper
from diver_paper.paper import Row

AIME = ("aime24", "aime25")
CAPTION = "Ours beside the paper's main table"


def write_paper_table(results: Mapping[str, Path], folder: Path) -> str:
    """paper.md and paper.tex in `folder`: Avg@n of each NAME -> folder of `diver eval`, beside the paper's main
    table."""
    ours = {name: _averages(path) for name, path in results.items()}
    rows = beside_paper(ours)
    text = markdown(rows, CAPTION)
    write_text(folder / "paper.md", text)
    write_text(folder / "paper.tex", latex(rows, CAPTION))
    return text


def _averages(path: Path) -> dict[str, float]:
    """Benchmark -> Avg@n in per cent, of the paper's benchmarks."""
    evaluated = read_results(path)["benchmarks"]
    means = {name: e["estimates"][f"avg@{e['samples']}"]["mean"] for name, e in evaluated.items() if name in BENCHMARKS}
    columns = {*paper.IN_DOMAIN, *paper.OUT_OF_DOMAIN}
    return {name: 100 * mean for name, mean in means.items() if name in columns and mean is not None}


def beside_paper(ours: Mapping[str, Mapping[str, float]], table: str = "main") -> list[Row]:
    """Each row of the paper with its errata, below ours of the same model; our other models come last."""
    rows = []
    for row in paper.TABLES[table]:
        if row.model in ours:
            rows.append(Row(f"{row.model}, ours", ours[row.model], group=row.group))
        rows.append(dataclasses.replace(row, model=f"{row.model}, paper"))
    models = {row.model for row in paper.TABLES[table]}
    return rows + [Row(model, scores, group="Other models") for model, scores in ours.items() if model not in models]


def score(row: Row, column: str) -> float:
    """The score of a column, NaN if it is missing. A missing average is computed from its parts."""
    if column in row.scores:
        return row.scores[column]
    parts = [row.scores.get(part, math.nan) for part in paper.AVERAGES.get(column, ())]
    return sum(parts) / len(parts) if parts else math.nan


# ---- cells -----------------------------------------------------------------------------------------------------------


class _Style(NamedTuple):
    """The markup of a format."""

    text: Callable[[str], str]
    bold: Callable[[str], str]
    mark: Callable[[str], str]
    plus_minus: str
    dash: str


_MARKDOWN = _Style(escape_markdown, "**{}**".format, "<sup>{}</sup>".format, " ± ", "–")
_LATEX = _Style(escape_latex, r"\textbf{{{}}}".format, r"$^{{{}}}$".format, r" $\pm$ ", "--")


class _Column(NamedTuple):
    """A column: its heading, the block it belongs to ("in", "out" or ""), and the scores that share its cells."""

    title: str
    block: str
    keys: tuple[str, ...]


def _columns(rows: Sequence[Row]) -> list[_Column]:
    """The paper's columns, without blocks in which no row has a score, then all other names in order of appearance."""
    names = list(dict.fromkeys(name for row in rows for name in row.scores))
    columns = []
    for block, parts in paper.AVERAGES.items():
        if any(name in (*parts, block) for name in names):
            cells = [AIME, *((p,) for p in parts if p not in AIME)] if block == "in" else [(p,) for p in parts]
            columns += [_Column("AIME 24/25" if c == AIME else _title(c[0]), block, c) for c in cells]
            columns.append(_Column("Avg.", block, (block,)))
    standard = {*paper.AVERAGES, *paper.IN_DOMAIN, *paper.OUT_OF_DOMAIN}
    columns += [_Column(_title(name), "", (name,)) for name in names if name not in standard]
    if not columns:
        raise ValueError("a table needs at least one row with a score")
    return columns


def _title(name: str) -> str:
    return BENCHMARKS[name].title if name in BENCHMARKS else name


def _body(rows: Sequence[Row], columns: Sequence[_Column], style: _Style) -> tuple[list[list[str]], list[str]]:
    """The cells of every row, the model first, and the footnotes, each with its mark."""
    best = {key: _best([score(row, key) for row in rows]) for column in columns for key in column.keys}
    footnotes: dict[str, str] = {}

    def number(row: Row, key: str) -> str:
        value = score(row, key)
        if math.isnan(value):
            return style.dash
        text = f"{value:.1f}"
        if key in row.std:
            text += f"{style.plus_minus}{row.std[key]:.1f}"
        text = style.bold(text) if f"{value:.1f}" == best[key] else text
        if key in row.notes:
            text += style.mark(footnotes.setdefault(row.notes[key], _letter(len(footnotes))))
        return text

    def cell(row: Row, column: _Column) -> str:
        numbers = [number(row, key) for key in column.keys]
        return style.dash if set(numbers) == {style.dash} else "/".join(numbers)

    cells = [[style.text(row.model), *(cell(row, column) for column in columns)] for row in rows]
    notes = [f"{style.mark(mark)} {style.text(text)}" for text, mark in footnotes.items()]
    if any("gpqa" in column.keys for column in columns):
        notes.append(style.text("* GPQA-diamond"))
    return cells, notes


def _best(scores: Sequence[float]) -> str | None:
    """The highest score as printed; None with fewer than two scores."""
    present = [value for value in scores if not math.isnan(value)]
    return f"{max(present):.1f}" if len(present) > 1 else None


def _letter(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)


# ---- formats ---------------------------------------------------------------------------------------------------------


def markdown(rows: Sequence[Row], caption: str = "") -> str:
    """The table in GitHub's Markdown, footnotes below; ValueError without a score."""
    columns = _columns(rows)
    cells, notes = _body(rows, columns, _MARKDOWN)
    lines, group = [], ""
    for row, line in zip(rows, cells, strict=True):
        if row.group not in ("", group):
            lines.append([f"*{escape_markdown(_title(row.group))}*", *("" for _ in columns)])
        group = row.group
        lines.append(line)
    table = markdown_table(["Model", *(escape_markdown(column.title) for column in columns)], lines)
    return "\n".join([*([escape_markdown(caption), ""] if caption else []), table, *(f"{note}\n" for note in notes)])


def latex(rows: Sequence[Row], caption: str = "") -> str:
    """The table as a LaTeX `table*` that needs the package booktabs, footnotes below; ValueError without a score."""
    columns = _columns(rows)
    cells, notes = _body(rows, columns, _LATEX)
    titles = {"in": "In-Domain Performance", "out": "Out-of-Domain Performance", "": ""}
    widths = {block: sum(column.block == block for column in columns) for block in (c.block for c in columns)}
    out = [r"\begin{table*}[t]", r"\centering"]
    out += [rf"\caption{{{escape_latex(caption)}}}"] if caption else []
    out += [rf"\begin{{tabular}}{{l{'|'.join('c' * width for width in widths.values())}}}", r"\toprule"]
    if set(widths) != {""}:
        heads = [rf"\multicolumn{{{width}}}{{c}}{{\textbf{{{titles[block]}}}}}" for block, width in widths.items()]
        out.append(" & ".join(["", *heads]) + r" \\")
    out.append(" & ".join(rf"\textbf{{{escape_latex(t)}}}" for t in ("Model", *(c.title for c in columns))) + r" \\")
    out.append(r"\midrule")
    group = ""
    for number, (row, line) in enumerate(zip(rows, cells, strict=True)):
        if row.group != group:
            out += [r"\midrule"] if number else []
            heading = rf"\multicolumn{{{len(columns) + 1}}}{{c}}{{{escape_latex(_title(row.group))}}} \\"
            out += [heading, r"\midrule"] if row.group else []
        group = row.group
        out.append(" & ".join(line) + r" \\")
    out += [r"\bottomrule", r"\end{tabular}"]
    out += [rf"\par\smallskip{{\footnotesize {note}}}" for note in notes]
    return "\n".join([*out, r"\end{table*}"]) + "\n"
