"""Alerts: problems of a run that its metrics show, described in words and with their steps.

The page of a run shows all alerts with their intervals; `AlertLog` prints each once while the run trains. alerts.toml
has the limits, and alert_rates.toml the rates of false alarms that studies/alerts has measured at these limits.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm import tqdm

from diver.core.files import packaged_table
from diver.core.run_folder import metrics_table

if TYPE_CHECKING:
    import pandas as pd

NOISE = 2.5  # minimum change of a mean, in standard errors; docs/results/alerts.md has the false alarms at it
STEPS = 5  # consecutive steps after which an alert is printed
DIVERGING = "Diversity rises while the outcome reward falls"
DIVERSITIES = ("textual", "equational")

Rule = Mapping[str, Any]
"""A level of alerts.toml: the arguments of `level`."""
Naming = Callable[[str], str]
"""Recipe key -> its name in the advice: for another engine with the engine's option in brackets."""
_KEY = re.compile(r"\b(?:data|method|model|sample|train|verify)(?:\.[a-z_]+)+")


class Alert(NamedTuple):
    """An alert. `metric` names the curve that shows it; `spans` are the first and the last step of each interval."""

    title: str
    text: str
    advice: str = ""
    metric: str = ""
    spans: tuple[tuple[int, int], ...] = ()


class AlertLog:
    """A logger that prints an alert on a level once, in one line, when it holds at each of the last STEPS steps.

    Args:
        rows: the earlier rows of a run that resumes. Alerts that held in them have been printed.
        prefix: the beginning of each line.
        named: see `Naming`; `diver.integrations.keys.also_named` for an engine.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), prefix: str = "", named: Naming = str) -> None:
        self._rows, self._prefix, self._named = list(rows), prefix, named
        self._printed = {alert.title for alert, _ in held(metrics_table(self._rows), rules(), named)}

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._rows.append({"step": step, **metrics})
        # The first two rows are needed for levels relative to the start; row 0 is an evaluation.
        recent = metrics_table([*self._rows[:2], *self._rows[-STEPS:]])
        for alert, _ in held(recent, rules(), self._named):
            first, last = alert.spans[-1]
            if alert.title not in self._printed and last == step and last - first >= STEPS - 1:
                self._printed.add(alert.title)
                tqdm.write(f"{self._prefix}step {step}: {alert.title}. {alert.text} {alert.advice}")

    def close(self) -> None:
        pass


class LiveAlerts:
    """Prints the alerts of a run in another process. Each line begins with the name of the run's folder."""

    def __init__(self, folder: Path) -> None:
        self._file, self._seen = folder / "metrics.jsonl", 0
        self._log = AlertLog(self._added(), f"{folder.name}: ")

    def look(self) -> None:
        """Print the alerts of the rows since the last call."""
        for row in self._added():
            self._log.log(row["step"], row)

    def _added(self) -> list[dict[str, Any]]:
        """The rows since the last call. A run that resumes writes the rows after its checkpoint again, unchanged."""
        # What follows the last newline is a row that is being written.
        lines = self._file.read_bytes().split(b"\n")[:-1] if self._file.exists() else []
        added = [json.loads(line) for line in lines[self._seen :]]
        self._seen += len(added)
        return added


def alerts(metrics: pd.DataFrame, named: Naming = str) -> list[Alert]:
    """All alerts of a run from its metrics by step, with their intervals. Levels are those of moving means."""
    levels = [level(metrics, **rule, named=named) for rule in rules()]
    return [alert for alert in (*levels, diverging(metrics, named=named)) if alert]


def held(metrics: pd.DataFrame, rules: Iterable[Rule], named: Naming = str) -> list[tuple[Alert, int]]:
    """The alerts on a level that hold at STEPS consecutive steps, without a moving mean.

    Each comes with the step at which `AlertLog` prints it.
    """
    held_alerts = []
    for rule in rules:
        alert = level(metrics, width=1, **rule, named=named)
        if alert and (spans := [first for first, last in alert.spans if last - first >= STEPS - 1]):
            held_alerts.append((alert, spans[0] + STEPS - 1))
    return held_alerts


