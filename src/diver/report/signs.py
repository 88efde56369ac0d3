"""Warning signs of a run, read off its metrics: what is the matter, in plain words, and at which steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from diver.report.reading import RunRecord
from diver.report.summary import compare

COLLAPSED = 0.3  # of the entropy at the start
EXPLODED = 2.0  # times the length at the start
TRUNCATED = 0.2  # of the responses
UNSOLVED = 0.5  # of the groups
UNJUDGED = 0.01  # of the responses
NOISE = 2.0  # standard errors by which a mean must move to count as moved


class Sign(NamedTuple):
    """One thing to look at. `metric` names the curve that shows it; `spans` are the first and last steps of each stretch."""

    title: str
    text: str
    metric: str = ""
    spans: tuple[tuple[int, int], ...] = ()


def signs(run: RunRecord) -> list[Sign]:
    """All warning signs of a run, the gravest kinds first; an empty list where there is none."""
    return [sign for check in CHECKS if (sign := check(run))]


def where(spans: tuple[tuple[int, int], ...], most: int = 4) -> str:
    """The stretches in words: "step 3", "steps 5–9 and 20–31"; empty without any."""
    if not spans:
        return ""
    words = [f"{a:,}" if a == b else f"{a:,}–{b:,}" for a, b in spans[:most]]
    rest = [f"{len(spans) - most} later stretches"] if len(spans) > most else []
    *first, last = words + rest
    noun = "step" if len(spans) == 1 and spans[0][0] == spans[0][1] else "steps"
    return f"{noun} {', '.join(first)} and {last}" if first else f"{noun} {last}"


def _narrower(run: RunRecord) -> Sign | None:
    rows = [row for row in compare(run) if row.percent]
    if len(rows) < 2 or not (rows[0].paired.low > 0 and rows[-1].paired.high < 0):
        return None
    one, many = rows[0], rows[-1]
    return Sign(
        "Right more often, but on fewer problems",
        f"{one.label} rose by {one.show(one.change)} points while {many.label} fell by {many.show(-many.change)}: with many "
        "tries, the trained policy solves fewer problems than the base did.",
        f"eval/{many.label.lower()}",
    )


def _entropy(run: RunRecord) -> Sign | None:
    steps, values = _smoothed(run, "policy/entropy")
    if not len(steps) or not values[0] > 0:
        return None
    spans = _spans(steps, values < COLLAPSED * values[0])
    if not spans:
        return None
    return Sign(
        "Entropy collapse",
        f"The policy's entropy fell to {values.min():.2g} nats a token, {values.min() / values[0]:.0%} of where it began. "
        "The samples of a group turn into copies of each other, and little is left to explore.",
        "policy/entropy",
        spans,
    )


def _length(run: RunRecord) -> Sign | None:
    steps, values = _smoothed(run, "response/length_mean")
    if not len(steps) or not values[0] > 0:
        return None
    spans = _spans(steps, values > EXPLODED * values[0])
    if not spans:
        return None
    return Sign(
        "Length explosion",
        f"Responses grew from {values[0]:,.0f} to {values.max():,.0f} tokens on average, {values.max() / values[0]:.1f} times "
        "the start. Check that they reason more and do not only repeat themselves: read the longest ones.",
        "response/length_mean",
        spans,
    )


def _diverging(run: RunRecord) -> Sign | None:
    """Between two neighbouring windows a diversity rises and the outcome falls, both beyond their noise."""
    spans: set[tuple[int, int]] = set()
    seen = []
    for word in ("textual", "equational"):
        steps, outcome, diversity = _together(run, "reward/outcome", f"diversity/{word}")
        stretches = _spans(steps, (_moves(diversity) > NOISE) & (_moves(outcome) < -NOISE))
        spans.update(stretches)
        seen += [word] if stretches else []
    if not spans:
        return None
    return Sign(
        "Diversity rises while the outcome falls",
        f"Responses became more different ({' and '.join(seen)} diversity) and less often right at the same time. The "
        "diversity reward may be paid for being odd: lower shaping.ratio or its bound, and read what is paid.",
        "reward/outcome",
        tuple(sorted(spans)),
    )


def _above(metric: str, limit: float, title: str, words: str) -> Callable[[RunRecord], Sign | None]:
    """A check that a share stays at or below `limit`; `words` may use {worst}."""

    def check(run: RunRecord) -> Sign | None:
        steps, values = _smoothed(run, metric)
        spans = _spans(steps, values > limit)
        return Sign(title, words.format(worst=f"{values.max():.0%}"), metric, spans) if spans else None

    return check


CHECKS: tuple[Callable[[RunRecord], Sign | None], ...] = (
    _entropy,
    _length,
    _diverging,
    _above(
        "response/truncated",
        TRUNCATED,
        "Responses are cut off",
        "Up to {worst} of the responses reached sample.max_tokens and were cut off before they ended. They cannot be "
        "right, so the policy is taught to be short: raise max_tokens, or look whether it repeats itself.",
    ),
    _above(
        "group/solve_none",
        UNSOLVED,
        "Most groups have no right answer",
        "In up to {worst} of the groups no response was right. They carry no signal of correctness: take easier problems, "
        "more responses a problem, or a stronger model.",
    ),
    _above(
        "grade/timeout",
        UNJUDGED,
        "The verifier ran out of time",
        "Up to {worst} of the responses could not be judged in time and count as not right. Look at what they wrote; "
        "verify.timeout_s allows more seconds.",
    ),
    _above(
        "grade/error",
        UNJUDGED,
        "The verifier failed",
        "Up to {worst} of the responses made the verifier fail and count as not right. Look at what they wrote.",
    ),
    _narrower,
)


def window(steps: int) -> int:
    """How many steps a sign averages over: a tenth of the run, 3 to 25, odd."""
    return min(25, max(3, steps // 10)) | 1


def smooth(values: np.ndarray, width: int) -> np.ndarray:
    """Centred moving mean; at the ends over the part of the window that is there."""
    if not len(values):
        return values
    reach = width // 2
    total = np.concatenate([[0.0], np.cumsum(values)])
    first, last = (
        np.maximum(np.arange(len(values)) - reach, 0),
        np.minimum(np.arange(len(values)) + reach + 1, len(values)),
    )
    return (total[last] - total[first]) / (last - first)


def _smoothed(run: RunRecord, metric: str) -> tuple[np.ndarray, np.ndarray]:
    steps, values = run.column(metric)
    return steps, smooth(values, window(len(values)))


def _together(run: RunRecord, one: str, other: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The steps at which both metrics are known, and both."""
    (s, a), (t, b) = run.column(one), run.column(other)
    both, i, j = np.intersect1d(s, t, return_indices=True)
    return both, a[i], b[j]


def _moves(values: np.ndarray) -> np.ndarray:
    """By how many standard errors the mean of the `w` values up to each differs from that of the `w` before; else 0."""
    w = 2 * window(len(values))
    moved = np.zeros(len(values))
    for end in range(2 * w, len(values) + 1):
        before, after = values[end - 2 * w : end - w], values[end - w : end]
        error = math.sqrt((before.var(ddof=1) + after.var(ddof=1)) / w)
        change = after.mean() - before.mean()
        moved[end - 1] = change / error if error > 0 else math.copysign(math.inf, change) if change else 0.0
    return moved


def _spans(steps: np.ndarray, flags: np.ndarray) -> tuple[tuple[int, int], ...]:
    """The stretches of recorded steps where `flags` holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return tuple((int(steps[a]), int(steps[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True))
