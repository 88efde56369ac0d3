"""DIVER (arXiv 2509.26209): a correct response is rewarded a little more when it differs from the others of its group.

r'_i = r_i + lambda_t clip(gamma^T d_i, 0, sigma) I(r_i) (Eqs. 8 and 9, section 3.5). A_i is GRPO's advantage of r' (Eq.
2), and the loss is clip-higher's. d is TD, ED or, for DIVER-MIX, the mean of both after clipping. The mean is our
choice: the paper says "combines". The paper has lambda 0.1 and sigma 0.65. The default gamma of 1 is ours, and so is
the schedule: lambda falls along a cosine to 0 over the run. In a group all correct the advantage does not depend on
lambda, as long as lambda is above 0 (docs/diver.md); with `std_floor`, ours, it does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

import numpy as np

from diver.core.rounding import ROUNDING, reaches
from diver.core.settings import NonNegative, Positive, PositiveFraction, PositiveInt, refuse_without_effect, settings
from diver.core.types import Group, Progress, Reward
from diver.diversity import resolve
from diver.methods.base import Context
from diver.methods.grpo import ClipHigher


@settings
class Schedule:
    """How lambda falls over a run, by ROLLOUT step: the number of batches of groups already done.

    The factor is 1 up to `start` and `final` from `end` on. A run's length is fixed when it first starts: with unit
    "run" a run that is extended later keeps the value of its end.
    """

    kind: Literal["constant", "linear", "cosine", "step"] = "cosine"
    """constant: always 1; linear or cosine: from 1 down to `final`; step: 1 until `end`, `final` from there on."""
    start: float = 0.0
    """Point of the run at which lambda begins to fall."""
    end: float = 1.0
    """Point of the run at which the factor reaches `final`; unit = "steps" needs one of its own."""
    unit: Literal["run", "steps"] = "run"
    """Unit of `start` and `end`: fractions of the run's rollout steps, or rollout steps."""
    final: NonNegative = 0.0
    """Factor of lambda from `end` to the end of the run."""

    def __post_init__(self) -> None:
        if self.kind == "constant":
            refuse_without_effect(self, ["start", "end", "final"], "kind is 'constant'")
        in_unit = self.end <= 1 if self.unit == "run" else self.end > 1 or self.kind == "constant"
        if not 0 <= self.start <= self.end or not in_unit:
            raise ValueError(
                f"start = {self.start}, end = {self.end}: must satisfy 0 <= start <= end. With unit = "
                '"run" end is at most 1, a fraction of the run; with unit = "steps" it is a rollout step above 1'
            )

    def factor(self, progress: Progress | float) -> float:
        """The factor of lambda at `progress`: a `Progress`, or the fraction t/T of the run that is done."""
        if self.kind == "constant":
            return 1.0
        if isinstance(progress, Progress):
            position = progress.fraction if self.unit == "run" else progress.step
        elif self.unit == "steps":
            raise ValueError('a schedule with unit = "steps" needs Progress(step, steps), not a fraction of the run')
        elif not 0 <= progress <= 1:
            raise ValueError(f"progress is the fraction t/T of the run, from 0 to 1, not {progress}")
        else:
            position = progress
        if position >= self.end:
            return self.final
        if position <= self.start or self.kind == "step":
            return 1.0
        elapsed = (position - self.start) / (self.end - self.start)
        remaining = 1 - elapsed if self.kind == "linear" else (1 + math.cos(math.pi * elapsed)) / 2
        return self.final + (1 - self.final) * remaining


Combine = Literal["mean", "sum"]


@settings
class Shaping:
    """How diversity becomes reward. The defaults are the paper's (its table of hyperparameters), but for
    `condition`."""

    coef: NonNegative = 0.1
    """Weight of the diversity reward, lambda. Its schedule lowers it during the run."""
    clip_max: Positive = 0.65
    """sigma: the most that one metric may count, unless it has its own."""
    discount: PositiveFraction = 1.0
    """gamma in gamma^T d, with T in policy tokens."""
    condition: Literal["correct-finished", "correct", "all", "wrong", "all-length-penalty"] = "correct-finished"
    """Which responses have the diversity reward. With correct-finished (ours), they are correct and ended before the
    length limit. With correct, as in the paper, they are correct. With all-length-penalty, all have it, and lambda *
    sigma * min(1, T / length_limit) is subtracted."""
    schedule: Schedule = Schedule()
    """How lambda falls over the run."""
    length_limit: PositiveInt = 8192
    """The length, in policy tokens, at which the length penalty is full."""

    def __post_init__(self) -> None:
        if self.condition != "all-length-penalty":
            refuse_without_effect(self, ["length_limit"], "condition is not 'all-length-penalty'")

    @property
    def needs_lengths(self) -> bool:
        """Whether r' depends on T at all."""
        return self.discount < 1 or self.condition == "all-length-penalty"


