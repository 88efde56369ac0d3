"""PKPO (arXiv 2505.15201): an unbiased estimate of the gradient of Pass@k, with the leave-one-out-minus-one
baseline."""

import math

import numpy as np

from diver.core.settings import PositiveInt, settings
from diver.core.types import DiverError, Group
from diver.methods.base import Context
from diver.methods.pass_at_k import OfSets


@settings
class Pkpo(OfSets):
    """Unbiased gradient of Pass@k.

    A = k C(G-c, k-1) / C(G-1, k-1) of a correct response, where c of the G responses are correct. A wrong one has 0.
    The mean over the group of A_i grad log pi(o_i) is then unbiased (the source writes k/G and a sum). The mean of A is
    not 0: a trainer that subtracts it would bias the gradient.
    """

    name: str = "pkpo"
    k: PositiveInt = 4
    """The k of Pass@k (ours, as pass-at-k). With k = 1 it is REINFORCE without a baseline."""

    outcomes_only = True
    counts_correct = True

    def check_group_size(self, size: int, key: str) -> None:
        if self.k > size:
            raise DiverError(f"method.k is {self.k} with {key} = {size}: k must be at most G")

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        self.check_group_size(len(group), "G")
        correct = self.correct(group)
        size, k = len(group), self.k
        return correct * (k * math.comb(size - int(correct.sum()), k - 1) / math.comb(size - 1, k - 1))
