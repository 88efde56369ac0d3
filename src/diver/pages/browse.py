"""`diver browse`: write the page of runs or of anyone's rollouts, or serve it while it changes."""

import dataclasses
from pathlib import Path

from diver.core.extras import require
from diver.core.figures import write_intervals, write_lines
from diver.core.files import write_text
from diver.core.run_folder import given_name
from diver.core.settings import NonNegativeInt, Positional, settings
from diver.core.tables import Export, markdown
from diver.core.types import DiverError
from diver.pages import dump_page, run_page
from diver.pages.groups import GROUPS
from diver.pages.page import check_page
from diver.pages.run_record import RunRecord, conclusion, repeated, run_folders, summary_table
from diver.pages.serve import watch
from diver.pages.source import MEASURED, Source
from diver.rollouts import Columns
from diver.rollouts.files import check_written
from diver.rollouts.measure import paths_of
from diver.rollouts.reader import THRESHOLD

BYTES = 40_000_000  # bytes read before the first page, in a few seconds
DUMP_GROUPS = 100  # default number of groups on the page of a dump; `GROUPS` is that of a run


@settings
class Browse(Columns, Export):
    """Make one page of runs or of anyone's rollouts: curves, alerts, and groups to read.

        diver browse runs/quickstart
        diver browse grpo=out/a diver=out/b
        diver browse answers.csv --by model

    The page of runs has their evaluations and metrics, too. Other files are read as by diver measure. From more than
    40 MB the beginnings of files are read, evenly spaced over the steps, and the page says so.
    """

    rollouts: Positional[tuple[str, ...]]
    """Run folders, folders of runs, or rollouts, side by side. NAME=PATH gives a name."""
    out: Path | None = None
    """The page to write. Default: report.html in a run folder, comparison.html for several, browse.html for rollouts.
    Tables of --format and --figures are written beside it under its name."""
    watch: bool = False
    """Serve the page on 127.0.0.1 and read new rows until interrupted. Nothing is written."""
    port: int = 0
    """Port of --watch; 0: any free port."""
    all: bool = False
    """Read every file, however long that takes."""
    steps: str = ""
    """Read only the files of these steps of a folder: 100, or 1,50-60,last."""
    threshold: float = THRESHOLD
    """Minimum outcome of a correct response."""
    groups: NonNegativeInt | None = None
    """Maximum number of groups on the page. Default: for a run 200, evenly spaced; for rollouts 100, drawn at
    random."""

    def __post_init__(self) -> None:
        if not self.rollouts:
            raise DiverError("name at least one file or folder of rollouts: diver browse runs/quickstart")
        self.check_export(Path())
        if self.watch and (self.figures or self.format != "markdown"):
            raise DiverError("--watch: writes nothing; omit it for --figures and --format")


def run(config: Browse) -> None:
    """Write the page and print the summary, or serve it."""
    require("scipy", "pandas")  # the intervals and the curves need them
    paths = [(name, path.expanduser()) for name, path in map(given_name, config.rollouts)]
    folders = [(name, run_folders(path)) for name, path in paths]
    if all(runs for _, runs in folders):
        browse_runs(config, [(name, folder) for name, runs in folders for folder in runs], paths[0][1])
    else:
        browse_rollouts(config)


def browse_runs(config: Browse, folders: list[tuple[str, Path]], first: Path) -> None:
    """The page of run folders, each with the name that the user gives it, if any; `first` is the first path named."""
    for field in dataclasses.fields(config):
        if field.name not in ("rollouts", "out", "watch", "port", "groups") and (
            getattr(config, field.name) != field.default
        ):
            raise DiverError(f"--{field.name}: is for rollouts, and {first} is a run; name its {first / 'rollouts'}")
    limit = GROUPS if config.groups is None else config.groups

    def records() -> list[RunRecord]:
        return [dataclasses.replace(RunRecord.read(folder), name=name) for name, folder in folders]

    if config.watch:
        shown: list[object] = []  # the files of each run when the page was made

        def newest(version: str) -> str | None:
            runs = records()
            files = [run.changed for run in runs]
            if files == shown:
                return None
            page = run_page.render(runs, limit, version)
            shown[:] = files
            return page

        watch(config.port, newest)
        return
    out = config.out or (first / "report.html" if len(config.rollouts) == 1 else Path("comparison.html"))
    check_page(out)
    runs = records()
    write_text(out, run_page.render(runs, limit))
    print(summary_table(folders[0][1]) if len(runs) == 1 else "\n".join(f"{r.folder}: {conclusion(r)}" for r in runs))
    for run in runs:
        if repetition := repeated(run):
            print(f"{run.folder}: {repetition}")
    print(out)


def browse_rollouts(config: Browse) -> None:
    """The page of rollouts of any origin, read within a budget."""
    paths = paths_of(config.rollouts)
    limit = DUMP_GROUPS if config.groups is None else config.groups
    budget, measured = None if config.all else BYTES // len(paths), MEASURED // len(paths)
    sources = [
        Source(name, path, config, config.steps, -(-limit // len(paths)), config.threshold)
        for name, path in paths.items()
    ]
    if config.watch:

        def newest(version: str) -> str | None:
            fresh = [source.read_more(budget, measured) for source in sources]
            return dump_page.render(sources, limit, config.threshold, version) if any(fresh) or version == "1" else None

        watch(config.port, newest)
        return
    out = config.out or Path("browse.html")
    table_paths, figures = config.paths(out.parent, out.stem), config.figure_paths(out.parent, out.stem)
    check_written([out, *table_paths], paths.values(), mine=out.exists())
    check_page(out)
    for source in sources:
        source.look()
        source.read(budget, measured)
    runs, note = dump_page.runs_of(sources), config.notes()
    for source in sources:
        if not any(run.source is source for run in runs):
            raise DiverError(next(iter(source.notes), f"{source.path}: empty, not one response"))
    write_text(out, dump_page.render(sources, limit, config.threshold))
    for line in [*filter(None, map(dump_page.part_read, sources)), *dump_page.remarks(sources)]:
        note(line)
    table = dump_page.summary(runs)
    config.write(table, out.parent, out.stem)
    metrics = [run.metrics for run in runs]
    if figures and any(len(frame) > 1 for frame in metrics):
        curves = dump_page.curves(runs, metrics, [[] for _ in runs])
        write_lines(curves["panels"], [run.name for run in runs], *figures)
    elif figures:
        write_intervals(table, *figures)
    header, *rows = table.upright() if dump_page.is_upright(table) else table.text()
    config.show(table, markdown(header, rows))
    note("\n".join(map(str, [out, *table_paths])))
