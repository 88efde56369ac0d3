"""A run folder as the page needs it: a run that is still training, or was killed, is reported as far as it got."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diver.io.jsonl import number, read_jsonl, table
from diver.io.rollout_rows import groups_from_rows
from diver.io.run_folder import metrics_table
from diver.stats import Estimate, pass_at_k
from diver.types import DiverError, Group

if TYPE_CHECKING:
    import pandas as pd

STAGES = ("sample", "verify", "diversity", "update")  # of a step, whose times are logged
_STEP = re.compile(r"step_(\d+)\.jsonl?")


@dataclass(frozen=True)
class Evaluation:
    """One eval/step_NNNN.json. Values that are missing or odd are left out, or NaN."""

    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    grades: Mapping[str, float] = field(default_factory=dict)
    """How many responses have each grade."""
    counts: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """Of each problem by id: scored samples n, correct ones c, distinct correct solutions."""
    problems: float = math.nan
    samples: float = math.nan
    temperature: float = math.nan
    exact_solutions: bool = True
    """Whether two distinct solutions are two, not one written in two ways."""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Evaluation:
        ends = {key: [number(table(row, "estimates", key).get(end)) for end in Estimate._fields]
                for key in table(row, "estimates")}  # fmt: skip
        return cls(
            {key: Estimate(*values) for key, values in ends.items() if not math.isnan(values[0])},
            {key: count for key, value in table(row, "grades").items() if (count := number(value)) > 0},
            {str(p["id"]): (p["n"], p["c"], p["distinct"]) for p in row.get("per_problem", [])},
            number(row.get("problems")),
            number(row.get("samples")),
            number(row.get("temperature")),
            row.get("exact_solutions") is not False,
        )

    def values(self, measure: str, k: int) -> dict[str, float]:
        """pass@k or distinct@k of each problem by id, NaN where n < k; empty where the counts are not known."""
        n, c, distinct = np.array(list(self.counts.values()), dtype=np.int64).reshape(-1, 3).T
        if measure == "distinct" and k != self.samples:
            return {}
        values = pass_at_k(n, c, k) if measure == "pass" else np.where(n < k, np.nan, distinct)
        return dict(zip(self.counts, values.tolist(), strict=True))


@dataclass(frozen=True)
class RunRecord:
    """The contents of a run folder. `config` is a plain dict: any key may be missing."""

    folder: Path
    config: Mapping[str, Any]
    metrics: pd.DataFrame
    """float64, a row a step, a column a metric; NaN where it is unknown."""
    evaluations: dict[int, Evaluation]
    rollout_files: dict[int, Path]

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """The run in `folder`, without its rollouts. DiverError where there is no readable config.json."""
        if not (folder / "config.json").is_file():
            raise DiverError(f"{folder}: not a run folder, it has no config.json")
        metrics = metrics_table(row for _, row in read_jsonl(folder / "metrics.jsonl", appended=True))
        evaluations = {step: Evaluation.from_row(_json(file)) for step, file in _steps(folder / "eval").items()}
        return cls(folder, _json(folder / "config.json"), metrics, evaluations, _steps(folder / "rollouts"))

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
    def base(self) -> Evaluation | None:
        """The evaluation before the first step."""
        return self.evaluations.get(0)

    @property
    def trained(self) -> Evaluation | None:
        """The evaluation of the largest step after 0."""
        last = max(self.evaluations, default=0)
        return self.evaluations[last] if last > 0 else None

    def groups(self, step: int) -> list[Group]:
        return groups_from_rows(read_jsonl(self.rollout_files[step]))


def _steps(folder: Path) -> dict[int, Path]:
    """The files `step_NNNN.json[l]` of a folder by step, in order."""
    files = folder.iterdir() if folder.is_dir() else ()
    return dict(sorted((int(m[1]), p) for p in files if (m := _STEP.fullmatch(p.name))))


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise DiverError(f"{path}: not readable as JSON ({error})") from None
    if not isinstance(value, dict):
        raise DiverError(f"{path}: must hold a JSON object")
    return value
