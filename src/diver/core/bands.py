"""A band over all k at once: where one Pass@k curve lies above another, and where the two cross."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from diver.core.statistics import FEW_DIFFERENCES, ends

LEVEL = 0.95  # the nominal coverage of all k together
DRAWS = 10_000  # the level of a band of 95 % is then met within 0.5 points (two standard errors)
FEW_IN_THE_TAIL = 100  # as FEW_DIFFERENCES, at the level of a band


class Range(NamedTuple):
    """Neighbouring k with the same finding."""

    first: int
    last: int
    sign: int
    """1 where the difference is above 0, -1 where it is below, 0 if the band holds 0."""


class Band(NamedTuple):
    """A difference of Pass@k over k, with a band that holds the expected curve at all k together."""

    ks: np.ndarray
    """int64 [k], rising."""
    mean: np.ndarray
    """float64 [k], as are `low` and `high`, the ends of the band."""
    low: np.ndarray
    high: np.ndarray
    pointwise: float
    """The level of the interval at each k at which all of them hold together at the nominal level."""
    single: tuple[np.ndarray, np.ndarray]
    """The ends of the interval at each k alone, at the nominal level."""

    @property
    def about(self) -> str:
        return f"k from {self.ks[0]} to {self.ks[-1]}, all together (95 %)"

    @property
    def ranges(self) -> list[Range]:
        """The ranges of k by rising k; together they are all of them."""
        sign = (self.low > 0).astype(int) - (self.high < 0)
        starts = np.flatnonzero(np.diff(sign, prepend=2))
        lasts = [*(starts[1:] - 1), len(sign) - 1]
        return [Range(int(self.ks[a]), int(self.ks[b]), int(sign[a])) for a, b in zip(starts, lasts, strict=True)]

    def text(self, more: str, less: str) -> str:
        """Where `more` is above `less`, where below, and where the curves cross, in one or two sentences."""
        words = {1: f"{more} is higher", -1: f"{less} is higher", 0: "no significant difference"}
        ks = [f"{r.first} to {r.last}" if r.last > r.first else str(r.first) for r in self.ranges]
        findings = "; ".join(f"{words[r.sign]} for k = {k}" for r, k in zip(self.ranges, ks, strict=True))
        cross = f" The curves cross within k = {self.crossing[0]} to {self.crossing[1]}." if self.crossing else ""
        return f"{findings}.{cross}"

    @property
    def crossing(self) -> tuple[int, int] | None:
        """The confidence set of the first k at which the sign changes: (first, last). None without a change."""
        signed = [r for r in self.ranges if r.sign]
        for before, after in itertools.pairwise(signed):
            if before.sign != after.sign:
                return before.last + 1, after.first
        return None


def simultaneous(values: ArrayLike, ks: ArrayLike, bounds: tuple[float, float] | None = None) -> Band:
    """A simultaneous band of a mean over k, by a Gaussian multiplier bootstrap of the largest studentized deviation.

    The bootstrap gives the level at which an interval at each k has to be taken for all to hold together (sup-t band,
    Montiel Olea and Plagborg-Moller 2019). The interval at each k is `diver.core.statistics.interval` at that level, so
    that few problems, few seeds and rare successes are treated as they are for a single k. With several seeds, the band
    is at least Student's interval of the means of the seeds, at that level.

    Args:
        values ([k, problems] or [k, seeds, problems]): a measure for each k, for example paired differences of Pass@k,
            of at least two problems.
        ks ([k]): the numbers of samples, rising.
        bounds: the range of the values, as in `interval`.
    """
    y = np.asarray(values, dtype=np.float64)
    y = y[:, None] if y.ndim == 2 else y
    pointwise = _pointwise_level(y)
    seeds = y.shape[1]
    # Far in the tail, Student's interval needs more problems that differ, and a variance that few seeds estimate is too
    # uncertain to be the remainder of another.
    low, high = ends(y, bounds, pointwise, FEW_IN_THE_TAIL if seeds == 1 else FEW_DIFFERENCES)
    if seeds > 1:
        seeds_low, seeds_high = np.clip(ends(y.mean(2, keepdims=True), None, pointwise), *(bounds or (None, None)))
        low, high = np.minimum(low, seeds_low), np.maximum(high, seeds_high)
    return Band(np.asarray(ks, dtype=np.int64), y.mean((1, 2)), low, high, pointwise, ends(y, bounds, LEVEL))


def _pointwise_level(y: np.ndarray) -> float:
    """The level of each interval such that all of y [k, seeds, problems] hold together at LEVEL.

    The mean varies with the problems and, if there are several, with the seeds. Each problem and each seed is a row
    with its own bootstrap weight.
    """
    from scipy.special import ndtr

    centred = y - y.mean((1, 2), keepdims=True)
    rows = [centred.mean(1) / y.shape[2]]  # one row per problem, and one per seed if there are several
    if y.shape[1] > 1:
        rows.append(centred.mean(2) / y.shape[1])
    deviations = np.concatenate(rows, axis=1)
    scale = np.sqrt((deviations**2).sum(1))
    varies = scale > 1e-12  # up to rounding
    if not varies.any():
        return LEVEL
    # Only the covariance over k matters, so the rows are reduced to at most one per k with the same covariance.
    rows_of_k = np.linalg.qr((deviations[varies] / scale[varies, None]).T, mode="r")
    draws = np.random.Generator(np.random.Philox(key=0)).standard_normal((DRAWS, len(rows_of_k)))
    largest = np.abs(draws @ rows_of_k).max(1)
    return max(LEVEL, float(2 * ndtr(np.quantile(largest, LEVEL)) - 1))
