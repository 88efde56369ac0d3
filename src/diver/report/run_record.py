"""A run folder, read leniently: a run that is still training, or was killed, is reported as far as it got."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from diver.io.jsonl import number, read_jsonl, table
from diver.io.rollout_rows import groups_from_rows
from diver.stats import Estimate, pass_at_k
from diver.types import DiverError, Group

STAGES = ("sample", "verify", "diversity", "update")  # of a step, whose times are logged
_STEP = re.compile(r"step_(\d+)\.jsonl?")


@dataclass(frozen=True)
class Evaluation:
    """One eval/step_NNNN.json. Values that are missing or odd are left out, or NaN."""

    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    grades: Mapping[str, float] = field(default_factory=dict)
    """How many responses have each grade."""
    counts: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    """Of each problem by id: scored samples n, correct ones c, distinct correct solutions; empty if any is unknown."""
    problems: float = math.nan
    samples: float = math.nan
    temperature: float = math.nan

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Evaluation:
        estimates = {key: Estimate(*(number(table(row, "estimates", key).get(end)) for end in Estimate._fields))
                     for key in table(row, "estimates")}  # fmt: skip
        return cls(
            {key: estimate for key, estimate in estimates.items() if not math.isnan(estimate.mean)},
            {key: count for key, value in table(row, "grades").items() if (count := number(value)) > 0},
            _counts(row.get("per_problem")),
            *(number(row.get(key)) for key in ("problems", "samples", "temperature")),
        )

    def values(self, measure: str, k: int) -> dict[str, float]:
        """pass@k or distinct@k of each problem by id, NaN where n < k; empty where the counts are not known."""
        n, c, distinct = np.array(list(self.counts.values())).reshape(-1, 3).T.astype(int)
        if measure == "distinct" and k != self.samples:
            return {}
        values = pass_at_k(n, c, k) if measure == "pass" else np.where(n < k, np.nan, distinct)
        return dict(zip(self.counts, values.tolist(), strict=True))


def _counts(rows: Any) -> dict[str, tuple[float, float, float]]:
    counts: dict[str, tuple[float, float, float]] = {}
    for row in rows if isinstance(rows, list) else []:
        n, c, distinct = (number(table(row).get(key)) for key in ("n", "c", "distinct"))
        integral = all(value % 1 == 0 for value in (n, c, distinct))
        if not (integral and 0 <= distinct <= n and 0 <= c <= n):
            return {}
        counts[str(row.get("id"))] = n, c, distinct
    return counts


@dataclass(frozen=True)
class RunRecord:
    """The contents of a run folder. Rows and tables are plain dicts: any key may be missing."""

    folder: Path
    config: Mapping[str, Any]
    metrics: list[dict[str, Any]]
    evaluations: dict[int, Evaluation]
    rollout_files: dict[int, Path]

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """The run in `folder`, without its rollouts. DiverError where there is no readable config.json."""
        path = folder / "config.json"
        try:
            config = json.loads(path.read_text(encoding="utf-8", errors="replace"))
        except (FileNotFoundError, NotADirectoryError):
            raise DiverError(f"{folder}: not a run folder, it has no config.json") from None
        except (OSError, ValueError) as error:
            raise DiverError(f"{path}: not readable as JSON ({error})") from None
        if not isinstance(config, dict):
            raise DiverError(f"{path}: must hold a JSON object")
        metrics = folder / "metrics.jsonl"
        rows = [row for _, row in read_jsonl(metrics, lenient=True)] if metrics.is_file() else []
        by_step = {int(step): row for row in rows if not math.isnan(step := number(row.get("step")))}
        evaluations = {step: e for step, file in _steps(folder / "eval").items() if (e := _evaluation(file))}
        return cls(folder, config, [by_step[s] for s in sorted(by_step)], evaluations, _steps(folder / "rollouts"))

    def recipe(self, section: str) -> dict[str, Any]:
        return table(self.config, "recipe", section)

    def column(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """(steps, values) of a metric where it is known: int64 [m], float64 [m]."""
        pairs = [(int(row["step"]), number(row.get(name))) for row in self.metrics]
        known = [(step, value) for step, value in pairs if not math.isnan(value)]
        return np.array([s for s, _ in known], dtype=np.int64), np.array([v for _, v in known], dtype=np.float64)

    @cached_property
    def last_step(self) -> int:
        return max((int(row["step"]) for row in self.metrics), default=0)

    @property
    def planned_steps(self) -> int:
        planned = (number(self.recipe("train").get("steps")), number(self.config.get("schedule_steps")))
        return int(next((p for p in planned if p >= self.last_step), self.last_step))

    def step_seconds(self) -> tuple[np.ndarray, np.ndarray]:
        """(steps, seconds) of the steps of which a time is known, without evaluation."""
        rows = [(int(row["step"]), [number(row.get(f"time/{name}")) for name in STAGES]) for row in self.metrics]
        known = [(step, float(np.nansum(times))) for step, times in rows if not np.isnan(times).all()]
        return np.array([s for s, _ in known], dtype=np.int64), np.array([v for _, v in known], dtype=np.float64)

    @property
    def seconds(self) -> float:
        """The time of all steps, without evaluation; NaN where no time was recorded."""
        steps, seconds = self.step_seconds()
        return float(seconds.sum()) if len(steps) else math.nan

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
        return groups_from_rows(read_jsonl(self.rollout_files[step], lenient=True), lenient=True)


def _steps(folder: Path) -> dict[int, Path]:
    """The files `step_NNNN.json[l]` of a folder by step, in order."""
    files = folder.iterdir() if folder.is_dir() else ()
    return dict(sorted((int(m[1]), p) for p in files if (m := _STEP.fullmatch(p.name))))


def _evaluation(path: Path) -> Evaluation | None:
    """None where the file is not one JSON object."""
    try:
        row = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return None
    return Evaluation.from_row(row) if isinstance(row, dict) else None
