"""The perplexity bonus of CDE, curiosity-driven exploration (arXiv 2509.09675): unlikely responses have more reward."""

import numpy as np

from diver.core.settings import NonNegative, Positive, settings
from diver.core.types import Group, Progress, Reward
from diver.methods.base import Context, mean_logprobs, with_diversity_reward
from diver.methods.diver import Schedule
from diver.methods.grpo import Grpo


@settings
class Cde(Grpo):
    """Bonus for unlikely responses.

    Eq. 2: r + omega min(|r| / kappa, alpha B), then GRPO's advantage. B is minus the mean log-prob of a token under the
    sampler. The source's r is 1 or -1: as a wrong response has the bonus too, |r| is here |2r - 1| of an outcome r from
    0 to 1. In units of the outcome the bonus is half of the source's. The division by the standard deviation takes that
    out. The weight, omega, falls over the run. The levels of the source's staircase were not found (hence "after").
    Only the bonus of the actor: not that of the critic's heads.
    """

    name: str = "cde"
    kappa: Positive = 3.0
    """The bonus is at most |r| / kappa."""
    alpha: NonNegative = 1.0
    """The coefficient of B."""
    schedule: Schedule = Schedule(kind="step", end=0.5)
    """How omega falls from 1: to 0 half-way (ours)."""

    unit_outcomes = True
    formula_needs = frozenset({"logprobs"})

    def shaping_coef(self, progress: Progress | float) -> float:
        return self.schedule.factor(progress)

    def rewards(self, group: Group, context: Context) -> list[Reward]:
        r = group.outcomes
        bonus = np.minimum(np.abs(2 * r - 1) / self.kappa, -self.alpha * mean_logprobs(group))
        return with_diversity_reward(r, self.shaping_coef(context.progress) * bonus / 2)
