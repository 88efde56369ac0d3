"""The curves of one or more runs as data: one panel, one metric, one line a run. The page draws them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from diver.report.reading import RunRecord, number, part
from diver.report.signs import Sign

POINTS = 2_000  # of a line; a longer one is thinned evenly
TIMES = ("time/sample", "time/verify", "time/diversity", "time/update")
SECONDS = "time"  # the panel of their sum


class Panel(NamedTuple):
    """One small picture of one metric. A percent panel has the axis 0 to 1."""

    metric: str
    title: str
    note: str = ""
    percent: bool = False


PANELS = (
    Panel("reward/outcome", "Outcome reward", "mean over the training rollouts"),
    Panel("group/solve_all", "Groups all right", "every response correct", True),
    Panel("group/solve_none", "Groups none right", "no response correct", True),
    Panel("diversity/textual", "Textual diversity", "TD: 1 − pairwise BLEU"),
    Panel("diversity/equational", "Equational diversity", "ED: formulas no other response has"),
    Panel("policy/entropy", "Entropy", "of the policy, nats a token"),
    Panel("response/length_mean", "Response length", "mean, tokens"),
    Panel("response/truncated", "Responses cut off", "at sample.max_tokens", True),
    Panel("shaping/coef", "Shaping ratio λ", "weight of the diversity reward"),
    Panel(SECONDS, "Seconds a step", "sampling, verifying, diversity, update"),
)
_PASS = re.compile(r"pass@(\d{1,9})")


def curves_data(runs: Sequence[RunRecord], found: Sequence[Sequence[Sign]]) -> dict[str, Any]:
    """{steps, panels, more}: a panel is {id, title, note, percent, lines, spans}, a line {run, steps, values, low, high}.

    `found` are the signs of each run, whose stretches are marked where they show. `more` are the panels of all metrics
    that have none of their own among `PANELS`.
    """
    chosen = [*_held_out(runs), *PANELS]
    known = {p.metric for p in chosen}
    others = sorted({key for run in runs for row in run.metrics for key in row} - known - {"step"})
    more = [Panel(name, name) for name in others]
    return {
        "steps": max([1, *(max(run.steps_done, *run.evaluations, 0) for run in runs)]),
        "panels": [p for panel in chosen if (p := _panel(panel, runs, found))["lines"]],
        "more": [p for panel in more if (p := _panel(panel, runs, found))["lines"]],
    }


def _held_out(runs: Sequence[RunRecord]) -> list[Panel]:
    """Panels of the smallest and the largest k of Pass@k that were estimated all along."""
    counts: dict[int, int] = {}
    for run in runs:
        for row in run.evaluations.values():
            for key in part(row, "estimates"):
                if m := _PASS.fullmatch(key):
                    counts[int(m[1])] = counts.get(int(m[1]), 0) + 1
    often = sorted(k for k, n in counts.items() if n == max(counts.values()))
    ends = dict.fromkeys([often[0], often[-1]]) if often else ()
    return [Panel(f"eval/pass@{k}", f"Held-out Pass@{k}", "bands: 95 % intervals", True) for k in ends]


def _panel(panel: Panel, runs: Sequence[RunRecord], found: Sequence[Sequence[Sign]]) -> dict[str, Any]:
    lines = [_line(run, panel.metric) for run in runs]
    spans = [[*span, i] for i, signs in enumerate(found) for s in signs if s.metric == panel.metric for span in s.spans]
    return {
        "id": panel.metric,
        "title": panel.title,
        "note": panel.note,
        "percent": panel.percent,
        "lines": [{"run": i, **line} for i, line in enumerate(lines) if line["steps"]],
        "spans": spans,
    }


def _line(run: RunRecord, metric: str) -> dict[str, Any]:
    steps, values, ends = points(run, metric)
    kept = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), POINTS)).round().astype(int))
    line = {"steps": steps[kept].tolist(), "values": _short(values[kept])}
    return line if ends is None else line | {"low": _short(ends[0][kept]), "high": _short(ends[1][kept])}


def _short(values: np.ndarray) -> list[float | None]:
    return [float(f"{v:.5g}") if math.isfinite(v) else None for v in values]


def points(run: RunRecord, metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """(steps int64 [m], values float64 [m], ends of the intervals [2, m] or None) of a metric where it is known.

    Held-out values come from eval/ with their intervals if they can; SECONDS is the sum of TIMES.
    """
    if metric == SECONDS:
        return *_seconds(run), None
    key = metric.removeprefix("eval/")
    found = {step: part(row, "estimates", key) for step, row in run.evaluations.items()}
    rows = [(step, *(number(e.get(end)) for end in ("mean", "low", "high"))) for step, e in found.items()]
    rows = [row for row in rows if not math.isnan(row[1])]
    if metric == key or not rows:
        return *run.column(metric), None
    table = np.array(rows)
    return table[:, 0].astype(np.int64), table[:, 1], table[:, 2:].T


def _seconds(run: RunRecord) -> tuple[np.ndarray, np.ndarray]:
    rows = [(int(row["step"]), [number(row.get(name)) for name in TIMES]) for row in run.metrics]
    told = [(step, float(np.nansum(times))) for step, times in rows if not np.isnan(times).all()]
    return np.array([s for s, _ in told], dtype=np.int64), np.array([v for _, v in told], dtype=np.float64)
