"""`python -m agents`: make the runs of study.toml that have no record, and write the page."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from agents.page import write_page
from agents.study import Planned, Study
from agents.worker import run as worker
from diver.core.types import DiverError
from diver.recipe.flags import parse
from diver.train.parallel import Run, run_all
from diver.train.prepare import prepare_and_rehearse
from diver_paper.job import study_recipe
from diver_paper.records import origin


@dataclasses.dataclass
class Arguments:
    """Exploration methods on trajectories, in mazes that are walked cell by cell.

    A run with a record in OUT/records is not made again; the same command resumes a stopped study.
    """

    jobs: int = 1
    """Runs in parallel, one thread each."""
    stages: tuple[str, ...] = ()
    """Only these stages: tuning, final."""
    seeds: tuple[int, ...] = ()
    """Only these seeds."""
    only: tuple[str, ...] = ()
    """Only these methods."""
    config: Path | None = None
    """Another study.toml."""
    out: Path = Path("docs/results")
    """The folder of the page, and of the records, records/agents.jsonl.gz."""
    work: Path = Path("runs/agents")
    """Where runs are made; it may be deleted when they are finished."""


def main() -> None:
    arguments = parse(Arguments, "python -m agents", sys.argv[1:])
    study, about = Study(arguments.out, arguments.config), origin()

    def wanted(planned: Planned) -> bool:
        given = (
            (arguments.stages, planned.stage),
            (arguments.seeds, planned.job.seed),
            (arguments.only, planned.label),
        )
        return all(not chosen or value in chosen for chosen, value in given)

    def left() -> list[Run]:
        """The runs to be made that are known so far."""
        chosen = filter(wanted, study.planned())
        return [run for planned in chosen for run in study.waiting(planned, worker, arguments.work, about)]

    if left():
        check(study, arguments.only)
    try:
        while runs := left():
            run_all(runs, arguments.work, arguments.jobs)
    finally:
        print(write_page(study))


def check(study: Study, only: tuple[str, ...] = ()) -> None:
    """Refuse, before the first run, another starting policy and every method that the trainer would refuse.

    Raises:
        DiverError: names what is refused, and why.
    """
    study.check_policy()
    for planned in study.examples():
        if not only or planned.label in only:
            try:
                prepare_and_rehearse(study_recipe(planned.job.recipe(study.about(planned)[0])))
            except DiverError as error:
                raise DiverError(f"{planned.label}: {error}") from None


if __name__ == "__main__":
    try:
        main()
    except DiverError as error:
        sys.exit(f"agents: {error}")
