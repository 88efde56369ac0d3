"""Methods and a loss of one's own, for tests that name them by import path, as `own_methods:MaxRl`."""

import numpy as np

from diver.losses import PolicyLoss
from diver.methods import Grpo, settings
from diver.types import Reward


@settings
class MaxRl(Grpo):
    """Correctness. MaxRL (arXiv 2602.02710): A_i = (r_i - mean) / mean."""

    def advantages(self, group, context):
        r = group.rewards
        return (r - r.mean()) / r.mean() if r.any() else r


@settings
class Likelihood(Grpo):
    """Correctness, minus the likelihood of the response."""

    @property
    def needs(self):
        return frozenset({"logprobs"})

    def rewards(self, group, context):
        return [Reward(r.reward.outcome, -float(np.exp(r.logprobs.sum()))) for r in group.rollouts]


@settings
class Loss(PolicyLoss):
    """A loss that only the built-in trainer can have."""
