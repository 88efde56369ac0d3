"""The curves of one or more runs as data: one panel per metric, one line per run. The page draws them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from diver.core.files import number, packaged_table
from diver.pages.page import evenly_spaced, short
from diver.pages.run_record import RunRecord
from diver.train.alerts import Alert

POINTS = 2_000  # maximum points per line; longer lines are thinned evenly
Line = dict[str, Any]
SECONDS = "time"  # the panel of `RunRecord.step_seconds`


class Panel(NamedTuple):
    """The plot of one metric, which is its `id`. A percent panel has the axis 0 to 1."""

    id: str
    title: str
    note: str = ""
    percent: bool = False


SHOWN = packaged_table("diver.pages", "panels.toml")
PANELS = [Panel(metric, **entry) for metric, entry in SHOWN["run"].items()]
MEANINGS = {
    f"{prefix}/{name}": meaning
    for prefix, metrics in packaged_table("diver.pages", "metrics.toml").items()
    for name, meaning in metrics.items()
}
"""The meaning of each logged metric, with its unit. In a name, * stands for any text."""


def meaning_of(metric: str) -> str:
    """The meaning of a logged metric; empty for a metric of a user's method."""
    return next((text for name, text in MEANINGS.items() if fnmatchcase(metric, name)), "")


def curves_data(runs: Sequence[RunRecord], alerts: Sequence[Sequence[Alert]]) -> dict[str, Any]:
    """{steps, panels, more}: a panel is {id, title, note, percent, lines, spans}, a line {run, steps, values, low,
    high}.

    `alerts` are those of each run. Their steps are marked in the curve of their metric. `more` are the panels of all
    metrics that are not among `PANELS`.
    """
    panels = [*_pass_at_k_panels(runs), *PANELS]
    names = sorted({name for run in runs for name in run.metrics} - {panel.id for panel in panels})

    def lines(panel: Panel) -> list[Line]:
        return [{"run": i, **line} for i, run in enumerate(runs) if (line := _line(run, panel.id))["steps"]]

    return {
        "steps": max([1, *(max(run.last_step, *run.evaluations, 0) for run in runs)]),
        "panels": drawn(panels, lines, alerts),
        "more": drawn([Panel(name, name, meaning_of(name)) for name in names], lines, alerts),
    }


def curves_over_seeds(variants: Sequence[Sequence[RunRecord]]) -> list[dict[str, Any]]:
    """The panels of several runs per variant: a line is the mean of a variant over the steps that all its runs have.

    `low` and `high` are the lowest and the highest of its runs.
    """
    import pandas as pd

    def lines(panel: Panel) -> list[Line]:
        variant_lines = []
        for i, runs in enumerate(variants):
            of_runs = [_line(run, panel.id) for run in runs]
            series = [pd.Series(line["values"], line["steps"], dtype=float) for line in of_runs]
            shared = pd.concat(series, axis=1, join="inner").dropna()
            if len(shared):
                ends = {"values": shared.mean(axis=1), "low": shared.min(axis=1), "high": shared.max(axis=1)}
                variant_lines.append({"run": i, **thinned(shared.index, **ends)})
        return variant_lines

    return drawn([*_pass_at_k_panels([run for runs in variants for run in runs]), *PANELS], lines, [])


def _pass_at_k_panels(runs: Sequence[RunRecord]) -> list[Panel]:
    """Panels of the smallest and the largest k that most evaluations have, and of the largest k of any."""
    counts = Counter(k for run in runs for evaluation in run.evaluations.values() for k in evaluation["k"])
    usual = [k for k, n in counts.items() if n == max(counts.values())]
    ends = sorted({min(usual), max(usual), max(counts)}) if usual else ()
    return [Panel(f"eval/pass@{k}", f"Held-out Pass@{k}", "bands: 95 % intervals", True) for k in ends]


def drawn(
    panels: Iterable[Panel], lines: Callable[[Panel], list[Line]], alerts: Sequence[Sequence[Alert]]
) -> list[dict[str, Any]]:
    """The panels that have a line, as the page draws them, with the steps of the alerts on their metrics."""
    return [
        {
            **panel._asdict(),
            "lines": panel_lines,
            "spans": [
                [*span, i]
                for i, of_run in enumerate(alerts)
                for alert in of_run
                if alert.metric == panel.id
                for span in alert.spans
            ],
        }
        for panel in panels
        if (panel_lines := lines(panel))
    ]


def _line(run: RunRecord, metric: str) -> dict[str, Any]:
    """The line of a metric. Held-out values come from eval/ with their intervals, if eval/ has the metric."""
    key = metric.removeprefix("eval/")
    stored = {step: e["estimates"][key] for step, e in run.evaluations.items() if key in e["estimates"]}
    evaluated = {step: estimate for step, estimate in stored.items() if estimate["mean"] is not None}
    if metric != key and evaluated:
        ends = {end: [number(e[end]) for e in evaluated.values()] for end in ("mean", "low", "high")}
        return thinned(list(evaluated), values=ends["mean"], low=ends["low"], high=ends["high"])
    values = run.step_seconds() if metric == SECONDS else run.column(metric)
    return thinned(values.index, values=values)


def thinned(steps: Any, **columns: Any) -> dict[str, Any]:
    """A line of at most POINTS points."""
    index = evenly_spaced(len(steps), POINTS)
    lines = {name: list(map(short, np.asarray(column)[index].tolist())) for name, column in columns.items()}
    return {"steps": np.asarray(steps)[index].tolist(), **lines}
