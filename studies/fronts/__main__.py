"""`python -m fronts`: make the runs of a protocol that have no record, setting by setting, and write its page."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Literal

from diver.recipe.flags import parse
from diver.sweep.plan import Plan
from diver.sweep.run import sweep
from fronts.controls import make_controls
from fronts.page import write_language_model, write_page, write_recent
from fronts.study import load, plan, testbeds

WRITE = {"study": write_page, "recent_methods": write_recent, "language_model": write_language_model}


@dataclasses.dataclass
class Arguments:
    """Fronts of methods: which beats clip-higher and the untrained policy at which k?

    A run with a record in OUT/records is not made again; the same command resumes a stopped study.
    """

    study: Literal["study", "recent_methods", "language_model"] = "study"
    """The protocol, a TOML file beside this module."""
    jobs: int = 1
    """Runs in parallel, one thread each."""
    testbeds: tuple[str, ...] = ()
    """Only these testbeds of the protocol."""
    only: tuple[str, ...] = ()
    """Only these settings."""
    out: Path = Path("docs/results")
    """The folder of the page, and of the records, records/*.jsonl.gz."""
    work: Path = Path("runs/fronts")
    """Where runs are made; it may be deleted when they are finished."""


def main() -> None:
    arguments = parse(Arguments, "python -m fronts", sys.argv[1:])
    fronts = arguments.study == "study"
    chosen = arguments.testbeds or testbeds(arguments.study)
    plans = {bed: plan(bed, arguments.out, arguments.work, arguments.study) for bed in chosen}
    try:
        for stage in (choosing, lambda plan: plan):  # more seeds come last: they only judge
            for testbed, testbed_plan in plans.items():
                labels = [s.label for s in testbed_plan.settings] if fronts else load(arguments.study)[testbed]
                for label in labels:
                    if not arguments.only or label in arguments.only:
                        sweep(stage(testbed_plan), arguments.jobs, [label])
                        if fronts:
                            make_controls(stage(testbed_plan), arguments.jobs)
    finally:
        print(WRITE[arguments.study](arguments.out))


def choosing(plan: Plan) -> Plan:
    """The plan with only the seeds by which policies are chosen."""
    return dataclasses.replace(plan, settings=tuple(dataclasses.replace(s, seeds=plan.seeds) for s in plan.settings))


if __name__ == "__main__":
    main()
