"""`python -m alerts`: make the runs of study.toml that have no record, and write the page."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from alerts.page import write_page, write_rates
from alerts.study import Study
from alerts.worker import run as worker
from diver.recipe.flags import parse
from diver.train.parallel import run_all
from diver_paper.records import origin


@dataclasses.dataclass
class Arguments:
    """False alarms and detections of the alerts, on healthy runs and on runs broken on purpose.

    A run with a record in OUT/records is not made again; the same command resumes a stopped study.
    """

    jobs: int = 1
    """Runs in parallel, one thread each."""
    kinds: tuple[str, ...] = ()
    """Only these kinds of runs: healthy, rate, yes, template, frozen, filter, tail."""
    testbeds: tuple[str, ...] = ()
    """Only these testbeds."""
    limit: int = 0
    """At most this many runs; 0: all."""
    config: Path | None = None
    """Another study.toml."""
    out: Path = Path("docs/results")
    """The folder of the page, and of the records, records/alerts.jsonl.gz."""
    work: Path = Path("runs/alerts")
    """Where runs are made; it may be deleted when they are finished."""
    rates: Path | None = None
    """Also write the rates that the alerts state: src/diver/train/alert_rates.toml in a clone."""


def main() -> None:
    arguments = parse(Arguments, "python -m alerts", sys.argv[1:])
    study, about = Study(arguments.out, arguments.config), origin()
    wanted = [
        planned
        for planned in study.planned
        if planned.kind in (arguments.kinds or study.kinds)
        and planned.testbed in (arguments.testbeds or study.config["testbeds"])
    ]
    runs = [run for planned in wanted for run in study.waiting(planned, worker, arguments.work, about)]
    try:
        run_all(runs[: arguments.limit or None], arguments.work, arguments.jobs)
    finally:
        print(write_page(study))
    if arguments.rates:
        print(write_rates(study, arguments.rates))


if __name__ == "__main__":
    main()
