"""`diver browse`: read within a budget, then write the page, or serve it while a run goes on."""

import math
import threading
from collections.abc import Sequence
from pathlib import Path

from tyro.conf import Positional

from diver.browse.page import Run, curves, part_read, remarks, render, runs_of, summary
from diver.browse.serve import Page, repeat, server
from diver.browse.source import MEASURED, Source
from diver.extras import require
from diver.io.files import write_text
from diver.measure.run import paths_of
from diver.render.export import Export
from diver.render.figures import write_intervals, write_lines
from diver.render.tables import Table, export, markdown
from diver.report.page import check_page
from diver.rollouts import Columns
from diver.rollouts.files import check_written
from diver.rollouts.reader import THRESHOLD
from diver.settings import settings
from diver.types import DiverError

BYTES = 40_000_000  # read before the first page; a few seconds
EVERY = 5.0  # seconds between two looks at the files of a run that goes on


@settings
class Browse(Columns, Export):
    """One page of anyone's rollouts: groups to read, Pass@k, diversity and entropy over training, alerts.

    Reads what diver measure reads, from a file or the output folder of a trainer; several are shown side by side. Of
    more than 40 MB it reads the beginnings of files evenly spaced over the steps, and says so; --all reads everything.
    Try: diver browse runs/quickstart - diver browse grpo=out/a diver=out/b - diver browse answers.csv --by model
    """

    rollouts: Positional[tuple[str, ...]]
    """Files or folders, each a run of the page; NAME=PATH gives a name."""
    out: Path = Path("browse.html")
    """The page to write; tables of --format and --figures stand beside it under its name."""
    watch: bool = False
    """Serve the page on 127.0.0.1 and read what is added, until interrupted; nothing is written."""
    port: int = 0
    """Of --watch; 0 takes one that is free."""
    all: bool = False
    """Read every file, however long that takes."""
    steps: str = ""
    """Of a folder, only the files of these steps: 100, or 1,50-60,last."""
    threshold: float = THRESHOLD
    """An outcome of at least this is correct."""
    groups: int = 100
    """The page shows at most this many groups, drawn at random."""

    def __post_init__(self) -> None:
        if not self.rollouts:
            raise DiverError("name at least one file or folder of rollouts: diver browse runs/quickstart")
        if self.groups < 0:
            raise DiverError(f"--groups: must be at least 0, is {self.groups}")
        if not math.isfinite(self.threshold):
            raise DiverError(f"--threshold: must be a finite number, is {self.threshold}")
        self.check_export(self.out.parent)
        if self.watch and (self.figures or self.format != "markdown"):
            raise DiverError("--watch: writes nothing; omit it for --figures and --format")
        if not 0 <= self.port < 1 << 16:
            raise DiverError(f"--port: must be between 0 and 65535, is {self.port}")

    @property
    def budget(self) -> int | None:
        return None if self.all else BYTES // len(self.rollouts)


def run(config: Browse) -> None:
    """Write the page and print the summary, or serve it."""
    require("scipy", "pandas")  # of the intervals and the curves
    sources = open_sources(config)
    if config.watch:
        watch(config, sources)
        return
    out = config.out
    check_written([out, *config.paths(out.parent, out.stem)], [source.path for source in sources])
    check_page(out)
    for source in sources:
        source.look()
        source.read(config.budget, MEASURED // len(sources))
    runs, note = checked(sources), config.notes()
    write_text(out, render(sources, config.groups, config.threshold))
    for line in [*filter(None, map(part_read, sources)), *remarks(sources)]:
        note(line)
    table = summary(runs)
    config.write(table, out.parent, out.stem)
    if config.figures:
        write_figure(runs, config.figure_paths(out.parent, out.stem))
    config.show(table, _shown(table))
    note("\n".join(map(str, [out, *config.paths(out.parent, out.stem)])))


def open_sources(config: Browse) -> list[Source]:
    paths = paths_of(config.rollouts)
    return [
        Source(name, path, config.columns, config.steps, -(-config.groups // len(paths)), config.threshold)
        for name, path in paths.items()
    ]


def checked(sources: list[Source]) -> list[Run]:
    """The runs; DiverError where a source has not one response."""
    runs = runs_of(sources)
    for source in sources:
        if not any(run.source is source for run in runs):
            raise DiverError(next(iter(source.notes), f"{source.path}: empty, not one response"))
    return runs


def write_figure(runs: list[Run], paths: Sequence[Path]) -> None:
    """The curves by step; without steps the summary."""
    metrics = [run.metrics() for run in runs]
    if any(len(of) > 1 for of in metrics):
        write_lines(curves(runs, metrics, [[] for _ in runs])["panels"], [run.name for run in runs], *paths)
    else:
        write_intervals(summary(runs), *paths)


def _shown(table: Table) -> str:
    if len(table.rows) > 3:
        return export(table, "markdown")
    header, *rows = table.upright()
    return markdown(header, rows)


def watch(config: Browse, sources: list[Source]) -> None:
    """Serve the newest page until interrupted, and read further files and what a run adds."""
    page, number = Page(), 0

    def refresh() -> None:
        nonlocal number
        read = [_read_more(config, source, len(sources)) for source in sources]
        if any(read) or not number:
            number += 1
            page.replace(str(number), render(sources, config.groups, config.threshold, version=str(number)))

    stop = threading.Event()
    reader = threading.Thread(target=repeat, args=(refresh, EVERY, stop), daemon=True)
    with server(page, config.port) as http:
        refresh()
        print(f"http://127.0.0.1:{http.server_port}/ - until interrupted (Ctrl-C)", flush=True)
        reader.start()
        try:
            http.serve_forever()
        finally:
            stop.set()


def _read_more(config: Browse, source: Source, sources: int) -> bool:
    """Read what a source has that is not read yet; whether there is anything else to show."""
    before = source.notes, {*source.contents}
    read = source.look_again() and source.read(config.budget, MEASURED // sources, growing=True)
    return read or before != (source.notes, {*source.contents})
