"""Tables: as Markdown to be read, as CSV and parquet with every number, as LaTeX for a paper."""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from diver.io.files import write_bytes, write_text
from diver.io.text import clean
from diver.stats import Estimate
from diver.types import DiverError

Format = Literal["markdown", "csv", "latex", "parquet"]
SUFFIXES: Mapping[Format, str] = {"markdown": ".md", "csv": ".csv", "latex": ".tex", "parquet": ".parquet"}
Cell = str | int | float | Estimate | None
_LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "−": "$-$"}
)

_BAR = re.compile(r"(?<!\\)\|")  # it would end a cell of Markdown


class Measure(NamedTuple):
    """A column of numbers: `name` as data has it, `title` as text has it; text shows them times `scale`."""

    name: str
    title: str = ""
    scale: float = 1.0
    digits: int = 1
    sign: str = ""
    """"+" for a difference: positive ones have a sign, too."""

    def text(self, cell: Cell) -> str:
        """A cell as it is read; a dash where nothing is known."""
        if isinstance(cell, Estimate):
            return cell.text(self.scale, self.digits, self.sign)
        if isinstance(cell, float):
            return "–" if math.isnan(cell) else f"{self.scale * cell:{self.sign}.{self.digits}f}"
        return "–" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell


@dataclass(frozen=True)
class Table:
    """A row for each of `rows`, whose name stands in the column `of`; its cells are those of `measures`, in order."""

    of: str
    measures: Sequence[Measure]
    rows: Mapping[str, Sequence[Cell]]
    shown: Sequence[Sequence[str]] | None = None
    """Its text, header first, where the cells of a column are not all shown alike."""

    def text(self) -> list[list[str]]:
        """The header and the rows, as they are read."""
        if self.shown is not None:
            return [[*row] for row in self.shown]
        header = [self.of, *(m.title or m.name for m in self.measures)]
        named = [(name, zip(self.measures, cells, strict=True)) for name, cells in self.rows.items()]
        return [header, *([name, *(m.text(cell) for m, cell in cells)] for name, cells in named)]

    def upright(self) -> list[list[str]]:
        """The same with a row a measure: few rows of many measures are read more easily so."""
        header, *rows = self.text()
        return [
            ["", *(row[0] for row in rows)],
            *([title, *(row[i] for row in rows)] for i, title in enumerate(header) if i),
        ]

    def records(self) -> list[dict[str, Cell]]:
        """Each row as data: of an Estimate its mean, and its ends as NAME_low and NAME_high; None: not known."""
        estimated = [
            any(isinstance(cells[i], Estimate) for cells in self.rows.values()) for i in range(len(self.measures))
        ]
        records = []
        for name, cells in self.rows.items():
            record: dict[str, Cell] = {self.of: name}
            for measure, cell, has_ends in zip(self.measures, cells, estimated, strict=True):
                mean, *ends = cell if isinstance(cell, Estimate) else (cell, None, None)
                record[measure.name] = _known(mean)
                if has_ends:
                    record |= {f"{measure.name}_{end}": _known(v) for end, v in zip(("low", "high"), ends, strict=True)}
            records.append(record)
        return records


def _known(cell: Cell) -> Cell:
    return None if isinstance(cell, float) and math.isnan(cell) else cell


def export(table: Table, kind: Format) -> str:
    """The table as text of one of the formats; DiverError for parquet, which is not text."""
    if kind == "parquet":
        raise DiverError("--format parquet: is written to a file; name a folder with --out")
    if kind == "csv":
        records, out = table.records(), io.StringIO()
        writer = csv.DictWriter(out, list(records[0]) if records else [table.of], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return out.getvalue()
    header, *rows = table.text()
    return markdown(header, rows) if kind == "markdown" else _latex(header, rows)


def write_table(table: Table, folder: Path, kind: Format, name: str = "table") -> Path:
    """FOLDER/NAME with the suffix of the format; returns its path."""
    path = folder / f"{name}{SUFFIXES[kind]}"
    if kind != "parquet":
        write_text(path, export(table, kind))
        return path
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(table.records()), out)
    write_bytes(path, out.getvalue())
    return path


def _latex(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A tabular with the rules of booktabs; the first column is text."""
    lines = [" & ".join(_on_one_line(cell).translate(_LATEX) for cell in row) + r" \\" for row in (header, *rows)]
    lines = [f"{{}}{line}" if line.startswith(("[", "*")) else line for line in lines]  # no argument of the line above
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    return "\n".join([f"\\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", *body, r"\end{tabular}", ""])


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], text: int = 1) -> str:
    """A table whose first `text` columns are text, the others numbers, padded so that it can be read as it is."""
    header, *rows = [[_BAR.sub(r"\|", _on_one_line(cell)) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    signs = ["<" if i < text else ">" for i in range(len(widths))]
    lines = [
        [f"{cell:{sign}{width}}" for cell, sign, width in zip(row, signs, widths, strict=True)]
        for row in (header, *rows)
    ]
    lines.insert(1, ["-" * width if i < text else "-" * (width - 1) + ":" for i, width in enumerate(widths)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _on_one_line(cell: str) -> str:
    return " ".join(clean(cell).splitlines())
