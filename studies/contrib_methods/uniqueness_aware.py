"""After uniqueness-aware RL (arXiv 2601.08763): the advantage of a response is shared with all that are the same."""

from collections import Counter

import numpy as np

from diver.core.settings import ZeroToOne, settings
from diver.core.types import Group
from diver.methods.base import Context
from diver.methods.grpo import ClipHigher


@settings
class UniquenessAware(ClipHigher):
    """Reward over how many are the same.

    A_i = GRPO's / n_i^alpha, n_i the number of responses with the key of i, itself included; wrong ones too, as in the
    source. alpha is from 0 to 1; the authors' value and code were not found (hence "after"). Departures: what is the
    same is the `key`, where the source asks a language model for the strategy; clip 0.20 / 0.28, as the source's is not
    known.
    """

    name: str = "uniqueness-aware"
    alpha: ZeroToOne = 1.0
    """The power (ours): 0 is GRPO; with 1 all responses with the same key weigh together as much as one."""

    formula_needs = frozenset({"keys"})
    any_size = False  # n is a count
    zero_mean = False

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        number = Counter(rollout.key for rollout in group.rollouts)
        shared_by = np.array([number[rollout.key] for rollout in group.rollouts])
        return super().advantages(group, context) / shared_by**self.alpha