@settings
class DiversityReward:
    """How one diversity metric is rewarded."""

    weight: NonNegative = 1.0
    """Its weight in the mean or the sum."""
    clip_max: Positive | None = None
    """Its own sigma; none: `shaping.clip_max`."""


@settings
class Diver(ClipHigher):
    """Correctness, and the diversity of a response within its group."""

    diversity_rewards: Mapping[str, DiversityReward] = field(default_factory=dict)
    """The diversity metrics that are rewarded, each with its weight and clip_max; one of weight 0 is left out."""
    combine: Combine = "mean"
    """Weighted mean or weighted sum of the clipped metrics (ours; with one metric of weight 1, the paper's term)."""
    shaping: Shaping = Shaping()
    """lambda, sigma, gamma, and which responses are rewarded."""
    std_floor: bool = False
    """Divide by at least sqrt(G-1)/G, so that the advantage in an all-correct group falls with lambda (ours)."""

    any_size = False  # a formula that no other response has is rarer among more of them
    unit_outcomes = True  # lambda is a fraction of the difference between a correct and a wrong outcome

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any(reward.weight for reward in self.diversity_rewards.values()):
            raise ValueError("diversity_rewards: at least one weight must be above 0")
        if self.std_floor and self.divisor not in ("std", "sample-std"):
            raise ValueError(f"std_floor is a floor of a standard deviation, but divisor is {self.divisor!r}")
        if self.divisor == "mean" and self.shaping.condition == "all-length-penalty":
            raise ValueError("divisor = 'mean' needs rewards of at least 0; a length penalty is negative")
        for metric in self.diversity_rewards:
            resolve(metric, self.diversity)

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | {"responses"} | ({"tokens"} if self.shaping.needs_lengths else set())

    @property
    def metric_names(self) -> tuple[str, ...]:
        return (*super().metric_names, *self._rewarded)

    @property
    def _rewarded(self) -> dict[str, DiversityReward]:
        return {name: reward for name, reward in self.diversity_rewards.items() if reward.weight}

    def shaping_coef(self, progress: Progress | float) -> float:
        return self.shaping.coef * self.shaping.schedule.factor(progress)

    def rewards(self, group: Group, context: Context) -> list[Reward]:
        clipped = diversity_reward(self._intrinsic(group), self._rewarded, self.shaping.clip_max, self.combine)
        coef, lengths = self.shaping_coef(context.progress), self._lengths(group)
        return shape(group.outcomes, clipped, coef, self.shaping, lengths, self.threshold, group.truncated)

    def clipped_fraction(self, groups: Sequence[Group]) -> float:
        is_clipped = [
            values[is_rewarded(group.outcomes, self.shaping.condition, self.threshold, group.truncated)]
            > (self.diversity_rewards[name].clip_max or self.shaping.clip_max)
            for group in groups
            for name, values in self._intrinsic(group).items()
        ]
        return float(np.concatenate(is_clipped).mean()) if any(flags.size for flags in is_clipped) else 0.0

    def min_std(self, group: Group) -> float:
        """With `std_floor`, the smallest standard deviation of G outcomes of 0 or 1 that are not all equal.

        It is sqrt(G-1)/G, or 1/sqrt(G) for that of the sample.
        """
        if not self.std_floor:
            return 0.0
        for i, outcome in enumerate(group.outcomes):
            if min(abs(outcome), abs(outcome - 1)) > ROUNDING:
                raise self._error(group, f"rollout {i} has the outcome {outcome}; method.std_floor needs 0 or 1")
        return math.sqrt(len(group) - 1) / len(group) if self.divisor == "std" else 1 / math.sqrt(len(group))

    def _lengths(self, group: Group) -> np.ndarray:
        return np.array([r.length if self.shaping.needs_lengths else 0 for r in group.rollouts])

    def _intrinsic(self, group: Group) -> dict[str, np.ndarray]:
        columns = {name: np.array([r.diversity[name] for r in group.rollouts]) for name in self._rewarded}
        return {name: intrinsic_reward(d, self._lengths(group), self.shaping.discount) for name, d in columns.items()}


