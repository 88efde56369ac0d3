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
        done = (position - self.start) / (self.end - self.start)
        left = 1 - done if self.kind == "linear" else (1 + math.cos(math.pi * done)) / 2
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
    """What a response is paid for its diversity. The defaults are the paper's (its table of hyperparameters)."""

    ratio: float = 0.1
    """lambda, before its schedule."""
    bound: float = 0.65
    """sigma: the most that one metric may count, unless its own bound is set."""
    discount: float = 1.0
    """gamma in gamma^T d, with T in policy tokens."""
    condition: Literal["correct", "all", "wrong", "all-length-penalty"] = "correct"
    """Which responses are paid; all-length-penalty also charges lambda * sigma * min(1, T / length_limit)."""
    threshold: float = 0.5
    """A response is correct, I(r) = 1, when its outcome is at least this."""
    schedule: Schedule = Schedule()
    """How lambda falls over the run."""
    length_limit: int = 8192
    """The length, in policy tokens, at which the length penalty is full."""

    def __post_init__(self) -> None:
        if self.ratio < 0:
            raise ValueError(f"ratio (lambda) must be at least 0, not {self.ratio}")
        if self.bound <= 0:
            raise ValueError(f"bound (sigma) must be above 0, not {self.bound}")
        if not 0 < self.discount <= 1:
            raise ValueError(f"discount (gamma) must be above 0 and at most 1, not {self.discount}")
        if self.length_limit < 1:
            raise ValueError(f"length_limit must be at least 1 token, not {self.length_limit}")

    @property
    def needs_lengths(self) -> bool:
        """Whether r' depends on T at all."""
        return self.discount < 1 or self.condition == "all-length-penalty"


@settings
class Bonus:
    """How one diversity metric is paid."""

    weight: float = 1.0
    """Its weight in the mean or the sum."""
    bound: float | None = None
    """Its own sigma; none: `shaping.bound`."""

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise ValueError(f"weight must be at least 0, not {self.weight}")
        if self.bound is not None and self.bound <= 0:
            raise ValueError(f"bound must be above 0, not {self.bound}")


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


def paid(outcomes: np.ndarray, shaping: Shaping) -> np.ndarray:
    """I(r), bool [G]: which responses the condition pays."""
    correct = np.asarray(outcomes, dtype=np.float64) >= shaping.threshold
    match shaping.condition:
        case "correct":
            return correct
        case "wrong":
            return ~correct
        case _:
            return np.ones_like(correct)


def bonus(
    intrinsic: Mapping[str, np.ndarray], pays: Mapping[str, Bonus], bound: float, combine: Combine = "mean"
) -> np.ndarray:
    """clip(R_int, 0, sigma), float64 [G]: the weighted mean or sum over the metrics in `pays`, each under its own bound.

    One metric of weight 1 gives the paper's term. The paper only says that DIVER-MIX "combines" its two metrics: the
    mean of clipped terms is our choice.
    """
    clipped = [spec.weight * np.clip(intrinsic[name], 0, spec.bound or bound) for name, spec in pays.items()]
    total = np.sum(clipped, axis=0)
    return total / sum(spec.weight for spec in pays.values()) if combine == "mean" else total


def length_penalty(lengths: np.ndarray, shaping: Shaping) -> np.ndarray:
    """sigma * min(1, T / length_limit), float64 [G]. Ours: the paper names a length penalty and gives no formula."""
    return shaping.bound * np.minimum(1.0, np.asarray(lengths, dtype=np.float64) / shaping.length_limit)


def shape(
    outcomes: np.ndarray, bonus: np.ndarray, ratio: float, shaping: Shaping, lengths: np.ndarray | None = None
) -> list[Reward]:
    """The parts of r' for one group: r, lambda * bonus * I(r) and, where the condition says so, the length penalty.

    `ratio` is the lambda of this step; outcomes and bonus are [G]; all parts are in units of reward.
    """
    extra = ratio * np.asarray(bonus) * paid(outcomes, shaping)
    charge = np.zeros_like(extra)
    if shaping.condition == "all-length-penalty":
        if lengths is None:
            raise ValueError("the length penalty needs the lengths of the responses in policy tokens")
        charge = -ratio * length_penalty(lengths, shaping)
    return [Reward(float(r), float(e), float(c)) for r, e, c in zip(outcomes, extra, charge, strict=True)]
