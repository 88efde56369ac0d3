"""DIVER (arXiv 2509.26209): a correct response is rewarded a little more when it differs from the others of its group.

r'_i = r_i + lambda_t clip(gamma^T d_i, 0, sigma) I(r_i) (Eqs. 8 and 9, section 3.5), then GRPO's advantage of r' (Eq. 2)
and clip-higher's loss. d is TD, ED or, for DIVER-MIX, the mean of both after clipping (the mean is our choice: the paper
says "combines"). lambda 0.1, sigma 0.65, gamma 1; lambda falls along a cosine to 0 over the run (the schedule is ours).
In a group all correct the advantage does not depend on lambda, as long as lambda is above 0 (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np

from diver.diversity import resolve
from diver.methods.base import OBSERVED
from diver.methods.clip_higher import ClipHigher
from diver.methods.shaping import (
    Combine,
    DiversityReward,
    Shaping,
    diversity_reward,
    intrinsic_reward,
    is_rewarded,
    shape,
)
from diver.settings import settings
from diver.types import Group, Progress, Reward


@settings
class Diver(ClipHigher):
    """Correctness, and the diversity of a response within its group."""

    diversity_rewards: Mapping[str, DiversityReward] = field(default_factory=dict)
    """The diversity metrics that are rewarded, each with its weight and clip_max; one of weight 0 is left out."""
    combine: Combine = "mean"
    """Weighted mean or weighted sum of the clipped metrics (ours; with one metric of weight 1, the paper's term)."""
    shaping: Shaping = Shaping()
    """lambda, sigma, gamma, and which responses are rewarded."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any(reward.weight for reward in self.diversity_rewards.values()):
            raise ValueError("diversity_rewards: at least one weight must be above 0")
        for metric in self.diversity_rewards:
            resolve(metric, self.diversity)

    @property
    def needs(self) -> frozenset[str]:
        on_tokens = self.shaping.needs_lengths or self.diversity.horizon is not None or self.diversity.units == "tokens"
        return frozenset({"responses", "tokens"}) if on_tokens else frozenset({"responses"})

    @property
    def metric_names(self) -> tuple[str, ...]:
        return (*OBSERVED, *self.diversity_rewards)

    def coef(self, progress: Progress | float) -> float:
        return self.shaping.coef * self.shaping.schedule.factor(progress)

    def rewards(self, group: Group, progress: Progress | float) -> list[Reward]:
        clipped = diversity_reward(self._intrinsic(group), self.diversity_rewards, self.shaping.clip_max, self.combine)
        return shape(group.outcomes, clipped, self.coef(progress), self.shaping, self._lengths(group), self.threshold)

    def clipped_fraction(self, groups: Sequence[Group]) -> float:
        clipped = [
            values[is_rewarded(group.outcomes, self.shaping.condition, self.threshold)]
            > (self.diversity_rewards[name].clip_max or self.shaping.clip_max)
            for group in groups
            for name, values in self._intrinsic(group).items()
        ]
        total = sum(c.size for c in clipped)
        return sum(int(c.sum()) for c in clipped) / total if total else 0.0

    def _lengths(self, group: Group) -> np.ndarray | None:
        return np.array([r.length for r in group.rollouts]) if self.shaping.needs_lengths else None

    def _intrinsic(self, group: Group) -> dict[str, np.ndarray]:
        lengths = self._lengths(group)
        columns = {name: np.array([r.diversity[name] for r in group.rollouts]) for name in self.diversity_rewards}
        return {name: intrinsic_reward(d, lengths, self.shaping.discount) for name, d in columns.items()}


@settings
class DiverTd(Diver):
    """Correctness, and TD of correct responses. TD is 1 - BLEU against the other responses (Eq. 3)."""

    name: str = "diver-td"
    diversity_rewards: Mapping[str, DiversityReward] = field(default_factory=lambda: {"textual": DiversityReward()})


@settings
class DiverEd(Diver):
    """Correctness, and ED of correct responses. ED is the fraction of formulas that no other response has (Eqs. 4 and 5)."""

    name: str = "diver-ed"
    diversity_rewards: Mapping[str, DiversityReward] = field(default_factory=lambda: {"equational": DiversityReward()})


@settings
class DiverMix(Diver):
    """Correctness, and the mean of clipped TD and ED."""

    name: str = "diver-mix"
    diversity_rewards: Mapping[str, DiversityReward] = field(
        default_factory=lambda: {"textual": DiversityReward(), "equational": DiversityReward()}
    )
