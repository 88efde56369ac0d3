"""Alerts of a run, from its metrics: what is wrong, in words, and at which steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from diver.report.run_record import RunRecord
from diver.report.summary import compare

if TYPE_CHECKING:
    import pandas as pd

COLLAPSED = 0.3  # of the entropy at the start
EXPLODED = 2.0  # times the length at the start
TRUNCATED = 0.2  # of the responses
UNSOLVED = 0.5  # of the groups
UNSCORED = 0.01  # of the responses
NOISE = 2.0  # standard errors by which a mean must move to count as moved

Check = Callable[[RunRecord], "Alert | None"]


class Alert(NamedTuple):
    """`metric` names the curve that shows it; `spans` are the first and last step of each interval."""

    title: str
    text: str
    metric: str = ""
    spans: tuple[tuple[int, int], ...] = ()


def alerts(run: RunRecord) -> list[Alert]:
    """All alerts of a run, the most serious kinds first; an empty list where there is none."""
    return [alert for check in CHECKS if (alert := check(run))]


def span_text(spans: tuple[tuple[int, int], ...], most: int = 4) -> str:
    """The intervals in words: "step 3", "steps 5–9 and 20–31"; empty without any."""
    if not spans:
        return ""
    words = [f"{a:,}" if a == b else f"{a:,}–{b:,}" for a, b in spans[:most]]
    rest = [f"{len(spans) - most} later intervals"] if len(spans) > most else []
    *first, last = words + rest
    noun = "step" if len(spans) == 1 and spans[0][0] == spans[0][1] else "steps"
    return f"{noun} {', '.join(first)} and {last}" if first else f"{noun} {last}"


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


def _level(metric: str, bad: Callable[[pd.Series], pd.Series], title: str, text: str) -> Check:
    """A check of a metric's moving mean; `text` may use its {first}, {low} and {high} value, {fall} and {rise} to them."""

    def check(run: RunRecord) -> Alert | None:
        known = run.column(metric)
        values = smooth(known, window(len(known)))
        if not len(values) or not (spans := _spans(bad(values))):
            return None
        first, low, high = values.iloc[0], values.min(), values.max()
        fall, rise = (low / first, high / first) if first > 0 else (math.nan, math.nan)
        return Alert(title, text.format(first=first, low=low, high=high, fall=fall, rise=rise), metric, spans)

    return check


CHECKS: tuple[Check, ...] = (
    _level(
        "policy/entropy",
        lambda values: values < COLLAPSED * values.iloc[0],
        "Entropy collapse",
        "The policy's entropy fell to {low:.2g} nats per token, {fall:.0%} of its first value. The samples of a group "
        "become copies of each other, and little is left to explore.",
    ),
    _level(
        "response/length_mean",
        lambda values: (values > EXPLODED * values.iloc[0]) & (values.iloc[0] > 0),
        "Length explosion",
        "The mean response length grew from {first:,.0f} to {high:,.0f} tokens, {rise:.1f} times its first value. Check "
        "that responses reason more and do not only repeat themselves: read the longest ones.",
    ),
    _diverging,
    _level(
        "response/truncated",
        lambda values: values > TRUNCATED,
        "Truncated responses",
        "Up to {high:.0%} of the responses reached sample.max_tokens and were truncated. They cannot be correct, so the "
        "policy learns to be short: raise max_tokens, or check for repetition.",
    ),
    _level(
        "group/solve_none",
        lambda values: values > UNSOLVED,
        "Most groups have no correct response",
        "In up to {high:.0%} of the groups no response was correct, so they carry no outcome signal: use easier problems, "
        "larger groups, or a stronger model.",
    ),
    _level(
        "grade/timeout",
        lambda values: values > UNSCORED,
        "Verifier timeouts",
        "Up to {high:.0%} of the responses could not be verified in time and count as not correct in training. Read them; "
        "verify.timeout_s allows more seconds.",
    ),
    _level(
        "grade/error",
        lambda values: values > UNSCORED,
        "Verifier errors",
        "Up to {high:.0%} of the responses made the verifier fail and count as not correct in training. Read them.",
    ),
    _narrower,
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
