"""After UCPO (arXiv 2605.00365): unlikely correct responses get a larger share of the advantage."""

import numpy as np

from diver.core.rounding import alike
from diver.core.settings import ZeroToOne, settings
from diver.core.types import Group
from diver.methods.base import Context, mean_logprobs
from diver.methods.grpo import Grpo


@settings
class Ucpo(Grpo):
    """Unlikely correct responses get more.

    q is the softmax over the c correct responses of their mean log-prob of a token under the sampler. A correct
    response has GRPO's advantage times c ((1 - tau) / c + tau (1/q_i) / sum of 1/q). Their sum is then GRPO's. A wrong
    one has GRPO's. The outcomes of the correct ones must be equal. Read in the authors' release (hence "after"), which
    clamps q at 1e-6 and has clip 0.20 / 0.20, as here. Departure: the release divides by the standard deviation of the
    sample.
    """

    name: str = "ucpo"
    tau: ZeroToOne = 0.2
    """0 is grpo, 1 shares by 1/q alone."""

    counts_correct = True
    formula_needs = frozenset({"logprobs"})

    @property
    def zero_mean(self) -> bool:  # type: ignore[override]  # by its settings
        return not self.overlong  # a penalty makes A differ among correct responses

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        a = super().advantages(group, context)
        correct = np.flatnonzero(self.correct(group))
        if not len(correct):
            return a
        if not alike(np.array(outcomes := group.outcomes[correct].tolist()), self.tolerance):
            raise self._error(group, f"correct responses need equal outcomes, not {outcomes}: their sum is shared out")
        logprob = mean_logprobs(group)[correct]
        q = np.exp(logprob - logprob.max())
        inverse = 1 / np.maximum(q / q.sum(), 1e-6)
        a[correct] *= len(correct) * ((1 - self.tau) / len(correct) + self.tau * inverse / inverse.sum())
        return a
