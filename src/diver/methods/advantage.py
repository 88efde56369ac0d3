"""From the rewards of one group to its advantages. Pure, float64."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

Std = Literal["population", "sample"]


def group_advantage(rewards: np.ndarray, std: Std = "population", tolerance: float = 1e-8) -> np.ndarray:
    """A_i = (r_i - mean) / std over the group (Eq. 2; GRPO, arXiv 2402.03300), float64 [G].

    A group whose max - min is at most `tolerance` gives exact zeros, G = 1 too: without that, the rounding error of the
    mean of six rewards of 1.065 would be scaled up to an advantage of 1. Nothing is added to the denominator.
    Raises ValueError for a reward that is NaN or infinite.
    """
    r = _one_group(rewards)
    if np.ptp(r) <= tolerance:
        return np.zeros_like(r)
    return (r - r.mean()) / r.std(ddof=1 if std == "sample" else 0)


def pass_at_k_advantage(rewards: np.ndarray, k: int, threshold: float = 0.5) -> np.ndarray:
    """The mean advantage of all sets of k responses that a response is in (Pass@k Training, arXiv 2508.10751): float64 [G].

    A set is worth 1 when one of its responses is correct (reward >= `threshold`; by how much does not matter), else 0.
    Of all C(G, k) sets the share R = 1 - C(W, k) / C(G, k) is worth 1, with W wrong responses; their standard deviation
    is s = sqrt(R (1 - R)). Every set with a correct response is worth 1, so a correct one has (1 - R) / s; a wrong one
    has (1 - R - C(W - 1, k - 1) / C(G - 1, k - 1)) / s = -(G - W) / W of that, so the mean is 0. k = 1 is GRPO.

    All sets are worth the same, and all advantages exactly 0, when no response is correct and also when W < k, so
    that every set has a correct one: at G = 8, k = 4 a group with 5 or more correct teaches nothing, and with k = G no
    group ever does. Raises ValueError for a k that is not from 1 to G, and for a reward that is NaN or infinite.
    """
    correct = _one_group(rewards) >= threshold
    size, wrong = len(correct), int((~correct).sum())
    _check_k(k, size)
    sets, failed = math.comb(size, k), math.comb(wrong, k)
    if failed in (0, sets):
        return np.zeros(size)
    gain = math.sqrt(failed / (sets - failed))  # (1 - R) / s; whole numbers, however large, are divided exactly
    return np.where(correct, gain, -gain * (size - wrong) / wrong)


def bootstrap_pass_at_k_advantage(
    rewards: np.ndarray, k: int, sets: int, random: np.random.Generator, threshold: float = 0.5
) -> np.ndarray:
    """`pass_at_k_advantage` estimated from `sets` random sets of k different responses: float64 [G].

    The sets' values, normalised by their mean and population standard deviation, are summed over the sets that a
    response is in and multiplied by G / (k sets): the limit for many sets is the analytic form, and the mean over the
    group is 0 for any number (the scale is ours). Exact zeros where all drawn sets are worth the same. Raises as there.
    """
    correct = _one_group(rewards) >= threshold
    _check_k(k, len(correct))
    if sets < 1:
        raise ValueError(f"sets must be at least 1, not {sets}")
    drawn = random.random((sets, len(correct))).argsort(axis=1)[:, :k]
    value = group_advantage(np.where(correct[drawn].any(axis=1), 1.0, 0.0))
    total = np.bincount(drawn.ravel(), weights=value.repeat(k), minlength=len(correct))
    return total * len(correct) / (k * sets)


def _one_group(rewards: np.ndarray) -> np.ndarray:
    r = np.asarray(rewards, dtype=np.float64)
    if r.ndim != 1 or not r.size:
        raise ValueError(f"rewards of one group must be a vector [G] with G >= 1, not of shape {r.shape}")
    if not np.isfinite(r).all():
        i = int(np.isfinite(r).argmin())
        raise ValueError(f"rewards must be finite, not {r[i]} at index {i}")
    return r


def _check_k(k: int, size: int) -> None:
    if not 1 <= k <= size:
        raise ValueError(f"k must be from 1 to the {size} responses of the group, not {k}")
