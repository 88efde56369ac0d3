"""`diver compare`: runs of several methods and seeds, or evaluations, side by side."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tyro.conf import Positional

from diver.core.export import Export
from diver.core.run_folder import given_name
from diver.core.settings import settings
from diver.core.tables import Format, Uncertainty, export, write_table
from diver.core.types import DiverError
from diver.recipe.flags import parse

OVER = "95 % intervals over seeds and problems, paired in differences"
LEGENDS = {"interval": f"; [ ]: {OVER}", "plus-minus": f"; ±: half the width of {OVER}", "none": ""}


@settings
class CompareArguments(Export):
    """Compare runs over seeds and problems, or evaluations over problems: diver compare runs/clip-higher runs/diver-mix

    Runs whose recipes differ in nothing but the seed are one variant; a folder may hold the runs of several seeds, as
    `diver train --seeds` writes them. Every run is represented by its last evaluation, and all must have been made
    alike. What else differs between variants is said below the tables.

    Evaluations are folders of `diver eval`, or single files RUN/eval/step_NNNN.json. Each is compared with the first,
    problem by problem, over the problems that both have.
    """

    results: Positional[tuple[str, ...]]
    """Run folders, or folders of run folders; or evaluations. NAME=PATH gives a name in the tables: base=runs/a
    ours=runs/b."""
    baseline: str | None = None
    """The variant that other runs are compared with; by default the first, or of one alone the policy before
    training."""
    evaluations: Path | None = None
    """The folder below which `diver eval RUN` wrote evaluations that stand for the runs' own, such as at another
    temperature: runs/eval."""
    format: Format = "markdown"
    """Format of the tables: markdown, csv, latex or parquet. Runs have two tables, which are printed as
    Markdown and written to --out in this format. Evaluations have one table, which is printed alone so that it can be
    piped; with --out it is also written there."""
    uncertainty: Uncertainty = "interval"
    """How tables of runs show it: the 95 % interval; plus-minus, half the width of the interval behind a ±; or none."""
    out: Path | None = None
    """The folder for the tables, levels and differences, and for the figures pass_at_k and curves; of evaluations for
    comparison."""

    def __post_init__(self) -> None:
        if not self.results:
            raise DiverError(
                "name run folders, or folders of them, or evaluations: diver compare runs/clip-higher runs/diver-mix"
            )
        self.check_export(self.out)


def command(args: Sequence[str]) -> None:
    """Compare runs over seeds and problems, or evaluations over problems: paired, with intervals."""
    from diver.evaluate.comparison import compare
    from diver.evaluate.store import is_evaluation

    arguments = parse(CompareArguments, "diver compare", args)
    paths = [path for _, path in map(given_name, arguments.results)]
    evaluations = [path for path in paths if is_evaluation(path)]
    if not evaluations:
        compare_runs(arguments)
        return
    if others := [path for path in paths if path not in evaluations]:
        raise DiverError(
            f"{evaluations[0]} is an evaluation and {others[0]} is not: compare runs with runs, or evaluations with "
            "each other, which are folders of diver eval and RUN/eval/step_NNNN.json"
        )
    for name in ("baseline", "evaluations", "uncertainty"):
        if getattr(arguments, name) not in (None, "interval"):
            raise DiverError(f"--{name}: is for runs, and {evaluations[0]} is an evaluation")
    compare(arguments.results, arguments, arguments.out)


def compare_runs(arguments: CompareArguments) -> None:
    """Print levels and differences over seeds and problems, and write them with their figures where `out` names a
    folder."""
    from diver.look.over_seeds import by_variant, compare_variants, draw, draw_curves, read_runs

    if arguments.out is None and arguments.format != "markdown":
        raise DiverError(f"--format {arguments.format}: there are two tables; name a folder with --out")
    variants = by_variant(read_runs(arguments.results, arguments.evaluations))
    found, tables, notes = compare_variants(variants, arguments.baseline)
    tables = {name: dataclasses.replace(t, uncertainty=arguments.uncertainty) for name, t in tables.items()}
    print("\n".join(export(table, "markdown") for table in tables.values()))
    print(f"Pass@k in per cent, differences in points{LEGENDS[arguments.uncertainty]}.")
    for note in notes:
        print(note)
    if arguments.out:
        written = [write_table(t, arguments.out, arguments.format, name) for name, t in tables.items()]
        if figures := [*arguments.figure_paths(arguments.out, "pass_at_k")]:
            draw(found, *figures)
            figures += draw_curves(variants, *arguments.figure_paths(arguments.out, "curves"))
            print("Curves: means over seeds; the band is from the lowest to the highest seed.")
        print(*written, *figures, sep="\n")
