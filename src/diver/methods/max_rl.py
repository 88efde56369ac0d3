"""MaxRL (arXiv 2602.02710): A_i = (r_i - p) / p over the group, p the mean reward; the less often solved, the larger."""

import numpy as np

from diver.losses import ClipLoss, PolicyLoss
from diver.methods.base import Method
from diver.methods.grpo import one_group
from diver.settings import settings
from diver.types import Group, Progress


@settings
class MaxRl(Method):
    """Correctness, divided by its mean in the group.

    Clip 0.20 / 0.28, as clip-higher. No correct response gives exact zeros, and so does a group all correct.
    Departure: the source adds 1e-6 to p; here nothing is added.
    """

    name: str = "max-rl"
    loss: PolicyLoss = ClipLoss()

    @property
    def zero_mean(self) -> bool:
        return True

    def advantages(self, group: Group, progress: Progress | float) -> np.ndarray:
        r = one_group(group.rewards)
        p = r.mean()
        if p < 0:
            raise ValueError(f"MaxRL divides by the mean reward, which must be at least 0, not {p}")
        return (r - p) / p if p > 0 else np.zeros_like(r)
