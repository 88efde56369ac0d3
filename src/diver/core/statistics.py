"""Estimators from many samples per problem, and their confidence intervals over problems and seeds."""

import math
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# For a share near 0 or 1, most values equal the bound, and their variance underestimates that of new values. So up to
# PSEUDO_PROBLEMS imaginary problems, correct or wrong with equal probability, are added. Fewer are added if the sum of
# p (1 - p) over all problems exceeds BINOMIAL_VARIANCE.
PSEUDO_PROBLEMS, BINOMIAL_VARIANCE = 4.0, 3.0
# For a count with a distant bound, such as distinct@1024, the bound is lowered to the larger of this number and twice
# the highest value.
FEW_COUNTED = 8.0
# With fewer (effective) problems that differ, the mean is skewed and Student's interval is too narrow.
FEW_DIFFERENCES = 20
DETECTABLE = (1.96 + 0.84) / 1.96  # a two-sided test at 5 % with a power of 80 %, over half the interval


class Estimate(NamedTuple):
    """A mean and the ends of its interval, in the unit of the values; NaN if it is unknown."""

    mean: float
    low: float
    high: float

    @property
    def detectable(self) -> float:
        """The smallest true value that an interval of this width distinguishes from 0 with 80 % power (normal
        approximation)."""
        return DETECTABLE * (self.high - self.low) / 2

    def within(self, low: float, high: float) -> "Estimate":
        """This estimate with the interval clipped to `low` .. `high`, the range of the values."""
        return self._replace(low=float(np.clip(self.low, low, high)), high=float(np.clip(self.high, low, high)))

    def text(self, scale: float = 1.0, digits: int = 1, sign: str = "") -> str:
        """`mean [low, high]` times `scale`; the mean alone without an interval, and a dash for an unknown mean.

        `sign` is that of a format, such as "+", and applies to the mean.
        """
        if np.isnan(self.mean):
            return "–"
        mean = f"{scale * self.mean:{sign}.{digits}f}"
        return mean if np.isnan(self.low) else f"{mean} [{scale * self.low:.{digits}f}, {scale * self.high:.{digits}f}]"


UNKNOWN = Estimate(np.nan, np.nan, np.nan)


