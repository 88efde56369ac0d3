"""GiGPO (arXiv 2505.10978): an advantage for each turn, from the trajectories of a group that act in the same state."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from diver.core.rounding import ROUNDING
from diver.core.settings import NonNegative, ZeroToOne, settings
from diver.core.turns import anchors
from diver.core.types import Group, Rollout
from diver.losses import ClipLoss, PolicyLoss
from diver.methods.base import Context
from diver.methods.grpo import Divisor, Grpo, group_advantage


@settings
class Gigpo(Grpo):
    """Compares turns in the same state. GiGPO (arXiv 2505.10978).

    The advantage of turn t of trajectory i is A_i + turn_weight * A_it. A_i compares the reward of the trajectory with
    those of its group, as GRPO does (Eq. 3). A_it compares the discounted return R_it with those of all turns of the
    group that act in the same state (Eqs. 5 to 7), over the same divisor. A state that occurs once gives 0.

    The reward of a turn is what its environment paid for it; if no turn has one, the last has that of the
    trajectory. All tokens of a turn have its advantage. Clip 0.20 / 0.20 and a KL term of 0.01. Departure: a standard
    deviation is that of the population, with nothing added. A response of one turn has (1 + turn_weight) times the
    advantage of GRPO.
    """

    name: str = "gigpo"
    divisor: Divisor = "none"
    discount: ZeroToOne = 0.95
    """gamma, by which the reward of each later turn counts less. The authors' scripts have 0.95."""
    turn_weight: NonNegative = 1.0
    """omega, the weight of the advantage of the turn."""
    loss: PolicyLoss = ClipLoss(clip_low=0.20, clip_high=0.20, kl_coef=0.01)

    per_token = True
    zero_mean = False
    formula_needs = frozenset({"tokens", "turns"})

    def advantages(self, group: Group, context: Context) -> list[np.ndarray]:  # type: ignore[override]  # per token
        turns = turn_advantages(group, self.discount, self.turn_weight, self.divisor, self.tolerance)
        return [np.repeat(a, turn_lengths(r)) for a, r in zip(turns, group.rollouts, strict=True)]


def turn_advantages(
    group: Group, discount: float = 0.95, weight: float = 1.0, divisor: Divisor = "none", tolerance: float = ROUNDING
) -> list[np.ndarray]:
    """The advantage of each turn of the policy: A_i + weight * A_it (Eq. 8).

    Args:
        group: G trajectories with their rewards.
        discount: gamma of the returns.
        weight: omega, of A_it.
        divisor: what divides the difference to the mean, at both levels.
        tolerance: that of `diver.core.rounding.alike`; alike rewards or returns have advantages of exactly 0.

    Returns:
        float64 [K] for each of the G trajectories, K its turns of the policy.
    """
    returns = [discounted_returns(turn_rewards(rollout), discount) for rollout in group.rollouts]
    turns_by_state: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for i, rollout in enumerate(group.rollouts):
        for t, state in enumerate(anchors(rollout.turns) if rollout.turns else [("start",)]):
            if state is not None:
                turns_by_state[state].append((i, t))
    steps = [np.zeros(len(trajectory)) for trajectory in returns]
    for places in turns_by_state.values():
        advantages = group_advantage(np.array([returns[i][t] for i, t in places]), divisor, tolerance)
        for (i, t), advantage in zip(places, advantages.tolist(), strict=True):
            steps[i][t] = advantage
    trajectory_advantages = group_advantage(group.rewards, divisor, tolerance)
    return [a + weight * step for a, step in zip(trajectory_advantages.tolist(), steps, strict=True)]


def discounted_returns(rewards: Sequence[float], discount: float) -> np.ndarray:
    """R_t = sum over k >= t of discount^(k - t) r_k, float64 [K] (Eq. 5)."""
    returns = np.zeros(len(rewards))
    later = 0.0
    for t in reversed(range(len(rewards))):
        returns[t] = later = rewards[t] + discount * later
    return returns


def turn_rewards(rollout: Rollout) -> list[float]:
    """The reward of each turn of the policy, with those of the environment's turns that follow it.

    If no turn has a reward, the last turn has the reward of the trajectory.
    """
    rewards: list[float] = []
    for turn in rollout.turns:
        if turn.by_policy:
            rewards.append(0.0)
        if rewards:
            rewards[-1] += turn.reward or 0.0
    rewards = rewards or [0.0]
    if all(turn.reward is None for turn in rollout.turns) and rollout.reward is not None:
        rewards[-1] = rollout.reward.total
    return rewards


def turn_lengths(rollout: Rollout) -> list[int]:
    """The number of tokens of each turn of the policy. ValueError if it is unknown."""
    turn_tokens = [turn.tokens for turn in rollout.turns if turn.by_policy]
    if any(tokens is None for tokens in turn_tokens):
        raise ValueError("the tokens of its turns are not known: give `tokens` with `masks`")
    return [len(tokens or ()) for tokens in turn_tokens] or [rollout.length]
