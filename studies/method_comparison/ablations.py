"""Variants of DIVER-MIX that only this study needs: `method.name = "method_comparison.ablations:..."`."""

from collections.abc import Sequence

import numpy as np

from diver.core.settings import settings
from diver.core.types import Group, Reward
from diver.diversity import measure
from diver.methods.base import Context
from diver.methods.diver import DiverMix


@settings
class MixedGroups(DiverMix):
    """DIVER-MIX without the diversity reward in groups all correct, whose advantage is then 0."""

    name: str = "method_comparison.ablations:MixedGroups"

    def rewards(self, group: Group, context: Context) -> list[Reward]:
        rewards = super().rewards(group, context)
        if (group.outcomes >= self.threshold).all():
            return [Reward(reward.outcome) for reward in rewards]
        return rewards


@settings
class AmongCorrect(DiverMix):
    """DIVER-MIX with the diversity of a correct response among the correct ones alone; 0 where there is no other."""

    name: str = "method_comparison.ablations:AmongCorrect"

    def rewards(self, group: Group, context: Context) -> list[Reward]:
        return super().rewards(self._measured_among_correct(group), context)

    def clipped_fraction(self, groups: Sequence[Group]) -> float:
        return super().clipped_fraction([self._measured_among_correct(group) for group in groups])

    def _measured_among_correct(self, group: Group) -> Group:
        """The group with the rewarded metrics of its correct responses measured anew."""
        correct = np.flatnonzero(group.outcomes >= self.threshold)
        names = tuple(self.diversity_rewards)
        measured = {name: np.zeros(len(group)) for name in names}
        if len(correct) > 1:
            correct_group = Group(group.problem, tuple(group.rollouts[i] for i in correct))
            for name, values in measure(correct_group, names, self.diversity).items():
                measured[name][correct] = values
        diversity = [
            {**rollout.diversity, **{name: float(measured[name][i]) for name in names}}
            for i, rollout in enumerate(group.rollouts)
        ]
        return group.with_each(diversity=diversity)
