"""Tables in the layout of the paper, in Markdown and LaTeX, from plain numbers.

AIME 24 and 25 share a column; the in-domain average is over the six benchmarks, the out-of-domain average over the
three, each only where all of its parts are there. The best of a column (of each group, if `within_groups`) is bold,
compared as it is printed, where at least two rows have a score. A score that is missing or NaN is a dash. A note stands
at its number and below the table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from diver.data.benchmarks import BENCHMARKS
from diver.evaluate import paper

AIME = ("aime24", "aime25")


@dataclass(frozen=True)
class Line:
    """One row: percentages by benchmark, or by any other column name such as "pass@128".

    "in" and "out" are the averages; where they are not given they are taken here. `spread` is a standard deviation, and
    `notes` a footnote, each of the column it is named for.
    """

    model: str
    scores: Mapping[str, float]
    spread: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    group: str = ""

    def score(self, column: str) -> float:
        """NaN where there is none."""
        if column in self.scores:
            return self.scores[column]
        if column not in paper.AVERAGES:
            return math.nan
        parts = [self.scores.get(part, math.nan) for part in paper.AVERAGES[column]]
        return sum(parts) / len(parts)


def beside_paper(
    ours: Mapping[str, Mapping[str, float]], table: str = "main", group: str | None = None, all_rows: bool = True
) -> list[Line]:
    """Our scores, model -> column -> percentage, beside the paper's of the same models, with its errata as notes.

    Our models that the paper does not have come last; `all_rows` also shows the paper's rows that we have not.
    """
    lines = []
    printed = [row for row in paper.TABLES[table] if group in (None, row.group)]
    for row in printed:
        if row.model in ours:
            lines.append(Line(f"{row.model}, ours", ours[row.model], group=row.group))
        if row.model in ours or all_rows:
            lines.append(Line(f"{row.model}, paper", row.scores, row.spread, row.notes, row.group))
    known = {row.model for row in printed}
    return lines + [Line(model, scores, group="Other models") for model, scores in ours.items() if model not in known]


class _Style(NamedTuple):
    """How a format writes things."""

    text: Callable[[str], str]
    bold: Callable[[str], str]
    mark: Callable[[str], str]
    plus_minus: str
    dash: str


def escape_latex(text: str) -> str:
    r"""Text that LaTeX prints as it is: `a_b & 5%` becomes `a\_b \& 5\%`."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return re.sub(r"[\\~^&%$#_{}]", lambda found: special.get(found[0], "\\" + found[0]), _one_line(text))


def escape_markdown(text: str) -> str:
    r"""Text that Markdown prints as it is inside a table: `a|b` becomes `a\|b`."""
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())


_MARKDOWN = _Style(escape_markdown, "**{}**".format, "<sup>{}</sup>".format, " ± ", "–")
_LATEX = _Style(escape_latex, r"\textbf{{{}}}".format, r"$^{{{}}}$".format, r" $\pm$ ", "--")


class _Column(NamedTuple):
    """A column: its heading, the block it belongs to ("in", "out" or ""), and the scores that share its cells."""

    title: str
    block: str
    keys: tuple[str, ...]


def _columns(lines: Sequence[Line]) -> list[_Column]:
    """The paper's columns, a block only where a row has a score in it, then all other names in order of appearance."""
    names = list(dict.fromkeys(name for line in lines for name in line.scores))
    columns = []
    for block, parts in paper.AVERAGES.items():
        if any(name in (*parts, block) for name in names):
            cells = [AIME, *((p,) for p in parts if p not in AIME)] if block == "in" else [(p,) for p in parts]
            columns += [_Column("AIME 24/25" if c == AIME else _title(c[0]), block, c) for c in cells]
            columns.append(_Column("Avg.", block, (block,)))
    own = [n for n in names if n not in paper.AVERAGES and not any(n in parts for parts in paper.AVERAGES.values())]
    return columns + [_Column(_title(n), "", (n,)) for n in own]


def _title(name: str) -> str:
    return BENCHMARKS[name].title if name in BENCHMARKS else name


