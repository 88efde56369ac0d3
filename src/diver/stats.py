"""Estimators of many samples a problem, and the interval that a finite set of problems leaves open."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

_DRAWS_AT_ONCE = 1 << 22  # bounds the memory of a bootstrap over many problems


class Estimate(NamedTuple):
    """A mean and the ends of its interval, in the unit of the values."""

    mean: float
    low: float
    high: float

    def text(self, scale: float = 1.0, digits: int = 1, sign: str = "") -> str:
        """`mean [low, high]` times `scale`; the mean alone where there is no interval, a dash where nothing is known.

        `sign` is that of a format, such as "+", and for the mean.
        """
        if np.isnan(self.mean):
            return "–"
        mean = f"{scale * self.mean:{sign}.{digits}f}"
        return mean if np.isnan(self.low) else f"{mean} [{scale * self.low:.{digits}f}, {scale * self.high:.{digits}f}]"


def pass_at_k(n: ArrayLike, c: ArrayLike, k: int) -> np.ndarray:
    """The chance that at least one of k samples is correct: 1 - C(n-c, k) / C(n, k) (arXiv 2107.03374, eq. 1).

    n: samples of each problem; c: how many of them are correct; they broadcast. Returns float64 [problems] in [0, 1].
    NaN where n < k: the estimate is undefined. The mean over problems is Pass@k of the set.
    """
    n, c = np.broadcast_arrays(np.asarray(n), np.asarray(c))
    if not (np.issubdtype(n.dtype, np.integer) and np.issubdtype(c.dtype, np.integer)):
        raise ValueError(f"n and c are counts, so integers: got {n.dtype} and {c.dtype}")
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if np.any(c < 0) or np.any(c > n):
        raise ValueError("every problem needs 0 <= c <= n")
    n, wrong = n.astype(np.int64), (n - c).astype(np.int64)
    all_wrong = np.ones(n.shape)
    for drawn in range(k):  # factor by factor: the binomials themselves overflow from n = 1,030 on
        all_wrong *= np.maximum(wrong - drawn, 0) / np.maximum(n - drawn, 1)
    return np.where(n < k, np.nan, 1.0 - all_wrong)


def distinct_at_k(n: int, counts: ArrayLike, k: int) -> float:
    """The expected number of distinct correct solutions among k of the n samples of one problem, over all subsets.

    counts [solutions]: how often each distinct correct solution was sampled. Each is found with the chance that
    `pass_at_k` gives it, and chances add up. 0 without correct samples; NaN where n < k.
    """
    counts = np.atleast_1d(np.asarray(counts, dtype=np.int64))
    if counts.ndim != 1 or counts.sum() > n:
        raise ValueError(f"counts must be of different samples of one problem, at most n = {n} in all")
    return float(pass_at_k(n, counts, k).sum()) if n >= k else np.nan


def maj_at_k(votes: ArrayLike, k: int) -> float:
    """The chance that the most frequent answer of k samples is correct (self-consistency, arXiv 2203.11171).

    votes [n]: the answer of each sample as a number, 0 for correct (as graded, so that 1/2 and 0.5 are one answer),
    negative for no answer, which is no vote. The mean over the floor(n / k) disjoint runs of k samples in a row; of
    t answers that are equally frequent, each counts 1/t. A run without any vote is 0; NaN where n < k.
    """
    votes = np.asarray(votes)
    if votes.ndim != 1 or not np.issubdtype(votes.dtype, np.integer):
        raise ValueError(f"votes must be integers, one a sample, [n]: got {votes.dtype} of shape {votes.shape}")
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if len(votes) < k:
        return np.nan
    answers, labels = np.unique(votes, return_inverse=True)  # in order, so those that cast no vote come first
    runs = len(votes) // k
    index = np.arange(runs)[:, None] * len(answers) + labels[: runs * k].reshape(runs, k)
    counts = np.bincount(index.ravel(), minlength=runs * len(answers)).reshape(runs, -1)[:, answers >= 0]
    if not np.any(answers == 0):
        return 0.0
    most, correct = counts.max(axis=1), counts[:, 0]
    won = (correct == most) & (most > 0)
    return float(np.mean(won / np.maximum((counts == most[:, None]).sum(axis=1), 1)))


def bootstrap_interval(values: ArrayLike, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Estimate:
    """The mean of values [problems] with its percentile bootstrap interval, problems drawn with replacement.

    A NaN is a problem without a value: it is left out, of the mean too. Without any value all three are NaN; one
    problem has a mean but no interval (NaN). Equal values give an interval of width 0: the bootstrap sees no variation.
    """
    known = np.asarray(values, dtype=np.float64)
    if known.ndim != 1:
        raise ValueError(f"values must be one per problem, [problems]: got shape {known.shape}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, got {resamples}")
    known = known[~np.isnan(known)]
    if len(known) < 2:
        return Estimate(float(known[0]) if len(known) else np.nan, np.nan, np.nan)
    rng, block = np.random.default_rng(seed), max(1, _DRAWS_AT_ONCE // len(known))
    sizes = [min(block, resamples - start) for start in range(0, resamples, block)]
    means = np.concatenate([known[rng.integers(len(known), size=(rows, len(known)))].mean(axis=1) for rows in sizes])
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Estimate(float(known.mean()), float(low), float(high))


def paired_interval(a: ArrayLike, b: ArrayLike, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Estimate:
    """The mean of b - a over the same problems [problems], with its bootstrap interval; above 0: b is greater.

    Narrower than two intervals side by side, because what is hard for both cancels. A NaN in either drops the problem.
    """
    before, after = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if before.shape != after.shape:
        raise ValueError(f"a and b must be of the same problems: got shapes {before.shape} and {after.shape}")
    return bootstrap_interval(after - before, level, resamples, seed)


def two_level_interval(values: ArrayLike, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Estimate:
    """The mean of values [seeds, problems] with its bootstrap interval; both seeds and problems are resampled.

    Of n, n - 1 are drawn with replacement, which makes the variance of the drawn means unbiased (Rao and Wu 1988): with 5
    seeds, drawing 5 would make it a fifth too small. What belongs to a seed and a problem together counts about three
    times (the pigeonhole bootstrap, Owen 2007), so intervals are rather too wide than too narrow. One seed is kept as it is.
    A value a seed, [seeds, 1], has Student's interval: drawing from three to five numbers misses their mean 13 to 25 times
    in 100. One value has no interval (NaN). For paired differences, give b - a of the same seeds and problems. ValueError
    for NaN and other shapes.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"values must be [seeds, problems]: got shape {values.shape}")
    if np.isnan(values).any():
        raise ValueError("values must be known for every seed and problem")
    if values.size == 1:
        return Estimate(float(values[0, 0]), np.nan, np.nan)
    if values.shape[1] == 1:
        return _student(values[:, 0], level)
    seeds, problems = _two_weights(*values.shape, resamples, seed)
    means = ((seeds @ values) * problems).sum(axis=1)
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Estimate(float(values.mean()), float(low), float(high))


def _student(values: np.ndarray, level: float) -> Estimate:
    """The mean of values [n], n > 1, with Student's interval."""
    from scipy.stats import t

    mean = float(values.mean())
    low, high = t.interval(level, len(values) - 1, loc=mean, scale=values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, float(low), float(high))


# A page of results asks for a few shapes some hundred times, and drawing takes nearly all of the time.
@lru_cache(maxsize=8)
def _two_weights(seeds: int, problems: int, resamples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return _weights(rng, seeds, resamples), _weights(rng, problems, resamples)


def _weights(rng: np.random.Generator, size: int, resamples: int) -> np.ndarray:
    """The weight of each of `size` items in each resample of size - 1 of them, [resamples, size]; rows add up to 1."""
    num_draws = max(1, size - 1)
    return rng.multinomial(num_draws, np.full(size, 1.0 / size), size=resamples) / num_draws
