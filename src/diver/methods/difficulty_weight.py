"""The difficulty weights of GRPO-LEAD (arXiv 2504.09696) and F-GRPO (arXiv 2602.06717): GRPO's advantage times a weight
that depends on how often the group is solved."""

import math

import numpy as np

from diver.core.settings import NonNegative, settings
from diver.core.types import Group
from diver.losses import ClipLoss, PolicyLoss
from diver.methods.base import Context
from diver.methods.grpo import Grpo

LARGEST = 700.0  # exp(700) still fits into float64


@settings
class DifficultyWeight(Grpo):
    """Hard successes, easy failures more.

    GRPO's advantage times w(p) where it is positive, w(1 - p) where it is negative.

    The weight is w(x) = low + (high - low) / (1 + exp(steepness (x - midpoint))), with p the fraction that is correct.
    Only this of the source: not its length reward and its penalty. Clip 0.20 / 0.20 and an entropy bonus, verl's
    defaults at the time of the authors' script."""

    name: str = "difficulty-weight"
    low: float = 0.4
    """The weight of an outcome that is common in a group: x far above the midpoint."""
    high: float = 1.5
    """The weight of an outcome that is rare in a group: x far below the midpoint."""
    midpoint: float = 0.75
    """x at which the weight is half-way."""
    steepness: NonNegative = 10.0
    """The slope of the logistic function."""
    loss: PolicyLoss = ClipLoss(clip_low=0.20, clip_high=0.20, entropy_coef=0.001)

    counts_correct = True
    zero_mean = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.low <= self.high:
            raise ValueError(f"low and high must be 0 <= low <= high, not {self.low} and {self.high}")

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        a = super().advantages(group, context)
        p = float(self.correct(group).mean())
        return a * np.where(a > 0, self._weight(p), self._weight(1 - p))

    def _weight(self, x: float) -> float:
        return self.low + (self.high - self.low) / (1 + math.exp(min(self.steepness * (x - self.midpoint), LARGEST)))


@settings
class FGrpo(Grpo):
    """Less weight for easy problems. F-GRPO (arXiv 2602.06717).

    p is the fraction of the group that is correct. Clip 0.20 / 0.20, as in the source, whose F-DAPO and F-CISPO are
    this with the loss of clip-higher and cispo.
    """

    name: str = "f-grpo"
    gamma: NonNegative = 0.5
    """The exponent, of 0.5, 1 and 2 the source's choice for its three models. 0 is grpo."""

    counts_correct = True

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        p = float(self.correct(group).mean())
        return (1 - p) ** self.gamma * super().advantages(group, context)
