"""The runs of a study that have no record yet, in parallel; a finished run is a file and is never made again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diver.config.recipe import make_recipe
from diver.train.parallel import Run, run_all
from diver_paper.records import Job, find


class Paths(NamedTuple):
    """`records` has the small files that are kept, `work` the run folders."""

    records: Path
    work: Path


def sweep(
    jobs: Iterable[Job],
    regime: Mapping[str, Any],
    paths: Paths,
    workers: int,
    provenance: Mapping[str, Any],
    temperatures: Sequence[float] = (),
) -> None:
    """Make every run of `jobs` that has no record yet, as `diver.train.parallel.run_all` does."""
    waiting = [job for job in {job.name: job for job in jobs}.values() if find(paths.records, job, regime) is None]
    steps = int(regime["train"]["steps"])
    given = {"regime": regime, "out": paths.records, "provenance": provenance, "temperatures": temperatures}
    runs = [
        Run(
            name=job.name,
            function="diver_paper.sweep:run",
            arguments={"job": job._asdict(), "folder": paths.work / job.name, **given},
            folder=paths.work / job.name,
            steps=steps if job.trained else 0,
        )
        for job in waiting
    ]
    run_all(runs, paths.work, workers)


def run(
    job: Mapping[str, Any],
    folder: str,
    regime: Mapping[str, Any],
    out: str,
    provenance: Mapping[str, Any],
    temperatures: Sequence[float],
) -> None:
    """One run, in a process of its own."""
    made = Job(**job)
    make_recipe(made.recipe(regime))  # a wrong one fails before torch is imported
    from diver_paper.worker import run_job

    run_job(made, regime, Path(folder), Path(out), provenance, temperatures)
