"""Reward shaping, r' = r + lambda * clip(gamma^T d, 0, sigma) * I(r) (paper Eqs. 8 and 9, sections 3.4 and 3.5).

Pure: arrays of one group in, `Reward` parts out. docs/method.md says what the theory of it covers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np

from diver.settings import settings
from diver.types import Progress, Reward

Combine = Literal["mean", "sum"]


@settings
class Schedule:
    """How lambda falls over a run, by ROLLOUT step: the number of batches of groups already done.

    The factor is 1 up to `start` and `final` from `end` on. A run's length is fixed when it first starts: a run that is
    extended later keeps the value of its end.
    """

    kind: Literal["constant", "linear", "cosine", "step"] = "cosine"
    """constant: always 1; linear or cosine: from 1 down to `final`; step: 1 until `end`, `final` from there on."""
    start: float = 0.0
    """Where lambda begins to fall."""
    end: float = 1.0
    """Where the factor reaches `final`; unit = "steps" needs one of its own."""
    unit: Literal["run", "steps"] = "run"
    """What `start` and `end` count: fractions of the run's rollout steps, or rollout steps."""
    final: float = 0.0
    """The factor of lambda from `end` on."""

    def __post_init__(self) -> None:
        if self.unit == "steps" and self.end <= 1 and self.kind != "constant":  # the default: off after one batch
            raise ValueError(
                f'unit = "steps" needs an end above 1, the rollout step from which the factor is final, not {self.end}'
            )
        if not 0 <= self.start <= self.end:
            raise ValueError(
                f"start and end must satisfy 0 <= start <= end, not start = {self.start}, end = {self.end}"
            )
        if self.unit == "run" and self.end > 1:
            raise ValueError(f'end must be at most 1 with unit = "run" (a fraction of the run), not {self.end}')
        if self.final < 0:
            raise ValueError(f"final must be at least 0, not {self.final}")

    def factor(self, progress: Progress | float) -> float:
        """What lambda is multiplied by at `progress`: a `Progress`, or the fraction t/T of the run that is done."""
        if self.kind == "constant":
            return 1.0
        position = self._position(progress)
        if position >= self.end:
            return self.final
        if position <= self.start or self.kind == "step":
            return 1.0
        elapsed = (position - self.start) / (self.end - self.start)
        left = 1 - elapsed if self.kind == "linear" else (1 + math.cos(math.pi * elapsed)) / 2
        return self.final + (1 - self.final) * left

    def _position(self, progress: Progress | float) -> float:
        if isinstance(progress, Progress):
            return progress.fraction if self.unit == "run" else progress.step
        if self.unit == "steps":
            raise ValueError('a schedule with unit = "steps" needs Progress(step, steps), not a fraction of the run')
        if not 0 <= progress <= 1:
            raise ValueError(f"progress is the fraction t/T of the run, from 0 to 1, not {progress}")
        return float(progress)


@settings
class Shaping:
    """How diversity becomes reward. The defaults are the paper's (its table of hyperparameters)."""

    coef: float = 0.1
    """lambda, before its schedule."""
    clip_max: float = 0.65
    """sigma: the most that one metric may count, unless it has its own."""
    discount: float = 1.0
    """gamma in gamma^T d, with T in policy tokens."""
    condition: Literal["correct", "all", "wrong", "all-length-penalty"] = "correct"
    """Which responses are rewarded; all-length-penalty also subtracts lambda * sigma * min(1, T / length_limit)."""
    schedule: Schedule = Schedule()
    """How lambda falls over the run."""
    length_limit: int = 8192
    """The length, in policy tokens, at which the length penalty is full."""

    def __post_init__(self) -> None:
        if self.coef < 0:
            raise ValueError(f"coef (lambda) must be at least 0, not {self.coef}")
        if self.clip_max <= 0:
            raise ValueError(f"clip_max (sigma) must be above 0, not {self.clip_max}")
        if not 0 < self.discount <= 1:
            raise ValueError(f"discount (gamma) must be above 0 and at most 1, not {self.discount}")
        if self.length_limit < 1:
            raise ValueError(f"length_limit must be at least 1 token, not {self.length_limit}")

    @property
    def needs_lengths(self) -> bool:
        """Whether r' depends on T at all."""
        return self.discount < 1 or self.condition == "all-length-penalty"


