"""RS-GRPO (arXiv 2509.24261): a risk-seeking objective between the mean and the best reward, (1/beta) log E[exp(beta
r)]."""

import numpy as np

from diver.core.settings import Positive, settings
from diver.core.types import Group
from diver.methods.base import Context, Method
from diver.methods.grpo import group_advantage


@settings
class RsGrpo(Method):
    """Rare successes count exponentially. A_i = (exp(beta r_i) / mean of exp(beta r) - 1) / beta.

    SoftmaxGRPO (arXiv 2608.09271), M softmax(r / tau) - 1, is this with beta = 1/tau, times beta; its release has tau
    0.1 and 0.3. Departure: clip 0.20 / 0.28, as clip-higher. The source's file of the advantage uses an
    undefined name; the formula is that of its README and paper.
    """

    name: str = "rs-grpo"
    beta: Positive = 2.0
    """The source recommends 2; towards 0 it is Dr. GRPO."""

    unit_outcomes = True  # beta is per unit of reward
    zero_mean = True
    any_size = True

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        r = group.rewards
        weight = np.exp(self.beta * (r - r.max()))  # subtracting the maximum cancels in the quotient
        return group_advantage(weight / weight.mean(), "none") / self.beta
