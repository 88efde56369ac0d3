"""DARLING (arXiv 2509.02534): the reward of a correct response times the fraction of its group that differs."""

from collections import Counter
from collections.abc import Hashable
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from diver.core.settings import ZeroToOne, call_own, import_object, settings
from diver.core.types import DiverError, Group, Reward
from diver.methods.base import Context, Decode, with_diversity_reward
from diver.methods.grpo import Divisor, Grpo


@settings
class Darling(Grpo):
    """Reward times the share that differs.

    A_i = r'_i - mean, with r'_i = r_i d_i and d_i = max((G - |class of i|) / (G - 1), floor). All G responses are
    classified, wrong ones too, as in the authors' code. Departures: classes are those of `key` unless `same` names a
    classifier. The source has one trained for mathematics, which joins two responses with a probability above 0.5, and
    two of at most 5 words by shared words. A verifier that knows solutions (Countdown's) tells correct responses apart;
    one that knows answers only does not, and then d is the same for all of them. The floor is in the code only.
    """

    name: str = "darling"
    divisor: Divisor = "none"
    floor: ZeroToOne = 0.1
    """The least d."""
    same: str = ""
    """A classifier in the place of keys, `package.module:function` of two responses -> bool. It is asked once for a
    pair, in their order, and a chain of pairs is one class."""

    common: ClassVar[dict[str, Any]] = {"divisor": "std"}  # the source defines the reward
    unit_outcomes = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.same and not callable(import_object(self.same, "method.same")):
            raise DiverError(f"method.same: {self.same!r} is not a function of two responses")

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | {"responses" if self.same else "keys"}

    def rewards(self, group: Group, context: Context) -> list[Reward]:
        classes = self._classes(group, context.decode)
        size = Counter(classes)
        distinct_share = np.array([len(group) - size[c] for c in classes]) / max(1, len(group) - 1)
        discount = 1 - np.maximum(distinct_share, self.floor)
        r = group.outcomes
        return with_diversity_reward(r, 0 - r * discount)

    def _classes(self, group: Group, decode: Decode | None) -> list[Hashable]:
        """A label for each response. Responses of the same class share a label."""
        if not self.same:
            return [rollout.key for rollout in group.rollouts]
        is_same, texts = import_object(self.same, "method.same"), self.diversity.texts(group, decode)
        subject = f"method.same {self.same!r}, problem {group.problem.id!r}"
        labels = list(range(len(texts)))
        for i, j in combinations(range(len(texts)), 2):
            if labels[i] != labels[j] and call_own(subject, is_same, texts[i], texts[j]):
                labels = [labels[i] if label == labels[j] else label for label in labels]
        return list(labels)