def pass_at_k(n: ArrayLike, c: ArrayLike, k: int) -> np.ndarray:
    """The chance that at least one of k samples is correct: 1 - C(n-c, k) / C(n, k) (arXiv 2107.03374, Eq. 1).

    The mean over problems is Pass@k of the set.

    Args:
        n: samples of each problem. It broadcasts against `c`.
        c: correct samples of each problem.
        k: samples that are drawn.

    Returns:
        float64 [problems] in [0, 1]; NaN if n < k, since the estimate is undefined.
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
    longest = min(k, int(n.max(initial=0)))
    for drawn in range(longest):  # factor by factor: the binomials themselves overflow from n = 1,030 on
        all_wrong *= np.maximum(wrong - drawn, 0) / np.maximum(n - drawn, 1)
    return np.where(n < k, np.nan, 1.0 - all_wrong)


def pass_curve(n: ArrayLike, c: ArrayLike, last: int) -> np.ndarray:
    """`pass_at_k` for every k from 1 to `last`, float64 [k, problems], by one product over k."""
    n, c = np.broadcast_arrays(np.asarray(n, dtype=np.int64), np.asarray(c, dtype=np.int64))
    drawn = np.arange(last)[:, None]
    factors = np.maximum(n - c - drawn, 0) / np.maximum(n - drawn, 1)
    return np.where(drawn >= n, np.nan, 1.0 - np.cumprod(factors, axis=0))


def distinct_at_k(n: int, counts: ArrayLike, k: int) -> float:
    """The expected number of distinct correct solutions among k of the n samples of one problem, over all subsets.

    Each solution is found with the chance that `pass_at_k` gives it, and chances add up.

    Args:
        n: samples of the problem.
        counts ([solutions]): how often each distinct correct solution was sampled.
        k: samples that are drawn.

    Returns:
        0 without correct samples; NaN if n < k.
    """
    counts = np.atleast_1d(np.asarray(counts, dtype=np.int64))
    if counts.ndim != 1 or counts.sum() > n:
        raise ValueError(f"counts must be of different samples of one problem, at most n = {n} in all")
    return float(pass_at_k(n, counts, k).sum()) if n >= k else np.nan


def pair_diversity(counts: ArrayLike) -> float:
    """The chance that two correct responses to one problem, drawn without replacement, are different solutions.

    D = 1 - sum_c C(n_c, 2) / C(K, 2), where K is the sum of n_c. For independent responses it estimates the
    Gini-Simpson index of the correct ones without bias, whatever Pass@1 is (PCMD of modebench 0.4.0).

    Args:
        counts ([solutions]): n_c, how often each distinct correct solution was sampled.

    Returns:
        A value in [0, 1]; NaN for fewer than two correct responses, which are no pair.
    """
    counts = np.asarray(counts, dtype=np.int64)
    pairs = math.comb(int(counts.sum()), 2)
    return 1.0 - int((counts * (counts - 1) // 2).sum()) / pairs if pairs else np.nan


def effective_number(diversity: float) -> float:
    """How many equally frequent solutions have this diversity: 1 / (1 - D), the Hill number of order 2 (Hill 1973).

    Args:
        diversity: D of `pair_diversity`, as a mean over problems. The mean of the numbers would have no bound.

    Returns:
        NaN if D is unknown, or is 1: no two responses were alike, so that their number is not bounded.
    """
    return 1.0 / (1.0 - diversity) if diversity < 1 else np.nan


WIDE = 0.2
"""The widest interval of a fraction without a remark."""


def enough(rows: Iterable[tuple[str, Estimate, int]]) -> str:
    """A sentence on how many problems are enough, if the widest 95 % interval of the fractions exceeds `WIDE`; else "".

    Args:
        rows: a label, its estimate and the number of problems, for each of the fractions.
    """
    widths = [(e.high - e.low, label, problems) for label, e, problems in rows if e.high - e.low > WIDE]
    if not widths:
        return ""
    width, label, problems = max(widths)
    needed = math.ceil(problems * (width / WIDE) ** 2)  # the width falls with the root of the number
    return f"{label} has an interval of {100 * width:.0f} points: about {needed:,} problems, not {problems:,}, give 20."


DISTINCT = {True: "distinct", False: "written differently"}
PAIRS = {exact: f"correct pairs {words}" for exact, words in DISTINCT.items()}
EFFECTIVE = {True: "effective solutions", False: "effective sets of formulas"}
"""Labels of counts, by whether the verifier knows when two solutions are the same."""
SUPPORT = "problems with such pairs"
ABOUT_PAIRS = (
    "Correct pairs: the probability p that two correct responses to a problem differ, over the problems with at least "
    "two. Effective: 1 / (1 - p), the effective number of solutions; an estimate, so it can exceed the samples."
)


def maj_at_k(votes: ArrayLike, k: int) -> float:
    """The chance that the most frequent answer of k samples is correct (self-consistency, arXiv 2203.11171).

    It is the mean over the floor(n / k) disjoint runs of k consecutive samples. If t answers are equally frequent, each
    counts 1/t.

    Args:
        votes ([n]): the answer of each sample as a number: 0 for correct as graded, so that 1/2 and 0.5 are one answer;
            negative for no answer, which is no vote.
        k: samples that vote.

    Returns:
        A run without a vote counts 0; NaN if n < k.
    """
    votes = np.asarray(votes)
    if votes.ndim != 1 or not np.issubdtype(votes.dtype, np.integer):
        raise ValueError(f"votes must be integers, one per sample, [n]: got {votes.dtype} of shape {votes.shape}")
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if len(votes) < k:
        return np.nan
    answers, labels = np.unique(votes, return_inverse=True)  # sorted, so answers below 0, which are no vote, come first
    runs = len(votes) // k
    index = np.arange(runs)[:, None] * len(answers) + labels[: runs * k].reshape(runs, k)
    counts = np.bincount(index.ravel(), minlength=runs * len(answers)).reshape(runs, -1)[:, answers >= 0]
    if not np.any(answers == 0):
        return 0.0
    most, correct = counts.max(axis=1), counts[:, 0]
    won = (correct == most) & (most > 0)
    return float(np.mean(won / np.maximum((counts == most[:, None]).sum(axis=1), 1)))


def by_problem(problems: Iterable[Hashable], values: ArrayLike) -> np.ndarray:
    """The mean over the groups of each problem, float64 [problems], in the order in which they first occur.

    A problem that was sampled at several steps counts as one problem in an interval.

    Args:
        problems ([groups]): the problem of each group.
        values ([groups]): its value; NaN is left out. A problem without a value has NaN.
    """
    numbers: dict[Hashable, int] = {}
    number = np.array([numbers.setdefault(problem, len(numbers)) for problem in problems], dtype=np.intp)
    y = np.asarray(values, dtype=np.float64)
    is_known = ~np.isnan(y)
    counts = np.bincount(number[is_known], minlength=len(numbers))
    sums = np.bincount(number[is_known], y[is_known], len(numbers))
    return np.divide(sums, counts, out=np.full(len(numbers), np.nan), where=counts > 0)


def bounds_of(measure: str) -> tuple[float, float] | None:
    """The `bounds` of a problem's value: (0, 1) of avg@n, pass@k, maj@k and pair_diversity, (0, k) of distinct@k, None
    for others."""
    kind, _, k = measure.lower().partition("@")
    if kind == "distinct":
        return 0.0, float(k)
    return (0.0, 1.0) if kind in ("avg", "pass", "maj", "pair_diversity") else None


def interval(values: ArrayLike, bounds: tuple[float, float] | None = None, level: float = 0.95) -> Estimate:
    """The mean of the values with a confidence interval for other problems and other seeds.

    `ends` has the formulas; benchmarks/coverage.py measures how often they hold.

    Args:
        values ([problems] or [seeds, problems]): in [problems], a NaN is a problem without a value and is left out of
            the mean too.
        bounds: the range of every value. With (0, u), such as (0, 1) for Pass@k, the interval stays within it. Where
            all values are equal to one end, it has the width that this many problems leave open. With (-u, u), the
            values are paired differences of such values. None gives Student's interval.
        level: the nominal coverage.

    Returns:
        NaN for all three numbers without any value; a mean without an interval (NaN) for one value.

    Raises:
        ValueError: another shape, or a value out of bounds.
    """
    y = np.asarray(values, dtype=np.float64)
    y = y[None, ~np.isnan(y)] if y.ndim == 1 else y
    if y.ndim != 2 or (np.ndim(values) == 2 and not y.size):
        raise ValueError(f"values must be [problems] or [seeds, problems]: got shape {np.shape(values)}")
    if np.isnan(y).any():
        raise ValueError("values must be known for every seed and problem")
    if bounds and not (bounds[1] > 0 and bounds[0] in (0, -bounds[1])):
        raise ValueError(f"bounds must be (0, u) or (-u, u), got {bounds}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, got {level}")
    if y.size < 2:
        return Estimate(float(y[0, 0]) if y.size else np.nan, np.nan, np.nan)
    if bounds and not (bounds[0] - 1e-9 <= y.min() and y.max() <= bounds[1] + 1e-9):
        raise ValueError(f"values must be within {bounds}: got {y.min()} to {y.max()}")
    return Estimate(float(y.mean()), *(float(end) for end in ends(y, bounds, level)))


def paired_interval(
    a: ArrayLike, b: ArrayLike, bounds: tuple[float, float] | None = None, level: float = 0.95
) -> Estimate:
    """The mean of b - a over the same problems (and seeds) with its interval; above 0, b is greater.

    It is narrower than two intervals side by side, because what is hard for both cancels.

    Args:
        a ([problems] or [seeds, problems]): a NaN drops the problem.
        b: like `a`.
        bounds: the range of the values of a and b, as in `interval`.
        level: the nominal coverage.
    """
    before, after = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if before.shape != after.shape:
        raise ValueError(f"a and b must be of the same problems: got shapes {before.shape} and {after.shape}")
    return interval(after - before, bounds and (bounds[0] - bounds[1], bounds[1] - bounds[0]), level)


def ends(
    values: ArrayLike, bounds: tuple[float, float] | None = None, level: float = 0.95, few: float = FEW_DIFFERENCES
) -> tuple[Any, Any]:
    """Both ends of `interval` for data sets [..., seeds, problems], one or more of each: two arrays [...].

    The method depends on `bounds`:

    - None: the interval is mean +- h, with h from `_half_width`.
    - (0, u): the mean over u is treated as a share of n coins. n is chosen such that the normal interval would have the
      half-width h (Korn and Graubard 1998). The share has the mid-p interval of that binomial.
    - (-u, u): gains max(y, 0) and losses max(-y, 0) are each such a share. Up to u = `FEW_COUNTED`, a share has at most
      two coins a problem. The interval is at least that of Student. With fewer problems than `few` that differ (in
      effect), it is also at least the combination of the ends of both shares by MOVER (Zou and Donner 2008).

    A u far above the values, beyond `FEW_COUNTED`, is lowered to twice the farthest from 0.
    """
    y = np.asarray(values, dtype=np.float64)
    if bounds is None:
        mean, half = y.mean((-2, -1)), _half_width(y, level)
        return mean - half, mean + half
    top = np.minimum(bounds[1], np.maximum(FEW_COUNTED, 2 * np.abs(y).max((-2, -1))))
    shares = y / top[..., None, None]
    if bounds[0] == 0:
        low, high = _share(shares, level, PSEUDO_PROBLEMS)
    else:
        low, high = _difference(shares, level, few, coins=bounds[1] <= FEW_COUNTED)
    return top * low, top * high


def _difference(y: np.ndarray, level: float, few: float, coins: bool) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the interval of a mean of values in [-1, 1], [..., seeds, problems]."""
    mean, half = y.mean((-2, -1)), _half_width(y, level)
    sides = [np.maximum(sign * y, 0) for sign in (1, -1)]
    gain, loss = (side.mean((-2, -1)) for side in sides)
    (gain_low, gain_high), (loss_low, loss_high) = (_share(side, level, coins=coins) for side in sides)
    h1, h2 = (_half_width(side, level) for side in sides)
    with np.errstate(divide="ignore", invalid="ignore"):  # correlation of the two means; 0 if one of them is constant
        correlation = np.nan_to_num((h1**2 + h2**2 - half**2) / (2 * h1 * h2), nan=0.0, posinf=0, neginf=0)
    r = np.clip(correlation, -1, 1)
    size = np.abs(y.mean(-2))  # size of each problem's difference
    skewed = size.sum(-1) ** 2 < few * np.maximum((size**2).sum(-1), 1e-300)
    down, up = (
        np.where(skewed, np.sqrt(np.maximum(x**2 + z**2 - 2 * r * x * z, 0)), 0)
        for x, z in ((gain - gain_low, loss_high - loss), (gain_high - gain, loss - loss_low))
    )
    return np.maximum(mean - np.maximum(half, down), -1), np.minimum(mean + np.maximum(half, up), 1)


