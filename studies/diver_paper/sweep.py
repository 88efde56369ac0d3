"""The runs of a study that have no record yet, each in a process of its own; a finished run is never made again."""

from __future__ import annotations

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from diver.train.parallel import Run, run_all
from diver_paper.job import Job, study_recipe
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


class Planned(Protocol):
    """A run of a `PlannedStudy`."""

    @property
    def job(self) -> Job: ...

    @property
    def folder(self) -> str:
        """The part of the study to which it belongs: no two runs of it have jobs of the same name."""


class PlannedStudy(ABC):
    """The study of a `config` like the study.toml of its package, with the records in `out`."""

    package: ClassVar[str]
    records_name: ClassVar[str]
    """The name of the file of records, and of the page."""

    def __init__(self, out: Path, config: Path | None = None) -> None:
        self.out = out
        file = config or files(self.package) / "study.toml"
        self.config = tomllib.loads(file.read_text(encoding="utf-8"))

    @abstractmethod
    def about(self, planned: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The regime of a run, and what its record says beside its recipe."""

    def records(self, planned: Planned) -> Records:
        """Where the record of a run is, among those of its folder."""
        return Records.of(self.out, self.records_name, f"{planned.folder}/")

    def record(self, planned: Planned) -> dict[str, Any] | None:
        """The record of a run; None where it is not finished."""
        return self.records(planned).find(planned.job, *self.about(planned))

    def waiting(
        self, planned: Planned, worker: Callable[..., None], work: Path, provenance: Mapping[str, Any]
    ) -> list[Run]:
        """The run, as one to be made; none where it has a record.

        Raises:
            DiverError: The recipe of the run is wrong.
        """
        regime, made = self.about(planned)
        study_recipe(planned.job.recipe(regime))
        paths = Paths(self.records(planned), work / planned.folder)
        runs = waiting([planned.job], worker, regime, paths, provenance, made)
        return [run._replace(name=f"{planned.folder}_{run.name}") for run in runs]
