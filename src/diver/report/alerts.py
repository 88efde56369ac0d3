"""Alerts of a run, from its metrics: what is wrong, in words, and at which steps."""

from __future__ import annotations

import math
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from diver.report.run_record import RunRecord
from diver.report.summary import compare

if TYPE_CHECKING:
    import pandas as pd

NOISE = 2.0  # standard errors by which a mean must move to count as moved


class Alert(NamedTuple):
    """`metric` names the curve that shows it; `spans` are the first and last step of each interval."""

    title: str
    text: str
    metric: str = ""
    spans: tuple[tuple[int, int], ...] = ()


def alerts(run: RunRecord) -> list[Alert]:
    """All alerts of a run; an empty list where there is none."""
    levels = [_level(run, **rule) for rule in _rules()]
    return [alert for alert in (_diverging(run), *levels, _narrower(run)) if alert]


@cache
def _rules() -> list[dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("alerts.toml").read_text(encoding="utf-8"))["level"]


def _level(
    run: RunRecord,
    metric: str,
    title: str,
    text: str,
    above: float = math.inf,
    below: float = -math.inf,
    relative: bool = False,
) -> Alert | None:
    """A metric whose moving mean is beyond a limit."""
    known = run.column(metric)
    values = smooth(known, window(len(known)))
    first = values.iloc[0] if len(values) else 0.0
    unit = first if relative else 1.0
    spans = _spans((values > above * unit) | (values < below * unit)) if unit > 0 else ()
    if not spans:
        return None
    low, high = values.min(), values.max()
    fall, rise = (low / first, high / first) if first > 0 else (math.nan, math.nan)
    return Alert(title, text.format(first=first, low=low, high=high, fall=fall, rise=rise), metric, spans)


def _diverging(run: RunRecord) -> Alert | None:
    """Between two neighbouring windows a diversity rises and the outcome falls, both beyond their noise."""
    spans: set[tuple[int, int]] = set()
    metrics = []
    for metric in ("textual", "equational"):
        columns = ["reward/outcome", f"diversity/{metric}"]
        both = run.metrics.reindex(columns=columns).dropna().apply(_moves)
        intervals = _spans((both[columns[0]] < -NOISE) & (both[columns[1]] > NOISE))
        spans.update(intervals)
        metrics += [metric] if intervals else []
    if not spans:
        return None
    return Alert(
        "Diversity rises while the outcome reward falls",
        f"Responses became more diverse ({' and '.join(metrics)} diversity) and less often correct at the same time. The "
        "diversity reward may be hacked: lower method.shaping.coef or clip_max, and read the rewarded responses.",
        "reward/outcome",
        tuple(sorted(spans)),
    )


def _narrower(run: RunRecord) -> Alert | None:
    rows = [row for row in compare(run) if row.percent]
    if len(rows) < 2 or not (rows[0].paired.low > 0 and rows[-1].paired.high < 0):
        return None
    first, last = rows[0], rows[-1]
    return Alert(
        f"{first.label} rises while {last.label} falls",
        f"{first.label} rose by {first.show(first.change)} points while {last.label} fell by {last.show(-last.change)}: given many "
        "samples, the trained policy solves fewer problems than the base policy.",
        f"eval/{last.label.lower()}",
    )


def window(steps: int) -> int:
    """How many steps an alert averages over: a tenth of the run, 3 to 25, odd."""
    return min(25, max(3, steps // 10)) | 1


def smooth(values: pd.Series, width: int) -> pd.Series:
    """Centred moving mean; at the ends over the part of the window that is there."""
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


def span_text(spans: tuple[tuple[int, int], ...], most: int = 4) -> str:
    """The intervals in words: "step 3", "steps 5–9 and 20–31"; empty without any."""
    if not spans:
        return ""
    words = [f"{a:,}" if a == b else f"{a:,}–{b:,}" for a, b in spans[:most]]
    rest = [f"{len(spans) - most} later intervals"] if len(spans) > most else []
    *first, last = words + rest
    noun = "step" if len(spans) == 1 and spans[0][0] == spans[0][1] else "steps"
    return f"{noun} {', '.join(first)} and {last}" if first else f"{noun} {last}"
