"""After F-GRPO (arXiv 2602.06717): GRPO's advantage times a focal weight, smaller where a group is solved more often."""

import numpy as np

from diver.methods.base import Context
from diver.methods.grpo import ClipHigher
from diver.settings import settings
from diver.types import Group


@settings
class FGrpo(ClipHigher):
    """Correctness, times (1 - p)^gamma with p the fraction of the group that is correct.

    The weight is the source's; its gamma was not found, hence "after".
    """

    name: str = "f-grpo"
    gamma: float = 1.0
    """The exponent (ours). 0 is clip-higher."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma < 0:
            raise ValueError(f"gamma must be at least 0, not {self.gamma}")

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        p = float((group.outcomes >= self.threshold).mean())
        return (1 - p) ** self.gamma * super().advantages(group, context)
