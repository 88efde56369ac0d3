"""max@k (arXiv 2510.23393): the reward of a set of k responses is its highest reward, for rewards of any value."""

import math
from typing import Annotated

import numpy as np

from diver.core.settings import Bound, settings
from diver.core.types import Group
from diver.losses import ClipLoss, PolicyLoss
from diver.methods.base import Context
from diver.methods.grpo import Grpo, group_advantage
from diver.methods.pass_at_k import OfSets


@settings
class MaxAtK(OfSets, Grpo):
    """Sets of k: the best reward counts. GRPO's A of the mean best reward of all sets of k.

    They are the sets that a response is in. With outcomes of 0 and 1 this is pass-at-k up to the scale of each group:
    A is GRPO's where at least k responses are wrong, and 0 elsewhere. The source's "BoN mean": its unbiased estimate
    (eq. 9, that of PKPO for such rewards) with GRPO's mean and standard deviation. Departure: without the source's
    other form, which corrects several updates for a batch to first order in the ratios. Clip 0.20 / 0.20 and a KL
    term of 0.01, as in the source.
    """

    name: str = "max-at-k"
    k: Annotated[int, Bound("at least 2", lambda k: k >= 2)] = 4
    """The size of a set (ours, as pass-at-k)."""
    loss: PolicyLoss = ClipLoss(clip_low=0.20, clip_high=0.20, kl_coef=0.01)

    def __post_init__(self) -> None:
        Grpo.__post_init__(self)
        OfSets.__post_init__(self)

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        self.check_group_size(len(group), "G")
        return group_advantage(mean_best(group.rewards, self.k), self.divisor, self.tolerance)


def mean_best(rewards: np.ndarray, k: int) -> np.ndarray:
    """The mean, over all sets of k from 2 to G responses that a response is in, of their highest reward: float64 [G].

    In ascending order from 0, response j is the highest of C(j, k - 1) sets. A given lower response is in C(j - 1,
    k - 2) of them (source, eq. 9, which counts from 1).
    """
    order = np.argsort(rewards)
    highest = np.array([math.comb(j, k - 1) for j in range(len(order))], float) * rewards[order]
    above_one = np.array([math.comb(max(0, j - 1), k - 2) for j in range(len(order))], float) * rewards[order]
    above = np.append(above_one[::-1].cumsum()[::-1][1:], 0.0)
    means = np.empty(len(order))
    means[order] = (highest + above) / math.comb(len(order) - 1, k - 1)
    return means
