"""What a run folder says, read leniently: a run that is going on, or was killed, is reported as far as it got."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from diver.types import DiverError, Grade, Group, Problem, Reward, Rollout

_STEP = re.compile(r"step_(\d+)\.jsonl?")


def number(value: Any) -> float:
    """A finite number as a float; NaN for all else, so that a missing key never breaks the page."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return float(value) if known else math.nan


def part(row: Any, *keys: str) -> dict[str, Any]:
    """row[key][key]...: the table found there, or an empty one."""
    for key in keys:
        row = row.get(key) if isinstance(row, dict) else None
    return row if isinstance(row, dict) else {}


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a JSON Lines file; a row that is no object (the half-written last one) is skipped."""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                yield row


def _steps(folder: Path) -> dict[int, Path]:
    """The files `step_NNNN.json[l]` of a folder by step, in order."""
    files = folder.iterdir() if folder.is_dir() else ()
    return dict(sorted((int(m[1]), p) for p in files if (m := _STEP.fullmatch(p.name))))


@dataclass(frozen=True)
class RunRecord:
    """A run as its folder has it. Rows and tables are plain dicts: any key may be missing."""

    folder: Path
    config: Mapping[str, Any]
    metrics: list[dict[str, Any]]
    evaluations: dict[int, dict[str, Any]]
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
        by_step = (
            {int(number(row["step"])): row for row in _rows(metrics) if not math.isnan(number(row.get("step")))}
            if metrics.is_file()
            else {}
        )
        evaluations = {step: row for step, path in _steps(folder / "eval").items() for row in _whole(path)}
        return cls(folder, config, [by_step[s] for s in sorted(by_step)], evaluations, _steps(folder / "rollouts"))

    def recipe(self, section: str) -> dict[str, Any]:
        return part(self.config, "recipe", section)

    def column(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """(steps, values) of a metric where it is known: int64 [m], float64 [m]."""
        pairs = [(int(row["step"]), number(row.get(name))) for row in self.metrics]
        known = [(step, value) for step, value in pairs if not math.isnan(value)]
        return np.array([s for s, _ in known], dtype=np.int64), np.array([v for _, v in known], dtype=np.float64)

    @cached_property
    def steps_done(self) -> int:
        return max((int(row["step"]) for row in self.metrics), default=0)

    @property
    def steps_planned(self) -> int:
        planned = (number(self.recipe("train").get("steps")), number(self.config.get("schedule_steps")))
        return int(next((p for p in planned if p >= self.steps_done), self.steps_done))

    @property
    def seconds(self) -> float:
        """What all steps took, evaluation not counted; NaN where no time was recorded."""
        spent = [self.column(f"time/{name}")[1] for name in ("sample", "verify", "diversity", "update")]
        return float(sum(s.sum() for s in spent)) if any(map(len, spent)) else math.nan

    @property
    def base(self) -> dict[str, Any]:
        """The evaluation before the first step, or an empty table."""
        return self.evaluations.get(0, {})

    @property
    def trained(self) -> dict[str, Any]:
        """The evaluation of the largest step after 0, or an empty table."""
        last = max(self.evaluations, default=0)
        return self.evaluations[last] if last > 0 else {}

    def groups(self, step: int) -> list[list[dict[str, Any]]]:
        """The rollouts of a step, group by group: consecutive rows of one problem whose sample index rises."""
        groups: list[list[dict[str, Any]]] = []
        for row in _rows(self.rollout_files[step]):
            last = groups[-1][-1] if groups else {}
            same = bool(groups) and last.get("problem") == row.get("problem")
            if same and not number(row.get("sample")) <= number(last.get("sample")):
                groups[-1].append(row)
            else:
                groups.append([row])
        return groups


def _whole(path: Path) -> list[dict[str, Any]]:
    """The one object of a JSON file, as a list of one; nothing where it cannot be read."""
    try:
        row = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return []
    return [row] if isinstance(row, dict) else []


def as_group(rows: Sequence[dict[str, Any]]) -> tuple[Group, list[float]]:
    """The rows of one group as a Group, and the lengths in tokens, NaN where unknown. What is not as expected is left out."""
    first = rows[0]
    problem = Problem(str(first.get("problem", "")), str(first.get("prompt", "")), str(first.get("answer", "")))
    return Group(problem, tuple(map(_rollout, rows))), [number(row.get("length")) for row in rows]


def _rollout(row: dict[str, Any]) -> Rollout:
    parts = {name: number(part(row, "reward").get(name)) for name in Reward._fields}
    outcome = parts.pop("outcome")
    grade = row.get("grade")
    return Rollout(
        str(row.get("response", "")),
        grade=Grade(grade) if grade in tuple(Grade) else None,
        reward=None if math.isnan(outcome) else Reward(outcome, **{k: v for k, v in parts.items() if v == v}),
        diversity={str(name): number(value) for name, value in part(row, "diversity").items()},
        advantage=number(row.get("advantage")),
    )
