"""After Multi-Moment Policy Optimization (arXiv 2608.02149): the attempts until the first success, at most T + 1."""

import numpy as np

from diver.core.settings import PositiveInt, settings
from diver.core.types import Group
from diver.losses import ClipLoss, PolicyLoss
from diver.methods.base import Context, Method
from diver.methods.grpo import group_advantage


@settings
class Mmpo(Method):
    """Fewer attempts until a success.

    A = (r - s) sum over k = 1 .. T of k (1 - s)^(k - 1), with s the mean outcome of the group. It is the gradient of
    the sum of the first T moments of the failure rate, 1 - s. That sum is the expected number of attempts until the
    first success, cut at T + 1. The formula is second-hand: two readings of the paper agree on its Eqs. 7 and 13 (hence
    "after"); the authors' release could not be read. It is the estimate of the authors' runs, which is biased; their
    unbiased one is not known. Clip 0.20 / 0.20.
    """

    name: str = "mmpo"
    moments: PositiveInt = 4
    """T. 1 is dr-grpo; no problem weighs more than T (T + 1) / 2."""
    loss: PolicyLoss = ClipLoss(clip_low=0.20, clip_high=0.20)

    unit_outcomes = True  # 1 - s is a failure rate
    zero_mean = True
    any_size = True

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        failure = 1 - float(group.outcomes.mean())
        weight = sum(k * failure ** (k - 1) for k in range(1, self.moments + 1))
        return weight * group_advantage(group.rewards, "none")
