"""The runs of a study that have no record yet, each in a process of its own; a finished run is never made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from diver.train.parallel import Run, run_all
from diver_paper.job import Job
from diver_paper.records import Records
from diver_paper.worker import run


class Paths(NamedTuple):
    """`records` has what is kept, `work` the run folders."""

    records: Records
    work: Path


def waiting(
    jobs: Iterable[Job],
    worker: Callable[..., None],
    regime: Mapping[str, Any],
    paths: Paths,
    provenance: Mapping[str, Any],
    made: Mapping[str, Any] | None = None,
    **given: Any,
) -> list[Run]:
    """The runs of `jobs` that have no record yet, as calls of `worker`.

    made: what a record says beside its recipe, which the worker is given like `given`.
    """
    steps, made = int(regime["train"]["steps"]), made or {}
    about = {"regime": regime, "records": paths.records, "provenance": provenance, **made, **given}
    return [
        Run(
            name=job.name,
            call=partial(worker, job=job._asdict(), folder=paths.work / job.name, **about),
            folder=paths.work / job.name,
            steps=steps if job.trained else 0,
        )
        for job in {job.name: job for job in jobs}.values()
        if paths.records.find(job, regime, made) is None
    ]


def sweep(
    jobs: Iterable[Job],
    regime: Mapping[str, Any],
    paths: Paths,
    workers: int,
    provenance: Mapping[str, Any],
    temperatures: Sequence[float] = (),
) -> None:
    """Make every run of `jobs` that has no record yet, as `diver.train.parallel.run_all` does."""
    run_all(waiting(jobs, run, regime, paths, provenance, temperatures=temperatures), paths.work, workers)
