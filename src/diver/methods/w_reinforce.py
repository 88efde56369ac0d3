"""PSR, NSR and W-REINFORCE (arXiv 2506.01347): correct and wrong responses with constant weights, whatever their
group."""

import numpy as np

from diver.core.settings import settings
from diver.core.types import Group
from diver.losses import ClipLoss, PolicyLoss
from diver.methods.base import Context, Method, Selection


@settings
class WReinforce(Method):
    """A = 0.1 if correct, -1 if wrong.

    Clip 0.20 / 0.20 and an entropy bonus, verl's defaults at the time of the authors' script. Departure: so that the
    rows of a mini-batch can be split among devices, the source drops a few more of them."""

    name: str = "w-reinforce"
    positive: float = 0.1
    """The weight of correct responses (lambda)."""
    negative: float = 1.0
    """The weight of wrong ones."""
    loss: PolicyLoss = ClipLoss(clip_low=0.20, clip_high=0.20, entropy_coef=0.001)

    outcomes_only = True
    any_size = True
    counts_correct = True

    def __post_init__(self) -> None:
        if min(self.positive, self.negative) < 0 or self.positive == self.negative == 0:
            raise ValueError(f"positive = {self.positive}, negative = {self.negative}: at least 0, and not both 0")

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        return np.where(self.correct(group), self.positive, -self.negative)


@settings
class Psr(WReinforce):
    """Trains on correct responses alone. A is 1. Wrong ones are left out before the update."""

    name: str = "psr"
    positive: float = 1.0
    negative: float = 0.0
    selection: Selection = Selection(outcomes="correct")


@settings
class Nsr(WReinforce):
    """Trains on wrong responses alone. A is -1. Correct ones are left out before the update."""

    name: str = "nsr"
    positive: float = 0.0
    selection: Selection = Selection(outcomes="wrong")
