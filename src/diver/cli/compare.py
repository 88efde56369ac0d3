"""`diver compare`: runs of several methods and seeds, or evaluations, side by side."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from diver.core.bands import Band
from diver.core.files import write_text
from diver.core.run_folder import given_name
from diver.core.settings import Positional, no_file, settings
from diver.core.tables import Cell, Export, Format, Measure, Table, Uncertainty, export, write_table
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
    from diver.rollouts.dependence import of_evaluation

    arguments = parse(CompareArguments, "diver compare", args, COMMON)
    paths = [path for _, path in map(given_name, arguments.results)]
    if absent := [path for path in paths if not path.expanduser().exists()]:
        raise DiverError(no_file(absent[0]))
    evaluations = [path for path in paths if path.is_file() or (path / "results.json").is_file()]
    if not evaluations:
        write_runs(arguments)
        return
    if run_paths := [path for path in paths if path not in evaluations]:
        raise DiverError(
            f"{evaluations[0]} is an evaluation and {run_paths[0]} is not: compare runs with runs, or evaluations with "
            "each other, which are folders of diver eval and RUN/eval/step_NNNN.json"
        )
    for name in ("baseline", "evaluations", "uncertainty"):
        if getattr(arguments, name) not in (None, "interval"):
            raise DiverError(f"--{name}: is for runs, and {evaluations[0]} is an evaluation")
    write_evaluations(arguments.results, arguments, arguments.out)
    for path in evaluations:
        for benchmark, repetition in of_evaluation(path):
            arguments.notes()(f"{path}, {benchmark}: {repetition}")


def write_runs(arguments: CompareArguments) -> None:
    """Print levels and differences over seeds and problems. If `out` names a folder, write them there, with figures."""
    from diver.core.figures import GREY, write_bands, write_pass_curves
    from diver.evaluate.comparison import BEFORE, pass_estimates
    from diver.pages.over_seeds import by_variant, compare_runs, draw_curves, read_runs
    from diver.pages.run_record import repeated

    if arguments.out is None and arguments.format != "markdown":
        raise DiverError(f"--format {arguments.format}: there are two tables; name a folder with --out")
    variants = by_variant(read_runs(arguments.results, arguments.evaluations))
    evaluations, tables, bands, notes, sentences = compare_runs(variants, arguments.baseline)
    tables = {name: dataclasses.replace(t, uncertainty=arguments.uncertainty) for name, t in tables.items()}
    print("\n".join(export(table, "markdown") for table in tables.values()))
    print(f"Pass@k in per cent, differences in points{LEGENDS[arguments.uncertainty]}.")
    runs = [run for runs_by_seed in variants.values() for run in runs_by_seed.values()]
    repeats = [f"{run.folder}: {repetition}" for run in runs if (repetition := repeated(run))]
    for note in [*sentences.values(), *notes, *repeats]:
        print(note)
    if arguments.out:
        written = [write_table(t, arguments.out, arguments.format, name) for name, t in tables.items()]
        if figures := [*arguments.figure_paths(arguments.out, "pass_at_k")]:
            # The policy before training is grey, so that each variant has the same colour here and in the curves.
            grey = [GREY] * (BEFORE in evaluations)
            figures = [*write_pass_curves(pass_estimates(tables["levels"]), *figures, first=grey)]
            if bands:
                write_bands(bands, *arguments.figure_paths(arguments.out, "difference_over_k"))
                figures += arguments.figure_paths(arguments.out, "difference_over_k")
            figures += draw_curves(variants, *arguments.figure_paths(arguments.out, "curves"))
            print("Curves: means over seeds; the band is from the lowest to the highest seed.")
        print(*written, *figures, sep="\n")


def write_evaluations(paths: Sequence[str | Path], config: Export, out: Path | None) -> None:
    """Compare each evaluation with the first. `paths` are as in `read_results`, or NAME=PATH.

    Print the comparison, or its table in the format of `config`. If `out` names a folder, write both there, with the
    figures of the changes of Pass@k.

    Raises:
        DiverError: two evaluations have no benchmark or no problem in common.
    """
    from diver.core.figures import write_bands, write_intervals
    from diver.evaluate.comparison import Comparison, against
    from diver.evaluate.results import read_results

    if len(paths) < 2:
        raise DiverError("name two results or more, the first is the one that the others are compared with")
    base, *others = [(name or str(path), read_results(path)) for name, path in map(given_name, map(str, paths))]
    comparisons: dict[str, Comparison] = {}
    bands: dict[str, Band] = {}
    texts: list[str] = []
    for name, other in others:
        rows, new_bands, text = against(*base, name, other)
        bands |= {f"{name} minus {base[0]}, {title}": band for title, band in new_bands.items()}
        comparisons |= {f"{name}: {row.label}" if len(others) > 1 else row.label: row for row in rows}
        texts.append(text)
    measures = [Measure("base"), Measure("other"), Measure("change"), Measure("significant")]
    cells: dict[str, list[Cell]] = {
        label: [row.base, row.trained, row.change, int(row.significant)] for label, row in comparisons.items()
    }  # Pass@k is a fraction in data, and in per cent in text
    shown = [["measure", "base", "other", "change"], *([label, *row.cells()[1:]] for label, row in comparisons.items())]
    table = Table("measure", measures, cells, shown)
    config.show(table, text := "\n".join(texts))
    if out is not None:
        write_text(out / "comparison.md", text)
        config.write(table, out, "comparison")
        if config.figures:
            changes = {label: [row.change] for label, row in comparisons.items() if row.is_pass}
            change = Measure("change", "change, in points of per cent", 100)
            write_intervals(Table("measure", [change], changes), *config.figure_paths(out, "comparison"))
            if bands:
                write_bands(bands, *config.figure_paths(out, "difference_over_k"))