def _share(y: np.ndarray, level: float, pseudo: float = 0.0, coins: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the interval of a mean of values in [0, 1], [..., seeds, problems].

    With `coins`, n is at most twice the number of problems. Where all values are small, their variance is too, but a
    problem that was not drawn may still differ by 1.
    """
    from scipy.special import betainc, ndtri

    mean = y.mean((-2, -1))
    coin = mean * (1 - mean)
    problems = max(y.shape[-2:]) if 1 in y.shape[-2:] else y.shape[-1]
    half = _half_width(y, level, pseudo * BINOMIAL_VARIANCE / np.maximum(problems * coin, BINOMIAL_VARIANCE), coin)
    with np.errstate(divide="ignore", invalid="ignore"):
        n = coin * (ndtri(0.5 + level / 2) / half) ** 2
    n = np.where(np.isfinite(n) & (half > 1e-9), n, problems)
    n = np.minimum(n, 2 * problems) if coins else n
    x = mean * n

    def quantile(q: float) -> np.ndarray:
        """p with P(X > x) + P(X = x) / 2 = q of a binomial with n coins, by bisection."""
        low, high = np.zeros_like(mean), np.ones_like(mean)
        for _ in range(40):  # to 2^-40
            p = (low + high) / 2
            above = np.where(x < n, betainc(x + 1, np.maximum(n - x, 1e-300), p), 0)
            from_x = np.where(x > 0, betainc(np.maximum(x, 1e-300), n - x + 1, p), 1)
            less = above + from_x < 2 * q
            low, high = np.where(less, p, low), np.where(less, high, p)
        return (low + high) / 2

    return np.where(x > 0, quantile(0.5 - level / 2), 0), np.where(x < n, quantile(0.5 + level / 2), 1)


def _half_width(y: np.ndarray, level: float, pseudo: ArrayLike = 0.0, worst: ArrayLike = 0.0) -> np.ndarray:
    """Half of Student's interval of the mean of y [..., seeds, problems], for new seeds and new problems: [...].

    Over one seed, or one column, that is t s / sqrt(n). Over both, it uses the mean squares of a two-way layout. The
    variance of the mean is the variance of problems plus what the seeds vary beyond the residual. Each part is
    estimated from few numbers, so t has Satterthwaite's degrees of freedom. The interval is at least the one that
    combines the quantiles of both parts. With fewer than 5 seeds the variance is at least that of the seeds alone.
    `pseudo` problems of the variance `worst` are counted with the others.
    """
    from scipy.special import stdtrit

    p = 0.5 + level / 2
    seeds, problems = y.shape[-2:]
    size = seeds * problems
    if 1 in (seeds, problems):
        variance = ((size - 1) * y.var((-2, -1), ddof=1) + np.asarray(pseudo) * worst) / (size - 1 + pseudo)
        return stdtrit(size - 1, p) * np.sqrt(variance / size)
    of_seed, of_problem = y.mean(-1, keepdims=True), y.mean(-2, keepdims=True)
    residuals = y - of_seed - of_problem + y.mean((-2, -1), keepdims=True)
    residual = (residuals**2).sum((-2, -1)) / ((seeds - 1) * (problems - 1))
    by_seed = problems * of_seed.var((-2, -1), ddof=1)
    by_problem = seeds * of_problem.var((-2, -1), ddof=1)
    by_problem = ((problems - 1) * by_problem + np.asarray(pseudo) * worst * seeds) / (problems - 1 + pseudo)
    excess = np.where(by_seed > (1 + 1e-9) * residual, by_seed - residual, 0)  # above 0 beyond rounding
    variance = excess + by_problem
    few = seeds < 5  # their variance is too uncertain for the residual to be taken from it
    if few:
        variance = np.maximum(variance, by_seed)
    squares = by_problem**2 / (problems - 1) + np.where((excess > 0) | few, by_seed**2 / (seeds - 1), 0)
    df = np.maximum(variance**2 / np.maximum(squares, 1e-300), seeds - 1)
    combined = stdtrit(seeds - 1, p) ** 2 * excess + stdtrit(problems - 1, p) ** 2 * by_problem
    return np.sqrt(np.maximum(stdtrit(df, p) ** 2 * variance, combined) / size)
