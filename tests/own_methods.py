"""Methods and a loss of one's own, for tests that name them by import path, as `own_methods:MaxRl`."""

import numpy as np

from diver.core.types import Reward
from diver.losses import PolicyLoss
from diver.methods import Grpo, settings


@settings
class MaxRl(Grpo):
    """Correctness. MaxRL (arXiv 2602.02710): A_i = (r_i - mean) / mean."""

    def advantages(self, group, context):
        r = group.rewards
        return (r - r.mean()) / r.mean() if r.any() else r


@settings
class Likelihood(Grpo):
    """Correctness, minus the likelihood of the response."""

    @property
    def needs(self):
        return frozenset({"logprobs"})

    def rewards(self, group, context):
        return [Reward(r.reward.outcome, -float(np.exp(r.logprobs.sum()))) for r in group.rollouts]


@settings
class Counted(Grpo):
    """Every token in turn +a and -a, a = 1 / (1 + n) with n how often this answer to the problem was sampled
    in earlier steps."""

    per_token = True

    @property
    def needs(self):
        return frozenset({"tokens", "logprobs", "keys", "state"})

    def advantages(self, group, context):
        seen = context.state.get(group.problem.id, {})
        for r in group.rollouts:
            if len(r.logprobs) != len(r.tokens) or (r.logprobs > 0).any():
                raise ValueError("the log-probs are not those of the tokens")
        signs = [(-1.0) ** np.arange(len(r.tokens)) for r in group.rollouts]
        return [sign / (1 + seen.get(r.key, 0)) for sign, r in zip(signs, group.rollouts, strict=True)]

    def update_state(self, group, state):
        seen = state.setdefault(group.problem.id, {})
        for r in group.rollouts:
            seen[r.key] = seen.get(r.key, 0) + 1


@settings
class Loss(PolicyLoss):
    """A loss that only the built-in trainer can have."""


def share_a_letter(first, second):
    """A classifier of pairs of responses."""
    return bool(set(first) & set(second))


@settings
class Rising(Grpo):
    """Correctness: +1, +2, ... or -1, -2, ... of each token."""

    per_token = True

    def advantages(self, group, context):
        signs = np.where(group.outcomes >= self.threshold, 1.0, -1.0)
        return [sign * np.arange(1, len(r.tokens) + 1) for sign, r in zip(signs, group.rollouts, strict=True)]


@settings
class Textual(Grpo):
    """Correctness, and TD, which is read of every rollout more than once. It does not say that it needs responses."""

    def rewards(self, group, context):
        return [Reward(r.reward.outcome, r.diversity["textual"] + 0 * r.diversity["textual"]) for r in group.rollouts]
