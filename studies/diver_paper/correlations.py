"""Agreement of columns over problems: Spearman's correlation, with its interval over problems."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

_DRAWS_AT_ONCE = 1 << 22  # bounds the memory of a bootstrap over many problems


class Correlations(NamedTuple):
    """The correlation of each pair of M columns and the ends of its interval, float64 [M, M] each."""

    rho: np.ndarray
    low: np.ndarray
    high: np.ndarray


def rank_correlations(
    values: ArrayLike, control: int | None = None, level: float = 0.95, resamples: int = 2000, seed: int = 0
) -> Correlations:
    """Spearman's correlation of the columns of values [problems, M], with percentile bootstrap intervals over problems.

    For values [runs, problems, M], it is the mean of the runs' correlations; a resample draws the same problems for all
    runs. With `control`, it is the partial correlation given the ranks of that column, NaN for itself. Ties have their
    mean rank. The result is NaN for a column that does not vary, and everywhere with fewer than 3 problems. A resample,
    or a run, in which a column does not vary is left out.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim not in (2, 3) or not np.isfinite(x).all():
        raise ValueError(f"values must be finite, [problems, M] or [runs, problems, M]: got shape {x.shape}")
    x = x.reshape(-1, *x.shape[-2:])
    problems, columns = x.shape[1:]
    if problems < 3:
        return Correlations(*np.full((3, columns, columns), np.nan))
    rng, block = np.random.default_rng(seed), max(1, _DRAWS_AT_ONCE // (4 * x.size))
    sizes = [min(block, resamples - start) for start in range(0, resamples, block)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all NaN, where a column does not vary
        correlations = [_mean_spearman(x[:, rng.integers(problems, size=(rows, problems))], control) for rows in sizes]
        low, high = np.nanquantile(np.concatenate(correlations), [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
        return Correlations(_mean_spearman(x[:, None], control)[0], low, high)


def _mean_spearman(x: np.ndarray, control: int | None) -> np.ndarray:
    """[draws, M, M] of x [runs, draws, problems, M]."""
    runs, draws = x.shape[:2]
    rho = _spearman(x.reshape(-1, *x.shape[2:]), control)
    return np.nanmean(rho.reshape(runs, draws, *rho.shape[1:]), axis=0)


def _spearman(x: np.ndarray, control: int | None) -> np.ndarray:
    """[draws, M, M] of x [draws, problems, M]."""
    from scipy.stats import rankdata

    ranks = rankdata(x, axis=1)
    centred = ranks - ranks.mean(axis=1, keepdims=True)
    norm = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    unit = np.divide(centred, norm, out=np.full_like(centred, np.nan), where=norm > 0)
    rho = np.clip(unit.transpose(0, 2, 1) @ unit, -1.0, 1.0)
    if control is None:
        return rho
    with_control = rho[:, :, control, None]
    unexplained = np.sqrt(1.0 - with_control**2)
    scale = unexplained * unexplained.transpose(0, 2, 1)
    numerator = rho - with_control * with_control.transpose(0, 2, 1)
    # The scale is 0 for the control and for a column with the same ranks, up to rounding: their correlation is NaN.
    return np.clip(np.divide(numerator, scale, out=np.full_like(rho, np.nan), where=scale > 1e-9), -1.0, 1.0)