@cache
def rules() -> Sequence[Rule]:
    """The levels of alerts.toml."""
    return packaged_table("diver.train", "alerts.toml")["level"]


@cache
def _rates() -> Mapping[str, Mapping[str, Any]]:
    """alert_rates.toml: title -> its limit, the number of runs, and on how many it fired."""
    return packaged_table("diver.train", "alert_rates.toml")


def rate(title: str, limit: float) -> str:
    """The rate of false alarms in words, with a space in front; empty if it is not measured at this limit."""
    measured = _rates().get(title)
    if measured is None or measured["limit"] != limit:
        return ""
    return f" It fires on {measured['fired']} of {measured['runs']} healthy runs (docs/results/alerts.md)."


def level(
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
    named: Naming = str,
) -> Alert | None:
    """An alert if the moving mean of a metric is beyond a limit; the arguments are keys of a level in alerts.toml."""
    if metric not in metrics or (recorded := metrics[metric].dropna()).empty:
        return None

    def mean(column: pd.Series) -> pd.Series:
        return column if width == 1 else smooth(column, width or window(len(recorded)))

    values = mean((recorded == 0).astype(float) if zeros else recorded)
    first = values.iloc[0]
    unit = first if relative else 1.0
    if not unit > 0:
        return None
    beyond = (values > above * unit) | (values < below * unit)
    if component := mostly or hardly:
        # False where the component was not recorded.
        is_small = mean(metrics.reindex(columns=[component]).loc[recorded.index, component]) < values / 2
        beyond &= is_small if hardly else ~is_small
    if not (spans := _spans(beyond)):
        return None
    low, high = values[beyond].min(), values[beyond].max()
    fall, rise = (low / first, high / first) if first > 0 else (math.nan, math.nan)
    seen = text.format(first=first, low=low, high=high, fall=fall, rise=rise)
    limit = above if math.isfinite(above) else below
    return Alert(title, seen + rate(title, limit), _KEY.sub(lambda key: named(key[0]), advice), metric, spans)


def diverging(metrics: pd.DataFrame, noise: float = NOISE, named: Naming = str) -> Alert | None:
    """An alert if a diversity rises and the outcome falls by over `noise` standard errors between adjacent windows."""
    spans: set[tuple[int, int]] = set()
    names = []
    for name in DIVERSITIES:
        columns = ["reward/outcome", f"diversity/{name}"]
        moves = metrics.reindex(columns=columns).dropna().apply(_moves)
        intervals = _spans((moves[columns[0]] < -noise) & (moves[columns[1]] > noise))
        spans.update(intervals)
        names += [name] if intervals else []
    if not spans:
        return None
    return Alert(
        DIVERGING,
        f"Responses became more diverse ({' and '.join(names)} diversity) and less often correct at the same time. The "
        f"diversity reward may be hacked.{rate(DIVERGING, noise)}",
        f"Lower {named('method.shaping.coef')} or {named('method.shaping.clip_max')}, and read the rewarded responses.",
        "reward/outcome",
        tuple(sorted(spans)),
    )


def window(steps: int) -> int:
    """The number of steps that an alert averages over: a tenth of the run, 3 to 25, odd."""
    return min(25, max(3, steps // 10)) | 1


def smooth(values: pd.Series, width: int) -> pd.Series:
    """Centred moving mean; at the ends over the available part of the window."""
    return values.rolling(width, center=True, min_periods=1).mean()


def _moves(values: pd.Series) -> pd.Series:
    """The difference between the means of the `w` values up to each value and of the `w` before, in standard errors."""
    w = 2 * window(len(values))
    mean, var = values.rolling(w).mean(), values.rolling(w).var()
    return (mean - mean.shift(w)) / ((var + var.shift(w)) / w) ** 0.5


def _spans(flags: pd.Series) -> tuple[tuple[int, int], ...]:
    """The intervals of recorded steps where `flags` is true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return tuple((int(flags.index[a]), int(flags.index[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True))
