"""`python -m verified_replay`: make the runs of study.toml that have no record, and write the page."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from diver.recipe.flags import parse
from diver.train.parallel import Run, run_all
from diver_paper.records import origin
from verified_replay.page import write_page
from verified_replay.study import TESTBEDS, Planned, Study
from verified_replay.worker import run as worker


@dataclasses.dataclass
class Arguments:
    """Replay of verified solutions against a tuned baseline, on Countdown and in mazes.

    A run with a record in OUT/records is not made again; the same command resumes a stopped study.
    """

    jobs: int = 1
    """Runs in parallel, one thread each."""
    stages: tuple[str, ...] = ()
    """Only these stages: tuning, final, controls, large, untrained."""
    testbeds: tuple[str, ...] = TESTBEDS
    """Only these testbeds."""
    seeds: tuple[int, ...] = ()
    """Only these seeds."""
    only: tuple[str, ...] = ()
    """Only these settings."""
    config: Path | None = None
    """Another study.toml."""
    out: Path = Path("docs/results")
    """The folder of the page, and of the records, records/verified-replay.jsonl.gz."""
    work: Path = Path("runs/verified-replay")
    """Where runs are made; it may be deleted when they are finished."""


def main() -> None:
    arguments = parse(Arguments, "python -m verified_replay", sys.argv[1:])
    study = Study(arguments.out, arguments.config)
    about = origin()

    def wanted(planned: Planned) -> bool:
        given = (
            (arguments.stages, planned.stage),
            (arguments.testbeds, planned.testbed),
            (arguments.seeds, planned.job.seed),
            (arguments.only, planned.label),
        )
        return all(not chosen or value in chosen for chosen, value in given)

    def left() -> list[Run]:
        """The runs to be made that are known so far."""
        chosen = filter(wanted, study.planned())
        return [run for planned in chosen for run in study.waiting(planned, worker, arguments.work, about)]

    try:
        while runs := left():
            run_all(runs, arguments.work, arguments.jobs)
            study = Study(arguments.out, arguments.config)
    finally:
        print(write_page(study))


if __name__ == "__main__":
    main()
