"""A broken selection: `method.name = "alerts.method:FilterOnReward"`."""

from __future__ import annotations

import numpy as np

from diver.core.settings import settings
from diver.core.types import Group
from diver.methods.base import Selection
from diver.methods.diver import DiverMix


@settings
class SpreadOfReward(Selection):
    """Leaves out groups whose shaped rewards are all equal, and samples other problems in their place.

    DAPO's dynamic sampling decides by the outcome. A trainer that filters by the reward it trains on does this instead:
    a group all correct stays, because its diversity rewards differ.
    """

    filter_groups: bool = True

    def select(self, group: Group, threshold: float) -> np.ndarray:
        return np.full(len(group), np.ptp(group.rewards) > 0)


@settings
class FilterOnReward(DiverMix):
    """DIVER-MIX with that filter."""

    name: str = "alerts.method:FilterOnReward"
    selection: SpreadOfReward = SpreadOfReward()
