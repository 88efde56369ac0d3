"""After XRPO's novelty sharpening (arXiv 2510.06672): a correct response that is unlikely has more advantage."""

import numpy as np

from diver.core.settings import NonNegative, settings
from diver.core.types import Group
from diver.methods.base import Context, mean_logprobs
from diver.methods.grpo import ClipHigher


@settings
class Xrpo(ClipHigher):
    """Bonus for unlikely correct responses.

    A correct response gains min(max(novelty (1 - eta), 0), limit A), where A is GRPO's advantage. eta = exp(l - mean l
    of the group), and l is the mean log-prob of a token under the sampler. The constants are those that a review quotes
    of the paper (hence "after"). Departures: without the source's adaptive allocation of samples; clip 0.20 / 0.28, as
    the source's is not known.
    """

    name: str = "xrpo"
    novelty: NonNegative = 2.5
    """The coefficient of 1 - eta (lambda)."""
    limit: NonNegative = 0.5
    """Maximum gain of a response, as a multiple of its advantage (kappa)."""

    counts_correct = True
    zero_mean = False
    formula_needs = frozenset({"logprobs"})

    @property
    def unit_outcomes(self) -> bool:
        return self.divisor == "none" or super().unit_outcomes  # `novelty` is not multiplied by A

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        a = super().advantages(group, context)
        logprob = mean_logprobs(group)
        eta = np.exp(logprob - logprob.mean())
        gain = np.minimum(np.maximum(self.novelty * (1 - eta), 0), self.limit * a)
        return np.where(self.correct(group), a + np.maximum(gain, 0), a)
