"""Train on G of more samples, chosen by diversity (paper, appendix B.1)."""

from __future__ import annotations

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

    def num_kept(self, group: Group) -> int:
        """How many rollouts of a sampled group are kept. ValueError where it is not a whole number."""
        size, rest = divmod(len(group), self.samples)
        if rest or not size:
            raise ValueError(
                f"problem {group.problem.id!r}: a selection of 1 in {self.samples} needs a multiple of "
                f"{self.samples} rollouts, not {len(group)}"
            )
        return size


def select(score: np.ndarray, size: int, keep: Literal["most", "least"]) -> list[int]:
    """The indices of the `size` highest or lowest scores, in their order; of equal scores the earlier ones."""
    order = np.argsort(-score if keep == "most" else score, kind="stable")
    return sorted(order[:size].tolist())
