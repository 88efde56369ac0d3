"""After differential smoothing, DS-GRPO (arXiv 2511.19942, Eq. 6): the unlikely gain if correct, and lose if wrong."""

import numpy as np

from diver.core.settings import NonNegative, settings
from diver.core.types import Group
from diver.methods.base import Context, sum_logprobs
from diver.methods.grpo import ClipHigher


@settings
class DsGrpo(ClipHigher):
    """Amplifies unlikely responses.

    A_i = GRPO's - gamma_p log pi(o_i) of a correct response, GRPO's + gamma_n log pi(o_i) of a wrong one. log pi is the
    sum over its tokens under the sampler, where the source's theory has the base model. Groups all correct or all wrong
    have this part too. The source's gammas were not found (hence "after"). Departure: clip 0.20 / 0.28, as the source's
    is not known either.
    """

    name: str = "ds-grpo"
    gamma_p: NonNegative = 0.001
    """Weight for correct responses (ours). log pi grows with the length: about -100 for 300 tokens of mathematics."""
    gamma_n: NonNegative = 0.001
    """Weight for wrong responses (ours)."""

    counts_correct = True
    zero_mean = False
    formula_needs = frozenset({"logprobs"})

    @property
    def unit_outcomes(self) -> bool:
        return self.divisor == "none" or super().unit_outcomes  # gamma log pi is added to A

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        correct = self.correct(group)
        logprob = sum_logprobs(group)
        return super().advantages(group, context) + np.where(correct, -self.gamma_p, self.gamma_n) * logprob