@settings
class DiversityReward:
    """How one diversity metric is rewarded."""

    weight: float = 1.0
    """Its weight in the mean or the sum."""
    clip_max: float | None = None
    """Its own sigma; none: `shaping.clip_max`."""

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ValueError(f"weight must be at least 0, not {self.weight}")
        if self.clip_max is not None and self.clip_max <= 0:
            raise ValueError(f"clip_max must be above 0, not {self.clip_max}")


def intrinsic_reward(diversity: np.ndarray, lengths: np.ndarray | None = None, discount: float = 1.0) -> np.ndarray:
    """R_int = gamma^T d(o), float64 [G] (Eq. 8, where d(q) = 0); T = `lengths`, read only when gamma < 1.

    Raises ValueError for a diversity that is not finite and for lengths that are missing.
    """
    d = np.asarray(diversity, dtype=np.float64)
    if not np.isfinite(d).all():
        raise ValueError(f"diversity must be finite, not {d[~np.isfinite(d)][0]} at index {np.isfinite(d).argmin()}")
    if discount == 1:
        return d
    if lengths is None:
        raise ValueError("gamma < 1 needs the lengths of the responses in policy tokens")
    return discount ** np.asarray(lengths, dtype=np.float64) * d


def is_rewarded(outcomes: np.ndarray, condition: str, threshold: float = 0.5) -> np.ndarray:
    """I(r), bool [G]: which responses the condition rewards; correct are those of at least `threshold`."""
    correct = np.asarray(outcomes, dtype=np.float64) >= threshold
    match condition:
        case "correct":
            return correct
        case "wrong":
            return ~correct
        case _:
            return np.ones_like(correct)


def diversity_reward(
    intrinsic: Mapping[str, np.ndarray],
    rewards: Mapping[str, DiversityReward],
    clip_max: float,
    combine: Combine = "mean",
) -> np.ndarray:
    """clip(R_int, 0, sigma), float64 [G]: the weighted mean or sum over the metrics in `rewards`, each under its own sigma.

    One metric of weight 1 gives the paper's term. The paper only says that DIVER-MIX "combines" its two metrics: the
    mean of clipped terms is our choice.
    """
    clipped = [r.weight * np.clip(intrinsic[name], 0, r.clip_max or clip_max) for name, r in rewards.items()]
    total = np.sum(clipped, axis=0)
    return total / sum(r.weight for r in rewards.values()) if combine == "mean" else total


def length_penalty(lengths: np.ndarray, shaping: Shaping) -> np.ndarray:
    """sigma * min(1, T / length_limit), float64 [G]. Ours: the paper names a length penalty and gives no formula."""
    return shaping.clip_max * np.minimum(1.0, np.asarray(lengths, dtype=np.float64) / shaping.length_limit)


def shape(
    outcomes: np.ndarray,
    diversity: np.ndarray,
    coef: float,
    shaping: Shaping,
    lengths: np.ndarray | None = None,
    threshold: float = 0.5,
) -> list[Reward]:
    """The parts of r' for one group: r, lambda * diversity * I(r) and, where the condition says so, the length penalty.

    `coef` is the lambda of this step; outcomes and diversity (`diversity_reward`) are [G]; all parts are in units of
    reward.
    """
    extra = coef * np.asarray(diversity) * is_rewarded(outcomes, shaping.condition, threshold)
    penalty = np.zeros_like(extra)
    if shaping.condition == "all-length-penalty":
        if lengths is None:
            raise ValueError("the length penalty needs the lengths of the responses in policy tokens")
        penalty = -coef * length_penalty(lengths, shaping)
    return [Reward(float(r), float(e), float(c)) for r, e, c in zip(outcomes, extra, penalty, strict=True)]
