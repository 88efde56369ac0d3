"""F-GRPO (arXiv 2602.06717): GRPO's advantage times a focal weight, smaller where a group is solved more often."""

from typing import ClassVar

import numpy as np

from diver.core.settings import at_least, settings
from diver.core.types import Group
from diver.methods.base import Context
from diver.methods.grpo import Grpo


@settings
class FGrpo(Grpo):
    """Correctness, times (1 - p)^gamma with p the fraction of the group that is correct.

    Clip 0.20 / 0.20, as in the source, whose F-DAPO and F-CISPO are this with the loss of clip-higher and cispo.
    """

    name: str = "f-grpo"
    gamma: float = 0.5
    """The exponent, of 0.5, 1 and 2 the source's choice for its three models. 0 is grpo."""

    counts_correct: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(0, gamma=self.gamma)

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        p = float((group.outcomes >= self.threshold).mean())
        return (1 - p) ** self.gamma * super().advantages(group, context)
