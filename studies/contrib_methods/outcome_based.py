"""After outcome-based exploration (arXiv 2509.06941): an answer that is rare has more advantage.

A_i = GRPO's + coef * e_i, where e_i depends only on the answer k_i of the response, its `key`. No answer counts as an
answer. e is 0 in a group all correct. The authors' code was not found; the formulas
and constants are those that notes and a review of the paper quote (hence "after").
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence

import numpy as np

from diver.core.settings import NonNegative, settings
from diver.core.types import Group, State
from diver.methods.base import Context, Decode
from diver.methods.grpo import ClipHigher

BOX = r"\boxed{"


@settings
class OutcomeBased(ClipHigher):
    """The common part of the three methods. A subclass defines e, which is never divided.

    Departures: clip 0.20 / 0.28 and no KL term, whose coefficient is not known.
    """

    coef: NonNegative = 0.2
    """The coefficient of e (c)."""
    mask_answer: bool = False
    """The tokens of the final answer have GRPO's advantage only, so e rewards another solution, not another number.
    The answer is the last \\boxed{...}; a response without one has no such tokens (ours: which they are
    was not found)."""

    counts_correct = True
    zero_mean = False
    formula_needs = frozenset({"keys"})

    @property
    def unit_outcomes(self) -> bool:
        return self.divisor == "none" or super().unit_outcomes  # coef e is added to A

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | ({"tokens", "decode"} if self.mask_answer else set())

    @property
    def per_token(self) -> bool:  # type: ignore[override]  # by its settings
        return self.mask_answer

    def advantages(  # type: ignore[override]  # for each token, where its settings say so
        self, group: Group, context: Context
    ) -> np.ndarray | Sequence[np.ndarray]:
        a = super().advantages(group, context)
        e = np.zeros(len(group))
        if not self.correct(group).all():
            e = self.coef * self.exploration(group, context)
        if not self.mask_answer:
            return a + e
        if context.decode is None:
            raise ValueError("mask_answer needs `decode` to find the tokens of the answer")
        masks = [answer_tokens(rollout.tokens or (), context.decode) for rollout in group.rollouts]
        return [a_i + e_i * ~mask for a_i, e_i, mask in zip(a, e, masks, strict=True)]

    def exploration(self, group: Group, context: Context) -> np.ndarray:
        """e, float64 [G], of a group that is not all correct."""
        raise TypeError(f"method {self.name!r} does not say what is explored: define exploration")


@settings
class OutcomeBatch(OutcomeBased):
    """Minus the share of the same answer.

    e_i = -1/G times the number of other responses with the answer of i. The tokens of the answer have it too: the
    sources describe their mask for the other two.
    """

    name: str = "outcome-batch"

    def exploration(self, group: Group, context: Context) -> np.ndarray:
        keys = [rollout.key for rollout in group.rollouts]
        number = Counter(keys)
        return np.array([(1 - number[key]) / len(keys) for key in keys])


@settings
class OutcomeUcb(OutcomeBased):
    """What the two with counts have in common: b_i = min(1, 1 / sqrt N).

    N is how often answer k_i was sampled for the problem in all of training before the current step; an answer never
    sampled has b = 1 (ours: not stated).
    """

    mask_answer: bool = True

    formula_needs = frozenset({"keys", "state"})

    def update_state(self, group: Group, state: State) -> None:
        counts = state.setdefault("counts", {}).setdefault(group.problem.id, {})
        for rollout in group.rollouts:
            counts[rollout.key] = counts.get(rollout.key, 0) + 1

    def bonus(self, group: Group, context: Context) -> np.ndarray:
        counts = context.state.get("counts", {}).get(group.problem.id, {})
        return np.array([max(1, counts.get(rollout.key, 0)) ** -0.5 for rollout in group.rollouts])


@settings
class OutcomeUcbCon(OutcomeUcb):
    """Bonus for answers rare in training.

    The rarity is above a constant: e_i = b_i - baseline, b_i = min(1, 1 / sqrt N).
    """

    name: str = "outcome-ucb-con"
    baseline: float = 0.5
    """b_0: with 0.5 an answer sampled more than 4 times is penalised. The source has 1 for easier problems than
    DAPO's."""

    def exploration(self, group: Group, context: Context) -> np.ndarray:
        return self.bonus(group, context) - self.baseline


@settings
class OutcomeUcbMean(OutcomeUcb):
    """Rare answers, above the group's mean.

    The rarity in training is above that of the others: e_i = b_i - the mean b of the other responses, b_i = min(1, 1 /
    sqrt N). Without `mask_answer` the mean of A is 0.
    """

    name: str = "outcome-ucb-mean"

    @property
    def zero_mean(self) -> bool:  # type: ignore[override]  # by its settings
        return not self.mask_answer

    def exploration(self, group: Group, context: Context) -> np.ndarray:
        b = self.bonus(group, context)
        return (b - b.mean()) * len(b) / max(1, len(b) - 1)


def answer_tokens(tokens: Sequence[int], decode: Decode) -> np.ndarray:
    """Mark the tokens of the last \\boxed{...} of a response; of an open box, all from there on: bool [T]."""
    mask = np.zeros(len(tokens), dtype=bool)
    size = 32  # the box is near the end, so most of a long response need not be decoded
    while BOX not in (text := decode(tokens[-size:])) and size < len(tokens):
        size *= 2
    if (start := text.rfind(BOX)) < 0:
        return mask
    tail = tokens[-size:]
    prefixes = range(len(tail) + 1)
    first, end = (
        search(prefixes, position, key=lambda n: len(decode(tail[:n])))
        for search, position in ((bisect_right, start), (bisect_left, closed(text, start + len(BOX))))
    )
    offset = len(tokens) - len(tail)
    mask[offset + first - 1 : offset + end] = True
    return mask


def closed(text: str, position: int) -> int:
    """The end of the group whose opening brace precedes `position`, or the end of the text."""
    depth = 1
    while depth and position < len(text):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        position += 1
    return position
