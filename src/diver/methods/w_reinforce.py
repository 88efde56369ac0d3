"""PSR, NSR and W-REINFORCE (arXiv 2506.01347): correct and wrong responses with constant weights, whatever their group."""

import numpy as np

from diver.methods.base import Context, Method
from diver.settings import settings
from diver.types import Group


@settings
class WReinforce(Method):
    """Correctness. A is 0.1 for a correct response, -1 for a wrong one.

    Departures: clip 0.20 / 0.28, as clip-higher; where the source leaves rows of weight 0 out, here they have no gradient but
    count in the token mean.
    """

    name: str = "w-reinforce"
    positive: float = 0.1
    """The weight of correct responses (lambda)."""
    negative: float = 1.0
    """The weight of wrong ones."""

    def __post_init__(self) -> None:
        if min(self.positive, self.negative) < 0 or self.positive == self.negative == 0:
            raise ValueError(f"positive = {self.positive}, negative = {self.negative}: at least 0, and not both 0")

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        return np.where(group.outcomes >= self.threshold, self.positive, -self.negative)


@settings
class Psr(WReinforce):
    """Correctness. Only correct responses are reinforced: A is 1, and 0 for a wrong one."""

    name: str = "psr"
    positive: float = 1.0
    negative: float = 0.0


@settings
class Nsr(WReinforce):
    """Correctness. Only wrong responses are penalised: A is -1, and 0 for a correct one."""

    name: str = "nsr"
    positive: float = 0.0
