"""GRPO (arXiv 2402.03300; paper Eq. 2): A_i = (r_i - mean) / std over the group."""

from __future__ import annotations

from typing import Literal

import numpy as np

from diver.losses import ClipLoss, PolicyLoss
from diver.methods.base import Method
from diver.settings import settings
from diver.types import Group, Progress

Std = Literal["population", "sample"]


@settings
class Grpo(Method):
    """Correctness. A_i = (r_i - mean) / std over the group, clip 0.20 / 0.20.

    Departure: verl and TRL divide by the standard deviation of the sample plus 1e-6 (1e-4); here, as in the paper's
    Eq. 2, by that of the population, and nothing is added.
    """

    name: str = "grpo"
    std: Std = "population"
    """Whose standard deviation divides: the paper's 1/G, or the sample's 1/(G-1)."""
    tolerance: float = 1e-8
    """A group whose rewards differ by no more than this has advantages of exactly 0."""
    loss: PolicyLoss = ClipLoss(clip_low=0.20, clip_high=0.20)

    def __post_init__(self) -> None:
        if self.tolerance < 0:
            raise ValueError(f"tolerance must be at least 0, not {self.tolerance}")

    @property
    def zero_mean(self) -> bool:
        return True

    def advantages(self, group: Group, progress: Progress | float) -> np.ndarray:
        return group_advantage(group.rewards, self.std, self.tolerance)


def group_advantage(rewards: np.ndarray, std: Std = "population", tolerance: float = 1e-8) -> np.ndarray:
    """A_i = (r_i - mean) / std over the group (Eq. 2; GRPO, arXiv 2402.03300), float64 [G].

    A group whose max - min is at most `tolerance` gives exact zeros, G = 1 too: without that, the rounding error of the
    mean of six rewards of 1.065 would be scaled up to an advantage of 1. Nothing is added to the denominator.
    Raises ValueError for a reward that is NaN or infinite.
    """
    r = one_group(rewards)
    if np.ptp(r) <= tolerance:
        return np.zeros_like(r)
    return (r - r.mean()) / r.std(ddof=1 if std == "sample" else 0)


def one_group(rewards: np.ndarray) -> np.ndarray:
    """Rewards as float64 [G]; ValueError for another shape, and for a reward that is not finite."""
    r = np.asarray(rewards, dtype=np.float64)
    if r.ndim != 1 or not r.size:
        raise ValueError(f"rewards of one group must be a vector [G] with G >= 1, not of shape {r.shape}")
    if not np.isfinite(r).all():
        i = int(np.isfinite(r).argmin())
        raise ValueError(f"rewards must be finite, not {r[i]} at index {i}")
    return r
