"""Train on G of more samples, chosen by diversity (paper, appendix B.1)."""

import dataclasses
from typing import Literal

import numpy as np

from diver.settings import settings
from diver.types import Group


@settings
class Selection:
    """Train on G of more samples, chosen by diversity (paper, appendix B.1)."""

    keep: Literal["all", "most", "least"] = "all"
    """all: no selection; most or least: the G rollouts of highest or lowest mean of TD and ED."""
    samples: int = 2
    """How many times G rollouts are sampled, where `keep` is not all."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")

    @property
    def multiplier(self) -> int:
        """Rollouts sampled for each one kept."""
        return 1 if self.keep == "all" else self.samples

    def select(self, group: Group) -> Group:
        """The rollouts that are kept of a measured group, in their order; of equal scores the earlier ones.

        ValueError where their number would not be a whole one.
        """
        if self.keep == "all":
            return group
        size, rest = divmod(len(group), self.samples)
        if rest or not size:
            raise ValueError(
                f"problem {group.problem.id!r}: a selection of 1 in {self.samples} needs a multiple of "
                f"{self.samples} rollouts, not {len(group)}"
            )
        score = np.array([(r.diversity["textual"] + r.diversity["equational"]) / 2 for r in group.rollouts])
        order = np.argsort(-score if self.keep == "most" else score, kind="stable")
        return dataclasses.replace(group, rollouts=tuple(group.rollouts[i] for i in sorted(order[:size])))
