"""`diver report`."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from tyro.conf import Positional

from diver.config.flags import parse
from diver.types import DiverError


@dataclasses.dataclass
class Report:
    """Write one page of a run, or of several side by side: summary, alerts, curves, groups to browse.

    The page works offline and from a file. A run that has not finished is shown as far as it is.
    """

    runs: Positional[tuple[Path, ...]]
    """Run folders, such as runs/quickstart."""
    out: Path | None = None
    """The page to write; by default report.html in the run's folder, comparison.html here for several runs."""
    groups: int = 200
    """How many groups the browser holds at most, evenly spaced over the runs; the page grows with them."""


def command(args: Sequence[str]) -> None:
    """Write one page of a run, or of several side by side: summary, alerts, curves, groups to browse."""
    from diver.report import headline, summary_table, write_report
    from diver.report.page import check_page

    arguments = parse(Report, "diver report", args)
    if not arguments.runs:
        raise DiverError("name at least one run folder: diver report runs/quickstart")
    out = arguments.out or (Path("comparison.html") if len(arguments.runs) > 1 else None)
    if out:
        check_page(out)
    path = write_report(*arguments.runs, path=out, groups=arguments.groups)
    print(summary_table(arguments.runs[0]) if len(arguments.runs) == 1 else "\n".join(map(headline, arguments.runs)))
    print(path)
