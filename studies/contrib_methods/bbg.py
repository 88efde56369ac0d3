"""After Bayesian Boundary Gating (arXiv 2606.15455): a problem counts by what Pass@k may still gain from it."""

import math

import numpy as np

from diver.core.settings import NonNegative, PositiveInt, settings
from diver.core.types import Group
from diver.methods.base import Context
from diver.methods.grpo import Grpo


@settings
class Bbg(Grpo):
    """Weight by the slope of Pass@k.

    GRPO's A times u(m) / u(1), where m of the n responses are correct. u(m) is the mean of k (1 - p)^(k - 1), the
    slope of Pass@k. The mean is over the posterior Beta(m + 1, n - m + 1) of the solve rate p. The weight is 0
    where u(m) < tau (n + 1). The formula is second-hand: a third party's port, which quotes Eqs. 8 and 9 (hence
    "after"). k and tau are the port's, too. Departure, also of the port: a group all wrong teaches nothing, and in
    the source it has a loss of its own, whose weight was not found.
    """

    name: str = "bbg"
    k: PositiveInt = 16
    """The k of Pass@k. 1 is grpo."""
    tau: NonNegative = 0.01
    """Groups with a slope below tau (n + 1) are left out of the gradient. 0: none."""

    counts_correct = True
    any_size = False  # u depends on n

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        size, correct = len(group), int(self.correct(group).sum())
        slope = self._slope(correct, size)
        gate = slope / self._slope(1, size) if slope >= self.tau * (size + 1) else 0.0
        return gate * super().advantages(group, context)

    def _slope(self, correct: int, size: int) -> float:
        return self.k * math.prod((size - correct + j) / (size + 1 + j) for j in range(1, self.k))
