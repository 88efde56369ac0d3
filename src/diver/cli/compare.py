"""`diver compare`: runs of several methods and seeds, or evaluations, side by side."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from diver.core.run_folder import given_name
from diver.core.settings import Positional, settings
from diver.core.tables import Export, Format, Uncertainty, export, write_table
from diver.core.types import DiverError
from diver.recipe.flags import parse

COMMON = {
    "what to compare": "results baseline evaluations",
    "tables and figures": "format uncertainty figures out",
}
OVER = "95 % intervals over seeds and problems, paired in differences"
LEGENDS = {"interval": f"; [ ]: {OVER}", "plus-minus": f"; ±: half the width of {OVER}", "none": ""}


@settings
class CompareArguments(Export):
    """Compare runs over seeds and problems, or evaluations over problems.

        diver compare runs/clip-higher runs/diver-mix

    Runs whose recipes differ only in the seed are one variant. A folder may hold the runs of several seeds, as
    `diver train --seeds` writes them. The last evaluation of every run counts, and all must have the same settings.
    Other differences between variants are listed below the tables.

    Evaluations are folders of `diver eval`, or single files RUN/eval/step_NNNN.json. Each is compared with the first,
    problem by problem, over the problems that both have.
    """

    results: Positional[tuple[str, ...]]
    """Run folders, folders of run folders, or evaluations. NAME=PATH gives a name in the tables: base=runs/a
    ours=runs/b."""
    baseline: str | None = None
    """The variant that the others are compared with. Default: the first, or the policy before training if only one
    is named."""
    evaluations: Path | None = None
    """Folder of evaluations by `diver eval RUN` to use instead of those of the runs. They may be at another
    temperature, for instance."""
    format: Format = "markdown"
    """Format of the tables. The two tables of runs are printed as Markdown and written to --out in this format. The
    table of evaluations is printed alone, so that it can be piped. With --out it is also written there."""
    uncertainty: Uncertainty = "interval"
    """How tables of runs show uncertainty. The 95 % interval, half its width after a ±, or nothing."""
    out: Path | None = None
    """Folder of the tables and figures. Runs have levels, differences, pass_at_k, difference_over_k and curves.
    Evaluations have comparison and difference_over_k."""

    def __post_init__(self) -> None:
        if not self.results:
            raise DiverError(
                "name run folders, or folders of them, or evaluations: diver compare runs/clip-higher runs/diver-mix"
            )
        self.check_export(self.out)


def command(args: Sequence[str]) -> None:
    """Compare runs over seeds and problems, or evaluations over problems."""
    from diver.evaluate.comparison import compare
    from diver.evaluate.results import is_evaluation
    from diver.rollouts.dependence import of_evaluation

    arguments = parse(CompareArguments, "diver compare", args, COMMON)
    paths = [path for _, path in map(given_name, arguments.results)]
    if absent := [path for path in paths if not path.expanduser().exists()]:
        raise DiverError(f"{absent[0]}: no such file or folder")
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
    for path in evaluations:
        for benchmark, found in of_evaluation(path):
            arguments.notes()(f"{path}, {benchmark}: {found}")


def compare_runs(arguments: CompareArguments) -> None:
    """Print levels and differences over seeds and problems. If `out` names a folder, write them there, with figures."""
    from diver.core.figures import write_bands
    from diver.pages.over_seeds import by_variant, compare_variants, draw, draw_curves, read_runs
    from diver.pages.run_record import repeated

    if arguments.out is None and arguments.format != "markdown":
        raise DiverError(f"--format {arguments.format}: there are two tables; name a folder with --out")
    variants = by_variant(read_runs(arguments.results, arguments.evaluations))
    found, tables, bands, notes, words = compare_variants(variants, arguments.baseline)
    tables = {name: dataclasses.replace(t, uncertainty=arguments.uncertainty) for name, t in tables.items()}
    print("\n".join(export(table, "markdown") for table in tables.values()))
    print(f"Pass@k in per cent, differences in points{LEGENDS[arguments.uncertainty]}.")
    runs = [run for of in variants.values() for run in of.values()]
    repeats = [f"{run.folder}: {repetition}" for run in runs if (repetition := repeated(run))]
    for note in [*words.values(), *notes, *repeats]:
        print(note)
    if arguments.out:
        written = [write_table(t, arguments.out, arguments.format, name) for name, t in tables.items()]
        if figures := [*arguments.figure_paths(arguments.out, "pass_at_k")]:
            draw(found, *figures)
            if bands:
                write_bands(bands, *arguments.figure_paths(arguments.out, "difference_over_k"))
                figures += arguments.figure_paths(arguments.out, "difference_over_k")
            figures += draw_curves(variants, *arguments.figure_paths(arguments.out, "curves"))
            print("Curves: means over seeds; the band is from the lowest to the highest seed.")
        print(*written, *figures, sep="\n")
