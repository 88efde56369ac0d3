"""`diver compare`: runs of several methods and seeds side by side."""

from collections.abc import Sequence
from pathlib import Path

from tyro.conf import Positional

from diver.config.flags import parse
from diver.render.export import Export
from diver.render.tables import Format
from diver.settings import settings
from diver.types import DiverError


@settings
class CompareArguments(Export):
    """Compare runs over seeds and problems: diver compare runs/clip-higher runs/diver-mix

    Runs whose recipes differ in nothing but the seed are one variant; a folder may hold the runs of several seeds, as
    `diver train --seeds` writes them. Every run is represented by its last evaluation, and all must have been made alike. What
    else differs between variants is said below the tables.
    """

    runs: Positional[tuple[Path, ...]]
    """Run folders, or folders of run folders."""
    baseline: str | None = None
    """The variant that the others are compared with; by default the first, or of one alone the policy before training."""
    evaluations: Path | None = None
    """The folder below which `diver eval RUN` wrote evaluations that stand for the runs' own, such as at another temperature:
    runs/eval."""
    format: Format = "markdown"
    """Of the two tables in --out: markdown, csv, latex or parquet. Printed they are Markdown, whatever the format."""
    out: Path | None = None
    """The folder for the tables, levels and differences, and for the figures pass_at_k."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise DiverError("name run folders, or folders of them: diver compare runs/clip-higher runs/diver-mix")
        self.check_export(self.out)
        if self.out is None and self.format != "markdown":
            raise DiverError(f"--format {self.format}: there are two tables; name a folder with --out")


def command(args: Sequence[str]) -> None:
    """Compare runs of several methods and seeds: paired over seeds and problems, with intervals."""
    from diver.render.tables import export, write_table
    from diver.report.over_seeds import BEFORE, by_variant, differences, draw, evaluations, levels, notes, read_runs

    arguments = parse(CompareArguments, "diver compare", args)
    variants = by_variant(read_runs(arguments.runs, arguments.evaluations))
    found = evaluations(variants)
    baseline = arguments.baseline or (BEFORE if len(variants) == 1 and BEFORE in found else next(iter(variants)))
    if baseline not in found:
        raise DiverError(f"--baseline {baseline!r}: there is no such variant; there are {', '.join(map(repr, found))}")
    tables = {"levels": levels(found), "differences": differences(found, baseline)}
    shown = [export(table, "markdown") for table in tables.values() if table.rows]
    print("\n".join(shown))
    print(
        "Pass@k in per cent, differences in points; [ ]: 95 % intervals over seeds and problems, paired in differences."
    )
    for note in notes(variants, found, baseline):
        print(note)
    if arguments.out:
        written = [write_table(t, arguments.out, arguments.format, name) for name, t in tables.items() if t.rows]
        figures = arguments.figure_paths(arguments.out, "pass_at_k")
        if figures:
            draw(found, *figures)
        print(*written, *figures, sep="\n")
