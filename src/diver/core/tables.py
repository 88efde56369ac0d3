"""Tables as Markdown, CSV, parquet and LaTeX, and text that is safe to display.

`Export` determines where a command writes its table and figures: terminal, pipe or folder."""

import csv
import io
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from diver.core.extras import require
from diver.core.files import write_text
from diver.core.formats import write_parquet
from diver.core.settings import settings
from diver.core.statistics import Estimate
from diver.core.types import DiverError

# Characters that must not reach a terminal or a page: controls except newline and tab, surrogates, marks that change
# the direction of the following text, and two noncharacters.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
Format = Literal["markdown", "csv", "latex", "parquet"]
SUFFIXES: Mapping[Format, str] = {"markdown": ".md", "csv": ".csv", "latex": ".tex", "parquet": ".parquet"}
Figure = Literal["png", "svg", "pdf"]
Uncertainty = Literal["interval", "plus-minus", "none"]
Cell = str | int | float | Estimate | None
_LATEX = str.maketrans({
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
})  # fmt: skip
_IN_CELL = _LATEX | str.maketrans({"–": "--", "−": "$-$", "±": r"$\pm$"})
_MINUS = re.compile(r"(?<!\w)-(?=[\d.])")  # the minus of a number, not the hyphen of a name or of 1e-05

_FORMULA = re.compile("[=+\\-@\t\n\uff1d\uff0b\uff0d\uff20]")  # the last four are the full-width forms of = + - @
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BAR = re.compile(r"(?<!\\)\|")  # an unescaped | ends a cell of Markdown