def _body(
    lines: Sequence[Line], columns: Sequence[_Column], style: _Style, within_groups: bool
) -> tuple[list[list[str]], list[str]]:
    """The cells of every row, the model first, and the footnotes, each with its mark."""

    def rivals(line: Line) -> str:
        return line.group if within_groups else ""

    best = {
        (group, key): _best([line.score(key) for line in lines if rivals(line) == group])
        for group in {rivals(line) for line in lines}
        for key in (key for column in columns for key in column.keys)
    }
    footnotes: dict[str, str] = {}

    def number(line: Line, key: str) -> str:
        score = line.score(key)
        if math.isnan(score):
            return style.dash
        text = f"{score:.1f}"
        if key in line.spread:
            text += f"{style.plus_minus}{line.spread[key]:.1f}"
        text = style.bold(text) if f"{score:.1f}" == best[rivals(line), key] else text
        if key in line.notes:
            text += style.mark(footnotes.setdefault(line.notes[key], _letter(len(footnotes))))
        return text

    def cell(line: Line, column: _Column) -> str:
        numbers = [number(line, key) for key in column.keys]
        return style.dash if set(numbers) == {style.dash} else "/".join(numbers)

    rows = [[style.text(line.model), *(cell(line, column) for column in columns)] for line in lines]
    notes = [f"{style.mark(mark)} {style.text(text)}" for text, mark in footnotes.items()]
    if any("gpqa" in column.keys for column in columns):
        notes.append(style.text("* GPQA-diamond"))
    return rows, notes


def _best(scores: Sequence[float]) -> str | None:
    """The highest score as it is printed; None where there is nothing to compare."""
    present = [score for score in scores if not math.isnan(score)]
    return f"{max(present):.1f}" if len(present) > 1 else None


def _letter(number: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    before, last = divmod(number, 26)
    return (_letter(before - 1) if before else "") + chr(ord("a") + last)


def markdown(lines: Sequence[Line], caption: str = "", within_groups: bool = False) -> str:
    """The table in GitHub's Markdown, footnotes below; ValueError without rows."""
    columns = _checked(lines)
    rows, notes = _body(lines, columns, _MARKDOWN, within_groups)
    out = [escape_markdown(caption), ""] if caption else []
    out.append(_row(["Model", *(escape_markdown(column.title) for column in columns)]))
    out.append(_row(["---", *("---:" for _ in columns)]))
    group = ""
    for line, cells in zip(lines, rows, strict=True):
        if line.group != group and line.group:
            out.append(_row([f"*{escape_markdown(_title(line.group))}*", *("" for _ in columns)]))
        group = line.group
        out.append(_row(cells))
    for note in notes:
        out += ["", note]
    return "\n".join(out) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def latex(lines: Sequence[Line], caption: str = "", label: str = "", within_groups: bool = False) -> str:
    """The table as a LaTeX `table*` that needs the package booktabs, footnotes below; ValueError without rows."""
    columns = _checked(lines)
    rows, notes = _body(lines, columns, _LATEX, within_groups)
    titles = {"in": "In-Domain Performance", "out": "Out-of-Domain Performance", "": ""}
    blocks = list(dict.fromkeys(column.block for column in columns))
    widths = {block: sum(column.block == block for column in columns) for block in blocks}
    out = [r"\begin{table*}[t]", r"\centering"]
    out += [rf"\caption{{{escape_latex(caption)}}}"] if caption else []
    out += [rf"\label{{{label}}}"] if label else []
    out += [rf"\begin{{tabular}}{{l{'|'.join('c' * widths[block] for block in blocks)}}}", r"\toprule"]
    if set(blocks) != {""}:
        heads = [rf"\multicolumn{{{widths[block]}}}{{c}}{{\textbf{{{titles[block]}}}}}" for block in blocks]
        out.append(" & ".join(["", *heads]) + r" \\")
    out.append(" & ".join(rf"\textbf{{{escape_latex(t)}}}" for t in ("Model", *(c.title for c in columns))) + r" \\")
    out.append(r"\midrule")
    group = ""
    for number, (line, cells) in enumerate(zip(lines, rows, strict=True)):
        if line.group != group:
            out += [r"\midrule"] if number else []
            heading = rf"\multicolumn{{{len(columns) + 1}}}{{c}}{{{escape_latex(_title(line.group))}}} \\"
            out += [heading, r"\midrule"] if line.group else []
        group = line.group
        out.append(" & ".join(cells) + r" \\")
    out += [r"\bottomrule", r"\end{tabular}"]
    out += [rf"\par\smallskip{{\footnotesize {note}}}" for note in notes]
    return "\n".join([*out, r"\end{table*}"]) + "\n"


def _checked(lines: Sequence[Line]) -> list[_Column]:
    columns = _columns(lines)
    if not columns:
        raise ValueError("a table needs at least one row with a score")
    return columns
