"""`python -m fronts`: make the runs of study.toml that have no record, setting by setting, and write the page."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from diver.recipe.flags import parse
from diver.sweep.plan import Plan
from diver.sweep.run import sweep
from fronts.controls import make_controls
from fronts.page import write_page
from fronts.study import TESTBEDS, plan


@dataclasses.dataclass
class Arguments:
    """Fronts of methods on Countdown and in mazes: which beats clip-higher and the untrained policy at which k?

    A run with a record in OUT/records is not made again; the same command resumes a stopped study.
    """

    jobs: int = 1
    """Runs in parallel, one thread each."""
    testbeds: tuple[str, ...] = tuple(TESTBEDS)
    """Only these testbeds."""
    only: tuple[str, ...] = ()
    """Only these settings."""
    out: Path = Path("docs/results")
    """The folder of the page, and of the records, records/fronts.jsonl.gz."""
    work: Path = Path("runs/fronts")
    """Where runs are made; it may be deleted when they are finished."""


def main() -> None:
    arguments = parse(Arguments, "python -m fronts", sys.argv[1:])
    plans = [plan(testbed, arguments.out, arguments.work) for testbed in arguments.testbeds]
    try:
        for of_testbed in (*map(choosing, plans), *plans):  # more seeds come last: they only judge
            for setting in of_testbed.settings:
                if not arguments.only or setting.label in arguments.only:
                    sweep(of_testbed, arguments.jobs, [setting.label])
                    make_controls(of_testbed, arguments.jobs)
    finally:
        print(write_page(arguments.out))


def choosing(plan: Plan) -> Plan:
    """A plan without the seeds that do not choose."""
    return dataclasses.replace(plan, settings=tuple(dataclasses.replace(s, seeds=plan.seeds) for s in plan.settings))


if __name__ == "__main__":
    main()
