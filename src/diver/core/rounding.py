"""The only tolerance for rewards: numbers that differ only by rounding are equal."""

import numpy as np
from numpy.typing import ArrayLike

# Trainers store rewards in float32, whose rounding is 6e-8 of a number, and a reward may be a sum of several numbers.
ROUNDING = 1e-6
# Parts that cancel, such as 0.1 + 0.2 - 0.3, leave the rounding of a part where 0 is meant. Parts are about the size of
# the reward of a correct response, 1.
PART = 0.5


def alike(rewards: np.ndarray, tolerance: float = ROUNDING) -> bool:
    """Whether these rewards, float64 [G], differ by at most `tolerance` times their size.

    Their size is the largest absolute value, and at least `PART`.
    """
    low, high = float(rewards.min()), float(rewards.max())
    return high - low <= tolerance * max(PART, high, -low)


def reaches(outcomes: ArrayLike, threshold: float) -> np.ndarray:
    """Which outcomes are at least `threshold`, up to the rounding of float32: bool, in the shape of `outcomes`."""
    return np.asarray(outcomes, np.float64) >= threshold - ROUNDING * abs(threshold)