def counted(number: int, noun: str) -> str:
    """`1 step`, `2 steps`, `1,024 responses`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def clean(value: Any) -> str:
    """A value as text that is safe to display. Models and data sets may write escape sequences, so unsafe characters
    become U+FFFD."""
    return _UNSAFE.sub("\ufffd", str(value).replace("\r\n", "\n"))


class Measure(NamedTuple):
    """A column of numbers: `name` in data, `title` in text. Text shows the numbers times `scale`."""

    name: str
    title: str = ""
    scale: float = 1.0
    digits: int = 1
    sign: str = ""
    """"+" for a difference: positive numbers have a sign, too."""
    best: bool = False
    """Whether higher is better: LaTeX shows the highest mean of the column in bold."""

    def text(self, cell: Cell, uncertainty: Uncertainty = "interval") -> str:
        """The text of a cell; a dash for an unknown value.

        Args:
            cell: a cell of the column.
            uncertainty: how an Estimate is shown: with its interval, with half its width after a ±, or the mean alone.
        """
        if isinstance(cell, Estimate):
            if uncertainty == "interval" or math.isnan(cell.low):
                return cell.text(self.scale, self.digits, self.sign)
            mean = cell._replace(low=math.nan).text(self.scale, self.digits, self.sign)
            half = self.scale * (cell.high - cell.low) / 2
            return f"{mean} ± {half:.{self.digits}f}" if uncertainty == "plus-minus" else mean
        if isinstance(cell, float):
            return "–" if math.isnan(cell) else f"{self.scale * cell:{self.sign}.{self.digits}f}"
        return "–" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell


@dataclass(frozen=True)
class Table:
    """A table with a column for each of `measures`. The first column, titled `of`, has the names of the rows."""

    of: str
    measures: Sequence[Measure]
    rows: Mapping[str, Sequence[Cell]]
    shown: Sequence[Sequence[str]] | None = None
    """The text of the table, header first, if the cells of a column differ in format."""
    uncertainty: Uncertainty = "interval"
    """How its estimates are shown."""

    @classmethod
    def of_columns(cls, of: str, names: Iterable[str], columns: Mapping[Measure, Sequence[Cell]]) -> "Table":
        """A table from its columns, each with a cell for every name. A column without values is left out."""
        filled = {measure: cells for measure, cells in columns.items() if any(cell is not None for cell in cells)}
        return cls(of, [*filled], dict(zip(names, zip(*filled.values(), strict=True), strict=True)))

    def text(self) -> list[list[str]]:
        """The header and the rows as text."""
        if self.shown is not None:
            return [[*row] for row in self.shown]
        header = [self.of, *(m.title or m.name for m in self.measures)]
        named = [(name, zip(self.measures, cells, strict=True)) for name, cells in self.rows.items()]
        return [header, *([name, *(m.text(cell, self.uncertainty) for m, cell in cells)] for name, cells in named)]

    def upright(self) -> list[list[str]]:
        """The transposed table, one row per measure, which is easier to read for few rows."""
        (_, *names), *rows = zip(*self.text(), strict=True)
        return [["", *names], *map(list, rows)]

    def best(self) -> set[tuple[int, int]]:
        """(Row, measure) of the highest mean of each measure with `best`, and of the means that are printed alike.

        A measure whose means are all printed alike has none.
        """
        places = set()
        for i, measure in enumerate(self.measures):
            cells = [cells[i] for cells in self.rows.values()]
            means = [cell.mean if isinstance(cell, Estimate) else math.nan for cell in cells]
            numbers = [mean for mean in means if not math.isnan(mean)]
            if measure.best and len({*map(measure.text, numbers)}) > 1:
                top = measure.text(max(numbers))
                places |= {(row, i) for row, mean in enumerate(means) if measure.text(mean) == top}
        return places

    def records(self) -> list[dict[str, Cell]]:
        """Each row as data. An Estimate becomes its mean, NAME_low and NAME_high. Unknown values are None."""
        records: list[dict[str, Cell]] = [{self.of: name} for name in self.rows]
        for i, measure in enumerate(self.measures):
            cells = [cells[i] for cells in self.rows.values()]
            ends = ("", "_low", "_high") if any(isinstance(cell, Estimate) for cell in cells) else ("",)
            for record, cell in zip(records, cells, strict=True):
                values = cell if isinstance(cell, Estimate) else (cell, None, None)
                for end, value in zip(ends, values, strict=False):
                    unknown = isinstance(value, float) and math.isnan(value)
                    record[f"{measure.name}{end}"] = None if unknown else value
        return records


def _inert(cell: Cell) -> Cell:
    """A cell that no spreadsheet evaluates: a text like a formula gets an apostrophe (OWASP, "CSV Injection")."""
    if not isinstance(cell, str):
        return cell
    text = clean(cell)  # csv does not quote a carriage return, behind which a spreadsheet begins a row
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def export(table: Table, kind: Format) -> str:
    """The table as text of one of the formats but parquet."""
    if kind == "csv":
        records, out = table.records(), io.StringIO()
        rows: list[list[Cell]] = [[*records[0]] if records else [table.of], *([*record.values()] for record in records)]
        csv.writer(out, lineterminator="\n").writerows([*map(_inert, row)] for row in rows)
        return out.getvalue()
    if kind == "latex":
        return _latex(table)
    header, *shown = table.text()
    return markdown(header, shown)


def write_table(table: Table, folder: Path, kind: Format, name: str = "table") -> Path:
    """FOLDER/NAME with the suffix of the format; returns its path."""
    path = folder / f"{name}{SUFFIXES[kind]}"
    if kind == "parquet":
        write_parquet(path, table.records())
    else:
        write_text(path, export(table, kind))
    return path


def _latex(table: Table) -> str:
    """A tabular with the rules of booktabs; the first column is text, and the best means are bold."""
    titles, *body = [[" ".join(clean(cell).splitlines()).translate(_IN_CELL) for cell in row] for row in table.text()]
    body = [[name, *(_MINUS.sub("$-$", cell) for cell in cells)] for name, *cells in body]
    bold = table.best()
    for row, column in bold:
        mean, space, interval = body[row][column + 1].partition(" ")
        body[row][column + 1] = rf"\textbf{{{mean}}}{space}{interval}"
    lines = [" & ".join(cells) + r" \\" for cells in (titles, *body)]
    lines = [f"{{}}{line}" if line.startswith(("[", "*")) else line for line in lines]  # not an argument of \\
    rule = "% Bold: the highest mean of the column, whether or not its difference from the others is significant.\n"
    ruled = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    begin = f"\\begin{{tabular}}{{l{'r' * (len(titles) - 1)}}}"
    return (rule if bold else "") + "\n".join([begin, *ruled, r"\end{tabular}", ""])


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], text: int = 1) -> str:
    """A Markdown table, padded to be readable as plain text. The first `text` columns are text, the others numbers."""
    header, *rows = [[_BAR.sub(r"\|", " ".join(clean(cell).splitlines())) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    signs = ["<" if i < text else ">" for i in range(len(widths))]
    lines = [
        [f"{cell:{sign}{width}}" for cell, sign, width in zip(row, signs, widths, strict=True)]
        for row in (header, *rows)
    ]
    lines.insert(1, ["-" * width if i < text else "-" * (width - 1) + ":" for i, width in enumerate(widths)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def escape_latex(text: str) -> str:
    r"""Escape text for LaTeX: `a_b & 5%` becomes `a\_b \& 5\%`."""
    return " ".join(text.split()).translate(_LATEX)


def escape_markdown(text: str) -> str:
    r"""Escape text for a cell of a Markdown table: `a|b` becomes `a\|b`."""
    return re.sub(r"([\\|*_`<>\[\]])", r"\\\1", " ".join(text.split()))


Log = Callable[[str], Any]


@settings
class Export:
    """The flags of every command that prints a table of results."""

    format: Format = "markdown"
    """Format of the table. All but Markdown is printed alone, so that it can be piped. Everything else then goes to
    standard error. With --out the table is also written there, and parquet only there."""
    figures: tuple[Figure, ...] = ()
    """Kinds of figures to write into --out. Commas or spaces separate them."""

    def check_export(self, out: Path | None) -> None:
        """Raises DiverError if a file is asked for and `out` names no folder."""
        if out is None and (self.figures or self.format == "parquet"):
            flag = "--figures" if self.figures else "--format parquet"
            raise DiverError(f"{flag}: is written to a file; name a folder with --out")
        require(*(["matplotlib"] if self.figures else []), *(["pyarrow"] if self.format == "parquet" else []))

    def notes(self, log: Log = print) -> Log:
        """The stream for all output other than the table."""
        say = log if self.format == "markdown" else partial(print, file=sys.stderr)
        return lambda line: say(clean(line))

    def show(self, table: Table, as_read: str, log: Log = print) -> None:
        """Print `as_read` in Markdown; in other formats print only the table."""
        if self.format == "markdown":
            log(as_read)
        elif self.format != "parquet":
            print(export(table, self.format), end="")

    def paths(self, folder: Path, name: str = "table") -> list[Path]:
        """The files of the table and of the figures, without Markdown, which each command writes itself."""
        tables = [] if self.format == "markdown" else [folder / f"{name}{SUFFIXES[self.format]}"]
        return [*tables, *self.figure_paths(folder, name)]

    def write(self, table: Table, folder: Path, name: str = "table") -> list[Path]:
        """Write FOLDER/NAME in the format, except Markdown, which each command writes itself."""
        return [] if self.format == "markdown" else [write_table(table, folder, self.format, name)]

    def figure_paths(self, folder: Path, name: str = "table") -> Sequence[Path]:
        return [folder / f"{name}.{kind}" for kind in self.figures]
