"""Pass@k Training (arXiv 2508.10751): the reward of a set of k responses is its highest reward."""

import math
from typing import Literal

import numpy as np

from diver.core.rounding import reaches
from diver.core.settings import PositiveInt, refuse_without_effect, settings
from diver.core.types import DiverError, Group
from diver.methods.base import Context, Method, random_stream
from diver.methods.grpo import group_advantage, one_group


@settings
class OfSets(Method):
    """The common part of methods that compare sets of k responses of a group."""

    any_size = False  # a set of k says more of a small group

    k: PositiveInt = 4
    """The size of a set."""

    def __post_init__(self) -> None:
        if self.selection.outcomes != "all":
            raise ValueError("selection.outcomes leaves groups of fewer than k responses; it must be all")

    def check_group_size(self, size: int, key: str) -> None:
        if self.k >= size:
            raise DiverError(f"method.k is {self.k} with {key} = {size}: k must be below G, or no group has a signal")


@settings
class PassAtK(OfSets):
    """Sets of k: one correct is enough. A is the mean advantage of all sets of k that a response is in.

    Clip 0.20 / 0.28, as clip-higher, so that a comparison with it shows one change.
    """

    name: str = "pass-at-k"
    k: PositiveInt = 4
    """The size of a set. With fewer than k wrong responses a group teaches nothing: at G = 8, k = 4 from 5 correct
    on."""
    form: Literal["analytic", "bootstrap"] = "analytic"
    """analytic: the exact mean over all sets; bootstrap: over random sets."""
    sets: PositiveInt | None = None
    """Number of random sets that `form` bootstrap draws; none: one per response of the group."""

    outcomes_only = True
    counts_correct = True
    zero_mean = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form == "analytic":
            refuse_without_effect(self, ["sets"], "form = 'analytic' has all sets; choose form = 'bootstrap'")

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        if self.form == "analytic":
            return pass_at_k_advantage(group.outcomes, self.k, self.threshold)
        # A stream of the problem, step and responses: a resumed run draws the same sets, one of another seed does not.
        random = random_stream(group.problem.id, context.progress, group.responses)
        return bootstrap_pass_at_k_advantage(group.outcomes, self.k, self.sets or len(group), random, self.threshold)


def pass_at_k_advantage(rewards: np.ndarray, k: int, threshold: float = 0.5) -> np.ndarray:
    """The mean advantage of all sets of k responses that a response is in: float64 [G].

    A set is worth 1 when one of its responses is correct (reward >= `threshold`), else 0. With W wrong responses, the
    fraction `R = 1 - C(W, k) / C(G, k)` of all C(G, k) sets is worth 1. The standard deviation of the sets is
    `s = sqrt(R (1 - R))`. Every set with a correct response is worth 1, so a correct one has `(1 - R) / s`. A wrong one
    has `(1 - R - C(W - 1, k - 1) / C(G - 1, k - 1)) / s`, which is `-(G - W) / W` of that, so the mean is 0. k = 1 is
    GRPO.

    All advantages are exactly 0 if all sets are worth the same: with no correct response, and with W < k (always, if
    k = G).

    Raises:
        ValueError: k is not from 1 to G, or a reward is NaN or infinite.
    """
    correct = _correct(rewards, k, threshold)
    size, wrong = len(correct), int((~correct).sum())
    sets, failed = math.comb(size, k), math.comb(wrong, k)
    if failed in (0, sets):
        return np.zeros(size)
    gain = math.sqrt(failed / (sets - failed))  # (1 - R) / s; whole numbers, however large, are divided exactly
    return np.where(correct, gain, -gain * (size - wrong) / wrong)


def bootstrap_pass_at_k_advantage(
    rewards: np.ndarray, k: int, sets: int, random: "np.random.Generator", threshold: float = 0.5
) -> np.ndarray:
    """`pass_at_k_advantage` estimated from `sets` random sets of k different responses: float64 [G].

    The normalised values of the sets are summed over the sets that a response is in and multiplied by G / (k sets).
    With this scale of ours, the limit is the analytic form, and the mean over the group is 0 for any number of sets.
    """
    correct = _correct(rewards, k, threshold)
    drawn = random.random((sets, len(correct))).argsort(axis=1)[:, :k]
    value = group_advantage(np.where(correct[drawn].any(axis=1), 1.0, 0.0))
    total = np.bincount(drawn.ravel(), weights=value.repeat(k), minlength=len(correct))
    return total * len(correct) / (k * sets)


def _correct(rewards: np.ndarray, k: int, threshold: float) -> np.ndarray:
    correct = reaches(one_group(rewards), threshold)
    if not 1 <= k <= len(correct):
        raise ValueError(f"k must be from 1 to the {len(correct)} responses of the group, not {k}")
    return correct
