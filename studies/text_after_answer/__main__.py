"""`python -m text_after_answer`: make the runs of study.toml that have no record, seed by seed, and write the page."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from diver.recipe.flags import parse
from diver.train.parallel import run_all
from diver_paper.job import study_recipe
from diver_paper.records import Records, origin
from diver_paper.sweep import Paths, waiting
from method_comparison.worker import run
from text_after_answer.page import write_page
from text_after_answer.study import RECORDS, Study


@dataclasses.dataclass
class Arguments:
    """Text after the answer in mazes: the repairs and the paper's conditions, three seeds each.

    A run with a record in OUT/records is not made again; the same command resumes a stopped study.
    """

    jobs: int = 1
    """Runs in parallel, one thread each."""
    seeds: tuple[int, ...] = ()
    """Only these seeds of the study."""
    only: tuple[str, ...] = ()
    """Only these variants."""
    out: Path = Path("docs/results")
    """The folder of the page, and of the records, records/text-after-answer.jsonl.gz."""
    work: Path = Path("runs/text-after-answer")
    """Where runs are made; it may be deleted when they are finished."""


def main() -> None:
    arguments = parse(Arguments, "python -m text_after_answer", sys.argv[1:])
    study = Study()
    jobs = [
        study.job(label, seed)
        for seed in arguments.seeds or study.config["seeds"]
        for label in arguments.only or study.config["variants"]
    ]
    for job in jobs:
        study_recipe(job.recipe(study.regime))  # a wrong recipe fails before the first run
    paths = Paths(Records.of(arguments.out, RECORDS), arguments.work)
    runs = waiting(jobs, run, study.regime, paths, origin(), study.made)
    try:
        run_all(runs, arguments.work, arguments.jobs)
    finally:
        print(write_page(study, arguments.out))


if __name__ == "__main__":
    main()
