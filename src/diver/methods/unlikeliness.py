"""Unlikeliness reward (arXiv 2506.02355): likely correct responses have less reward than unlikely ones."""

import numpy as np

from diver.core.rounding import alike
from diver.core.settings import ZeroToOne, settings
from diver.core.types import Group, Reward
from diver.losses import ClipLoss, PolicyLoss
from diver.methods.base import Context, sum_logprobs, with_diversity_reward
from diver.methods.grpo import Grpo


@settings
class Unlikeliness(Grpo):
    """Less reward for likely responses.

    r'_i = r_i (1 - beta (G - rank) / G), with rank 0 the likeliest of the group. Then GRPO's advantage. A group whose
    outcomes are all equal has none. The rank is that of the response's log-prob
    under the sampler, among all G; equal ones share the mean of their ranks (ours). Clip 0.20 / 0.20 and a KL term, as
    in the source. Departures: one epoch over a batch, where the source has two. Its release ranks by the mean log-prob
    of a token, and multiplies by 1 - beta rank / G with rank 0 the least likely.
    """

    name: str = "unlikeliness"
    beta: ZeroToOne = 0.25
    """Fraction of its reward that the most likely response loses."""
    loss: PolicyLoss = ClipLoss(clip_low=0.20, clip_high=0.20, kl_coef=0.1)

    unit_outcomes = True
    formula_needs = frozenset({"logprobs"})

    def rewards(self, group: Group, context: Context) -> list[Reward]:
        logprob = sum_logprobs(group)
        likelier, equal = logprob > logprob[:, None], logprob == logprob[:, None]
        rank = likelier.sum(axis=1) + (equal.sum(axis=1) - 1) / 2
        discount = self.beta * (len(group) - rank) / len(group)
        r = group.outcomes
        return with_diversity_reward(r, 0 - r * discount)

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        if alike(group.outcomes, self.tolerance):
            return np.zeros(len(group))
        return super().advantages(group, context)
