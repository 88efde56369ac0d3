"""After Poly-EPO (arXiv 2604.17654): the value of a set of k responses is its mean reward times its diversity."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import numpy as np

from diver.core.settings import Bound, settings
from diver.core.types import Group
from diver.methods.base import Context
from diver.methods.grpo import group_advantage
from diver.methods.pass_at_k import OfSets


@settings
class PolyEpo(OfSets):
    """Sets of k times their distinct keys.

    A_i is the mean value of all sets of k that response i is in, minus that of all sets, without a standard deviation.
    A wrong response that adds an answer to sets with correct ones may have an advantage above 0. The formula and the
    constants are those that notes quote of the paper (hence "after"). One of them adds that a set of a single strategy
    is worth 0; here its diversity is 1 / k. Departures: the `key` of a response stands for its strategy, for which the
    source asks a language model. As there, a response without an answer adds no diversity. The mean is over the tokens
    of a mini-batch, where the source divides by a constant length.
    """

    name: str = "poly-epo"
    k: Annotated[int, Bound("at least 2", lambda k: k >= 2)] = 4
    """The size of a set (the source's n)."""

    outcomes_only = True
    unit_outcomes = True  # a set of wrong responses has value 0
    formula_needs = frozenset({"keys"})
    zero_mean = True

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        self.check_group_size(len(group), "G")
        value = mean_set_value(group.outcomes, [rollout.key or "" for rollout in group.rollouts], self.k)
        return group_advantage(value, divisor="none")  # the mean over the group equals the mean over all sets of k


def mean_set_value(rewards: np.ndarray, keys: Sequence[str], k: int) -> np.ndarray:
    """The mean over all sets of k responses that a response is in of (mean reward) (different keys / k): float64 [G].

    The key "" does not count. k is from 2 to G. No set is enumerated. In the sum over keys, each key counts in a set
    unless no member has it. Let m responses other than i and j have the key. Then C(G - 2 - m, k - 2) of the
    C(G - 2, k - 2) sets with i and j miss it; likewise for the sets with i.
    """
    size = len(keys)
    total = np.zeros(size)
    for key, m in Counter(keys).items():
        if key:
            has_key = np.array([other == key for other in keys])
            hit = np.where(has_key, 1.0, 1 - _none(size - 1, m, k - 1))
            hit_with = np.where(has_key | has_key[:, None], 1.0, 1 - _none(size - 2, m, k - 2)) * (k - 1) / (size - 1)
            np.fill_diagonal(hit_with, hit)
            total += hit_with @ rewards
    return total / k**2


def _none(size: int, members: int, k: int) -> float:
    """The probability that k responses, drawn from `size` of which `members` have a key, are all without it."""
    return math.comb(max(0, size - members), k) / math.comb(size, k)
