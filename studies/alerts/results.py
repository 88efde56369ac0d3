"""Numbers from the records: when Pass@1 falls, when an alert fires, which limit is chosen, and the rates.

The alerts are those of the package, applied to the metrics of a record at any limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from alerts.study import CHOICE, HEALTHY, REPORT, AlertRun, Study
from diver.core.run_folder import metrics_table
from diver.core.statistics import Estimate, paired_interval
from diver.pages.run_record import LEVEL, NARROWER, RunRecord, run_alerts
from diver.train.alerts import DIVERGING, NOISE, Rule, diverging, held, level, rules, window

if TYPE_CHECKING:
    import pandas as pd

FAMILY = 0.05
"""The probability that a run without a fall has one by chance."""
DIVERGED = "diverged"
"""The kind of a run that was planned as healthy and diverges."""


class Finished:
    """A finished run: its metrics, a row a step, and the correct samples of its evaluations."""

    def __init__(self, planned: AlertRun, record: Mapping[str, Any]) -> None:
        self.planned, self.record = planned, record

    @cached_property
    def metrics(self) -> pd.DataFrame:
        columns = self.record["metrics"]
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return metrics_table({"step": i, **row} for i, row in enumerate(rows, start=1))

    @property
    def correct(self) -> dict[int, list[int]]:
        """Step -> how many samples of each held-out problem are correct."""
        return {int(step): c for step, c in self.record["correct"].items()}

    @property
    def samples(self) -> int:
        return int(self.record["evaluation"]["samples"])

    @property
    def diverged(self) -> int | None:
        """The step at which the training diverged; None where it did not."""
        return self.record["diverged"]

    @property
    def kind(self) -> str:
        """The planned kind; DIVERGED, which is a broken kind, for a healthy run that diverges."""
        is_healthy = self.planned.kind == HEALTHY
        return DIVERGED if is_healthy and self.diverged is not None else self.planned.kind

    @cached_property
    def fall(self) -> int | None:
        """The first evaluation at which Pass@1 is below an earlier one, or the step at which the training diverged;
        None without a fall.

        Every pair of evaluations is compared, with a paired interval over problems. Its level is such that all pairs
        together have an error of at most FAMILY (Bonferroni).
        """
        shares = {step: np.array(c) / self.samples for step, c in sorted(self.correct.items())}
        pairs = list(combinations(shares, 2))
        confidence = 1 - FAMILY / max(1, len(pairs))
        below = [b for a, b in pairs if paired_interval(shares[a], shares[b], (0, 1), confidence).high < 0]
        return min([*below, *([] if self.diverged is None else [self.diverged])], default=None)


Fires = Callable[[Finished, float], int | None]
"""The step at which an alert fires in a run at a limit; None where it does not."""


class Watched(NamedTuple):
    """An alert: its limits from the most to the least sensitive, that of the package, and when it fires at a limit."""

    title: str
    limits: Sequence[float]
    today: float
    fires: Fires


def limit_of(rule: Rule) -> float:
    """The limit of a level: its `above` or its `below`."""
    return float(rule["above"] if "above" in rule else rule["below"])


def watched(study: Study) -> list[Watched]:
    """All alerts of a run folder, in the order of the package."""
    limits = study.config["limits"]
    alerts: list[tuple[str, float, Fires]] = [
        *((rule["title"], limit_of(rule), partial(_level_fires, rule)) for rule in rules()),
        (DIVERGING, NOISE, _diverging_fires),
        (NARROWER, LEVEL, _narrower_fires),
    ]
    return [Watched(title, limits.get(title, [today]), today, fires) for title, today, fires in alerts]


def _level_fires(rule: Rule, run: Finished, limit: float) -> int | None:
    """The step at which the alert is printed. If only the page has it, the last step of its first moving mean."""
    changed = {**rule, "above" if "above" in rule else "below": limit}
    if printed := held(run.metrics, [changed]):
        return printed[0][1]
    if (alert := level(run.metrics, **changed)) is None:
        return None
    half = window(int(run.metrics[rule["metric"]].count())) // 2
    return min(alert.spans[0][0] + half, int(run.metrics.index[-1]))


def _diverging_fires(run: Finished, limit: float) -> int | None:
    alert = diverging(run.metrics, limit)
    return alert.spans[0][0] if alert else None


def _narrower_fires(run: Finished, limit: float) -> int | None:
    """The last step: the alert compares the evaluations before and after the training. Its level is fixed."""
    n = run.samples
    evaluations: dict[int, dict[str, Any]] = {
        step: {
            "k": [1, n],
            "samples": n,
            "per_problem": [{"id": str(i), "n": n, "c": c, "distinct": c} for i, c in enumerate(correct)],
        }
        for step, correct in run.correct.items()
    }
    last = max(evaluations)
    ends = {0: evaluations[0], last: evaluations[last]}
    alerts = run_alerts(RunRecord(Path(), {}, run.metrics.iloc[:0], ends, {}))
    return last if alerts else None


class Rate(NamedTuple):
    """On how many of how many runs an alert fires."""

    fired: int
    runs: int

    @property
    def interval(self) -> Estimate:
        """The fraction with the interval of Clopper and Pearson, 95 %."""
        from scipy.stats import binomtest

        if not self.runs:
            return Estimate(np.nan, np.nan, np.nan)
        ends = binomtest(self.fired, self.runs).proportion_ci(0.95, method="exact")
        return Estimate(self.fired / self.runs, float(ends.low), float(ends.high))

    @property
    def text(self) -> str:
        """The numbers, with the interval in per cent: 3 of 32 [2, 25]."""
        _, low, high = self.interval
        return f"{self.fired} of {self.runs} [{100 * low:.0f}, {100 * high:.0f}]" if self.runs else "–"

    def of(self, noun: str) -> str:
        """The same in a sentence: 3 of 32 healthy runs, 9 % [2, 25]."""
        return f"{self.fired} of {self.runs} {noun}, {self.interval.text(100, 0).replace(' ', ' % ', 1)}"


class Results:
    """The finished runs of the study, and what the alerts do on them."""

    def __init__(self, study: Study) -> None:
        self.study, self.alerts = study, watched(study)
        planned = [(run, study.record(run)) for run in study.all_runs]
        self.runs = [Finished(run, record) for run, record in planned if record is not None]
        self.missing = len(planned) - len(self.runs)
        self._steps: dict[tuple[str, float], list[int | None]] = {}

    def steps(self, alert: Watched, limit: float) -> list[int | None]:
        """The step at which the alert fires in each run, in the order of `runs`."""
        key = alert.title, limit
        if key not in self._steps:
            self._steps[key] = [alert.fires(run, limit) for run in self.runs]
        return self._steps[key]

    def rate(self, alert: Watched, limit: float, half: str, kinds: Sequence[str]) -> Rate:
        """On how many runs of these kinds and this half the alert fires."""
        fired = [
            step is not None
            for run, step in zip(self.runs, self.steps(alert, limit), strict=True)
            if run.planned.half == half and run.kind in kinds
        ]
        return Rate(sum(fired), len(fired))

    def warned(self, limits: Mapping[str, float], half: str, kinds: Sequence[str]) -> Rate:
        """On how many of the runs with a fall of Pass@1 at least one alert fires before it."""
        columns = [self.steps(alert, limits[alert.title]) for alert in self.alerts]
        fired = [
            any(step is not None and step < run.fall for step in steps)
            for run, *steps in zip(self.runs, *columns, strict=True)
            if run.planned.half == half and run.kind in kinds and run.fall is not None
        ]
        return Rate(sum(fired), len(fired))

    @cached_property
    def titles(self) -> dict[str, str]:
        """The kinds of runs and their titles, the healthy one first."""
        titles = {kind: about["title"] for kind, about in self.study.kinds.items()}
        if any(run.kind == DIVERGED for run in self.runs):
            titles[DIVERGED] = "a healthy run that diverges"
        return titles

    @property
    def broken(self) -> list[str]:
        return [kind for kind in self.titles if kind != HEALTHY]

    def chosen(self, alert: Watched) -> float:
        """The limit that the rule of the protocol chooses on the choosing half."""
        allowed = self.study.config["false_alarms"]
        rates = {limit: self.rate(alert, limit, CHOICE, [HEALTHY]) for limit in alert.limits}
        fewest = min(rate.fired for rate in rates.values())
        quiet = [limit for limit, rate in rates.items() if rate.fired <= max(fewest, allowed * rate.runs)]
        place = list(alert.limits).index

        def merit(limit: float) -> tuple[int, int, int]:
            near = -abs(place(limit) - place(alert.today))
            return self.rate(alert, limit, CHOICE, self.broken).fired, near, place(limit)

        return max(quiet, key=merit)

    def leads(self, alert: Watched, limit: float, kinds: Sequence[str]) -> list[int]:
        """The number of steps from the alert to the fall of Pass@1, for each run of the reporting half with both."""
        return [
            run.fall - step
            for run, step in zip(self.runs, self.steps(alert, limit), strict=True)
            if run.planned.half == REPORT and run.kind in kinds and step is not None and run.fall is not None
        ]

    def any_rate(self, limits: Mapping[str, float], half: str, kinds: Sequence[str]) -> Rate:
        """On how many runs at least one alert fires."""
        columns = [self.steps(alert, limits[alert.title]) for alert in self.alerts]
        fired = [
            any(column[i] is not None for column in columns)
            for i, run in enumerate(self.runs)
            if run.planned.half == half and run.kind in kinds
        ]
        return Rate(sum(fired), len(fired))
