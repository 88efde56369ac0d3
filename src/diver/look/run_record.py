"""A run folder as the page needs it: a run that is still training, or was killed, is reported as far as it got."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diver.core.jsonl import number, read_json, read_jsonl, table
from diver.core.rollout_rows import groups_from_rows
from diver.core.run_folder import by_step, metrics_table, runs_in
from diver.core.types import DiverError, Group

if TYPE_CHECKING:
    import pandas as pd

STAGES = ("sample", "verify", "diversity", "update")  # parts of a step whose times are logged


def run_folders(path: Path) -> list[Path]:
    """The run folder `path`, or the run folders in it, as of `diver train --seeds`; none where it has no run, but a
    dump.

    A folder with a config.json may also be that of an evaluation, of grades or of a model.
    """
    found = [path] if (path / "config.json").is_file() else runs_in(path)
    return [f for f in found if (f / "metrics.jsonl").exists() or "recipe" in read_json(f / "config.json")]


@dataclass(frozen=True)
class RunRecord:
    """The contents of a run folder. `config` is a plain dict: any key may be missing."""

    folder: Path
    config: Mapping[str, Any]
    metrics: pd.DataFrame
    """float64, a row a step, a column a metric; NaN where it is unknown."""
    evaluations: dict[int, dict[str, Any]]
    """Each eval/step_NNNN.json by its step."""
    rollout_files: dict[int, Path]
    name: str = ""
    """What the user calls it in tables (NAME=PATH); empty: its method."""

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """The run in `folder`, without its rollouts. DiverError if config.json is missing or cannot be read."""
        if not (folder / "config.json").is_file():
            hint = f"; name a run in it: {runs[0]}" if (runs := runs_in(folder)) else ""
            raise DiverError(f"{folder}: not a run folder, it has no config.json{hint}")
        others = ("results.json", "grades.jsonl")  # written by diver eval and diver grade
        if not (folder / "metrics.jsonl").exists() and any((folder / name).exists() for name in others):
            raise DiverError(f"{folder}: has an evaluation or grades and no run; diver browse shows its responses")
        metrics = metrics_table(row for _, row in read_jsonl(folder / "metrics.jsonl", appended=True))
        evaluations = {step: read_json(file) for step, file in by_step(folder / "eval", ".json").items()}
        rollouts = by_step(folder / "rollouts", ".jsonl")
        return cls(folder, read_json(folder / "config.json"), metrics, evaluations, rollouts)

    @property
    def changed(self) -> list[tuple[str, int, int]]:
        """Which files there are now, with their times and sizes: others mean that the page of the run is another
        one."""
        files = [self.folder / "metrics.jsonl", *(self.folder / "eval").glob("*"), *self.rollout_files.values()]
        return sorted((str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.exists())

    @property
    def engine(self) -> str:
        """What trained: built-in, trl or verl; empty for a run that does not say."""
        return str(self.config.get("engine", ""))

    def recipe(self, section: str) -> dict[str, Any]:
        return table(self.config, "recipe", section)

    def column(self, name: str) -> pd.Series:
        """A metric by step, where it is known."""
        return self.metrics.reindex(columns=[name])[name].dropna()

    @property
    def last_step(self) -> int:
        return int(max(self.metrics.index, default=0))

    @property
    def planned_steps(self) -> int:
        planned = (number(self.recipe("train").get("steps")), number(self.config.get("schedule_steps")))
        return int(next((p for p in planned if p >= self.last_step), self.last_step))

    def step_seconds(self) -> pd.Series:
        """The seconds of each step of which a time is known, without evaluation."""
        return self.metrics.reindex(columns=[f"time/{name}" for name in STAGES]).sum(axis=1, min_count=1).dropna()

    @property
    def seconds(self) -> float:
        """The time of all steps, without evaluation; NaN where no time was recorded."""
        return float(self.step_seconds().sum(min_count=1))

    @property
    def base(self) -> dict[str, Any]:
        """The evaluation before the first step; empty if it is missing."""
        return self.evaluations.get(0, {})

    @property
    def trained(self) -> dict[str, Any]:
        """The evaluation of the largest step after 0; empty if it is missing."""
        last = max(self.evaluations, default=0)
        return self.evaluations[last] if last > 0 else {}

    @property
    def missing(self) -> list[str]:
        """The evaluations that metrics.jsonl has a row of, and the folder no longer has a file of."""
        steps = self.column("eval/pass@1").index.difference(list(self.evaluations))
        return [f"eval/step_{step:04d}.json" for step in steps]

    def groups(self, step: int) -> list[Group]:
        return groups_from_rows(read_jsonl(self.rollout_files[step]))