@settings
class DiverTd(Diver):
    """Bonus for other words (TD). TD is 1 - BLEU against the other responses (Eq. 3)."""

    name: str = "diver-td"
    diversity_rewards: Mapping[str, DiversityReward] = field(default_factory=lambda: {"textual": DiversityReward()})


@settings
class DiverEd(Diver):
    """Bonus for other formulas (ED). ED is the fraction of formulas that no other response has (Eqs. 4 and
    5)."""

    name: str = "diver-ed"
    diversity_rewards: Mapping[str, DiversityReward] = field(default_factory=lambda: {"equational": DiversityReward()})


@settings
class DiverMix(Diver):
    """Bonus for other words and formulas. It is the mean of clipped TD and ED of correct responses."""

    name: str = "diver-mix"
    diversity_rewards: Mapping[str, DiversityReward] = field(
        default_factory=lambda: {"textual": DiversityReward(), "equational": DiversityReward()}
    )


@settings
class DiverAnnealed(DiverMix):
    """diver-mix, lambda falls from 0.5. Ours: all of the bonus falls with lambda.

    The divisor has a floor, `std_floor`.
    """

    name: str = "diver-annealed"
    shaping: Shaping = Shaping(coef=0.5)
    std_floor: bool = True


@settings
class DiverActions(Diver):
    """Bonus for other actions of an agent. Ours: DIVER on what a trajectory does instead of what it says.

    The metric is 1 - BLEU against the actions of the other trajectories, in which each action is a token.
    """

    name: str = "diver-actions"
    diversity_rewards: Mapping[str, DiversityReward] = field(default_factory=lambda: {"actions": DiversityReward()})


def intrinsic_reward(diversity: np.ndarray, lengths: np.ndarray, discount: float) -> np.ndarray:
    """R_int = gamma^T d(o), float64 [G] (Eq. 8, where d(q) = 0); T = `lengths` in policy tokens, which gamma = 1
    ignores."""
    return discount ** np.asarray(lengths, dtype=np.float64) * diversity


def is_rewarded(
    outcomes: np.ndarray, condition: str, threshold: float = 0.5, truncated: np.ndarray | None = None
) -> np.ndarray:
    """I(r), bool [G]: which responses the condition rewards.

    A response is correct if its outcome is at least `threshold`. `truncated`, bool [G], says which were cut at the
    length limit; None: no response was.
    """
    correct = reaches(outcomes, threshold)
    finished = np.ones_like(correct) if truncated is None else ~np.asarray(truncated, dtype=bool)
    rewarded = {"correct": correct, "correct-finished": correct & finished, "wrong": ~correct}
    return rewarded.get(condition, np.ones_like(correct))


def diversity_reward(
    intrinsic: Mapping[str, np.ndarray],
    rewards: Mapping[str, DiversityReward],
    clip_max: float,
    combine: Combine = "mean",
) -> np.ndarray:
    """clip(R_int, 0, sigma), float64 [G]: the weighted mean or sum over the metrics in `rewards`, each with its sigma.

    One metric of weight 1 gives the paper's term; the mean of clipped terms is our reading of "combines".
    """
    clipped = [r.weight * np.clip(intrinsic[name], 0, r.clip_max or clip_max) for name, r in rewards.items()]
    total = np.sum(clipped, axis=0)
    return total / sum(r.weight for r in rewards.values()) if combine == "mean" else total


def shape(
    outcomes: np.ndarray,
    diversity: np.ndarray,
    coef: float,
    shaping: Shaping,
    lengths: np.ndarray,
    threshold: float = 0.5,
    truncated: np.ndarray | None = None,
) -> list[Reward]:
    """The parts of r' for one group: r, lambda * diversity * I(r), and the length penalty where the condition has one.

    `coef` is the lambda of this step; outcomes, diversity (`diversity_reward`) and lengths (policy tokens) are [G]; all
    parts are in units of reward. The paper names a length penalty and gives no formula: lambda * sigma *
    min(1, T / length_limit) is ours.
    """
    extra = coef * np.asarray(diversity) * is_rewarded(outcomes, shaping.condition, threshold, truncated)
    penalty = np.zeros_like(extra)
    if shaping.condition == "all-length-penalty":
        penalty = -coef * (shaping.clip_max * np.minimum(1.0, np.asarray(lengths) / shaping.length_limit))
    return [Reward(float(r), float(e), float(c)) for r, e, c in zip(outcomes, extra, penalty, strict=True)]
