"""Where the table and the figures of a command go: to be read, into a pipe, into its folder."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from diver.core.extras import require
from diver.core.settings import settings, words
from diver.core.tables import SUFFIXES, Format, Table, export, write_table
from diver.core.text import clean
from diver.core.types import DiverError

FIGURES = ("png", "svg", "pdf")
"""The kinds of figures that --figures takes."""
Log = Callable[[str], Any]


@settings
class Export:
    """The flags of every command that prints a table of results."""

    format: Format = "markdown"
    """Format of the table. All but Markdown is printed alone, so that it can be piped. Everything else then goes to
    standard error. With --out the table is also written there, and parquet only there."""
    figures: str = ""
    """Kinds of figures to write into --out: png, svg, pdf. Commas or spaces separate them."""

    def check_export(self, out: Path | None) -> None:
        """Raises DiverError where a kind is unknown, or needs a folder and `out` names none."""
        for kind in words(self.figures) or [self.figures]:
            if kind not in ("", *FIGURES):
                raise DiverError(
                    f"--figures {self.figures}: must be of {', '.join(FIGURES)}, several as pdf,png; not {kind!r}"
                )
        if out is None and (self.figures or self.format == "parquet"):
            flag = "--figures" if self.figures else "--format parquet"
            raise DiverError(f"{flag}: is written to a file; name a folder with --out")
        require(*(["matplotlib"] if self.figures else []), *(["pyarrow"] if self.format == "parquet" else []))

    def notes(self, log: Log = print) -> Log:
        """Where everything but the table is said."""
        say = log if self.format == "markdown" else partial(print, file=sys.stderr)
        return lambda line: say(clean(line))

    def show(self, table: Table, as_read: str, log: Log = print) -> None:
        """Print the table: `as_read` where it is to be read, else by itself."""
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
        return [folder / f"{name}.{kind}" for kind in words(self.figures)]
