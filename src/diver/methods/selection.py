"""Which of the sampled rollouts are trained on."""

import dataclasses
from typing import Literal

import numpy as np

from diver.core.settings import at_least, settings
from diver.core.types import Group


@settings
class Selection:
    """Which of the sampled rollouts are trained on."""

    keep: Literal["all", "most", "least"] = "all"
    """most or least: of more samples, the G of highest or lowest mean of TD and ED (paper, appendix B.1)."""
    samples: int = 2
    """How many times G rollouts are sampled, where `keep` is not all."""
    outcomes: Literal["all", "correct", "wrong"] = "all"
    """Leave out wrong rollouts, or correct ones: they then do not count in the mean over tokens either."""
    filter_groups: bool = False
    """Leave out groups whose outcomes are all correct or all wrong, and sample other problems in their place (the
    dynamic sampling of DAPO, arXiv 2503.14476). The outcome decides, never the shaped reward."""
    max_num_gen_batches: int = 10
    """Maximum number of batches sampled for one step, where groups are filtered. The step then trains on the available
    groups."""

    def __post_init__(self) -> None:
        at_least(1, samples=self.samples, max_num_gen_batches=self.max_num_gen_batches)

    @property
    def multiplier(self) -> int:
        """Rollouts sampled for each one kept."""
        return 1 if self.keep == "all" else self.samples

    @property
    def drops(self) -> bool:
        """Whether not every sampled rollout is trained on."""
        return self.keep != "all" or self.outcomes != "all" or self.filter_groups

    def select(self, group: Group, threshold: float) -> Group | None:
        """The rollouts of a measured group that are selected, in their order; None where none is selected.

        If the diversity is equal, the earlier rollouts are selected.

        Raises:
            ValueError: G would not be an integer.
        """
        correct = group.outcomes >= threshold
        if self.filter_groups and correct.all() == correct.any():
            return None
        kept = {"all": np.ones_like(correct), "correct": correct, "wrong": ~correct}[self.outcomes]
        if self.keep != "all":
            kept &= self._by_diversity(group)
        if not kept.any():
            return None
        return dataclasses.replace(group, rollouts=tuple(r for r, k in zip(group.rollouts, kept, strict=True) if k))

    def _by_diversity(self, group: Group) -> np.ndarray:
        size, rest = divmod(len(group), self.samples)
        if rest or not size:
            raise ValueError(
                f"problem {group.problem.id!r}: a selection of 1 in {self.samples} needs a multiple of "
                f"{self.samples} rollouts, not {len(group)}"
            )
        score = np.array([(r.diversity["textual"] + r.diversity["equational"]) / 2 for r in group.rollouts])
        order = np.argsort(-score if self.keep == "most" else score, kind="stable")
        return np.isin(np.arange(len(group)), order[:size])
