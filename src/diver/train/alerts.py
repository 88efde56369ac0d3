"""Alerts: what goes wrong in a run, from its metrics, in words, and at which steps.

The page of a run shows all of them with their intervals; `AlertLog` prints each once while the run trains.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from diver.core.run_folder import metrics_table

if TYPE_CHECKING:
    import pandas as pd

NOISE = 2.0  # standard errors by which a mean must move to count as moved
STEPS = 5  # how long an alert has held when it is printed


class Alert(NamedTuple):
    """`metric` names the curve that shows it; `spans` are the first and last step of each interval."""

    title: str
    text: str
    advice: str = ""
    metric: str = ""
    spans: tuple[tuple[int, int], ...] = ()


class AlertLog:
    """A logger that prints each alert on a level once, in one line, when it holds at each of the last STEPS steps.

    `rows` are those of a run that resumes: what held in them has been printed. Each line begins with `prefix`.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), prefix: str = "") -> None:
        self._rows, self._prefix = list(rows), prefix
        self._printed = {alert.title for alert in _held(metrics_table(self._rows))}

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._rows.append({"step": step, **metrics})
        # The first two rows are needed for levels relative to the start; row 0 is an evaluation.
        recent = metrics_table([*self._rows[:2], *self._rows[-STEPS:]])
        for alert in _held(recent):
            first, last = alert.spans[-1]
            if alert.title not in self._printed and last == step and last - first >= STEPS - 1:
                self._printed.add(alert.title)
                tqdm.write(f"{self._prefix}step {step}: {alert.title}. {alert.text} {alert.advice}")

    def close(self) -> None:
        pass


class LiveAlerts:
    """Prints the alerts of a run that another process makes; each line begins with the name of the run's folder."""

    def __init__(self, folder: Path) -> None:
        self._file, self._seen = folder / "metrics.jsonl", 0
        self._log = AlertLog(self._added(), f"{folder.name}: ")

    def look(self) -> None:
        """Print what the rows since the last look raise."""
        for row in self._added():
            self._log.log(row["step"], row)

    def _added(self) -> list[dict[str, Any]]:
        """The rows since the last look. A run that resumes writes the rows after its checkpoint again, unchanged."""
        lines = (
            self._file.read_bytes().split(b"\n")[:-1] if self._file.exists() else []
        )  # the last row may be incomplete
        added = [json.loads(line) for line in lines[self._seen :]]
        self._seen += len(added)
        return added


def alerts(metrics: pd.DataFrame) -> list[Alert]:
    """The alerts of the metrics of a run, by step, with their intervals; a level is that of a moving mean."""
    levels = [_level(metrics, **rule) for rule in _rules()]
    return [alert for alert in (*levels, _diverging(metrics)) if alert]


def _held(metrics: pd.DataFrame) -> list[Alert]:
    """The alerts on a level that hold at each of STEPS steps in a row, without a mean."""
    levels = [_level(metrics, width=1, **rule) for rule in _rules()]
    return [alert for alert in levels if alert and any(last - first >= STEPS - 1 for first, last in alert.spans)]


@cache
def _rules() -> list[dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["level"]


def _level(
    metrics: pd.DataFrame,
    metric: str,
    title: str,
    text: str,
    advice: str,
    above: float = math.inf,
    below: float = -math.inf,
    relative: bool = False,
    zeros: bool = False,
    mostly: str = "",
    hardly: str = "",
    width: int | None = None,
) -> Alert | None:
    """A metric whose moving mean is beyond a limit; the other keys are those of a level in alerts.toml."""
    if metric not in metrics or (known := metrics[metric].dropna()).empty:
        return None

    def mean(column: pd.Series) -> pd.Series:
        return column if width == 1 else smooth(column, width or window(len(known)))

    values = mean((known == 0).astype(float) if zeros else known)
    first = values.iloc[0]
    unit = first if relative else 1.0
    if not unit > 0:
        return None
    beyond = (values > above * unit) | (values < below * unit)
    if part := mostly or hardly:
        little = mean(metrics.reindex(columns=[part]).loc[known.index, part]) < values / 2  # not where it is unknown
        beyond &= little if hardly else ~little
    if not (spans := _spans(beyond)):
        return None
    low, high = values[beyond].min(), values[beyond].max()
    fall, rise = (low / first, high / first) if first > 0 else (math.nan, math.nan)
    return Alert(title, text.format(first=first, low=low, high=high, fall=fall, rise=rise), advice, metric, spans)


def _diverging(metrics: pd.DataFrame) -> Alert | None:
    """Between two neighbouring windows a diversity rises and the outcome falls, both beyond their noise."""
    spans: set[tuple[int, int]] = set()
    names = []
    for name in ("textual", "equational"):
        columns = ["reward/outcome", f"diversity/{name}"]
        both = metrics.reindex(columns=columns).dropna().apply(_moves)
        intervals = _spans((both[columns[0]] < -NOISE) & (both[columns[1]] > NOISE))
        spans.update(intervals)
        names += [name] if intervals else []
    if not spans:
        return None
    return Alert(
        "Diversity rises while the outcome reward falls",
        f"Responses became more diverse ({' and '.join(names)} diversity) and less often correct at the same time. The "
        "diversity reward may be hacked.",
        "Lower method.shaping.coef or clip_max, and read the rewarded responses.",
        "reward/outcome",
        tuple(sorted(spans)),
    )


def window(steps: int) -> int:
    """How many steps an alert averages over: a tenth of the run, 3 to 25, odd."""
    return min(25, max(3, steps // 10)) | 1


def smooth(values: pd.Series, width: int) -> pd.Series:
    """Centred moving mean; at the ends over the available part of the window."""
    return values.rolling(width, center=True, min_periods=1).mean()


def _moves(values: pd.Series) -> pd.Series:
    """By how many standard errors the mean of the `w` values up to each differs from that of the `w` before."""
    w = 2 * window(len(values))
    mean, var = values.rolling(w).mean(), values.rolling(w).var()
    return (mean - mean.shift(w)) / ((var + var.shift(w)) / w) ** 0.5


def _spans(flags: pd.Series) -> tuple[tuple[int, int], ...]:
    """The intervals of recorded steps where `flags` is true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return tuple((int(flags.index[a]), int(flags.index[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True))
