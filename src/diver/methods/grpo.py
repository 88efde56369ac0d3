"""GRPO (arXiv 2402.03300; paper Eq. 2), A_i = (r_i - mean) / std over the group, and the methods with
another divisor or other settings of the loss."""

import dataclasses
from typing import Literal, Self

import numpy as np

from diver.core.rounding import ROUNDING, alike
from diver.core.settings import NonNegative, settings
from diver.core.types import DiverError, Group
from diver.losses import ClipLoss, PolicyLoss
from diver.methods.base import Context, Method

Divisor = Literal["std", "sample-std", "mean", "none"]


@settings
class Grpo(Method):
    """(r - mean) / std within the group. A_i = (r_i - mean) / std over the group, clip 0.20 / 0.20.

    Departures: no KL term, where the source has 0.04, and the mean over the tokens of a mini-batch, where it has that
    over each response. The divisor is the standard deviation of the population, as in the DIVER paper's Eq. 2, and
    nothing is added. verl and TRL divide by that of the sample plus 1e-6 or 1e-4.
    """

    name: str = "grpo"
    divisor: Divisor = "std"
    """What divides r - mean: the standard deviation of the group (the paper's, 1/G), that of the sample (1/(G-1)), the
    mean reward (MaxRL), or nothing (Dr. GRPO)."""
    tolerance: NonNegative = ROUNDING
    """A group whose rewards differ by at most this, as a fraction of the largest of them, has advantages of exactly 0.
    Rewards below 0.5 count as 0.5 there."""
    loss: PolicyLoss = ClipLoss(clip_low=0.20, clip_high=0.20)

    zero_mean = True
    any_size = True

    def __post_init__(self) -> None:
        if self.divisor == "mean" and self.overlong:
            raise ValueError("divisor = 'mean' needs rewards of at least 0; the penalty of `overlong` is negative")

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        return group_advantage(group.rewards, self.divisor, self.tolerance, self.min_std(group))

    def min_std(self, group: Group) -> float:
        """The least number that divides r - mean."""
        return 0.0

    @property
    def is_plain(self) -> bool:
        """Whether advantages are `group_advantage` of the outcomes, and nothing else is done with a group."""
        overridden = {name for kind in type(self).__mro__ if kind not in Grpo.__mro__ for name in vars(kind)}
        return not self.needs and overridden.isdisjoint({"rewards", "advantages", "update_state", "apply", "shaped"})


@settings
class MaxRl(Grpo):
    """Divides by the mean reward, not std. MaxRL (arXiv 2602.02710): A_i = (r_i - p) / p, p the mean reward.

    The less often a group is solved, the larger. Clip 0.20 / 0.20, as in the authors' runs. No correct response gives
    exact zeros, and so does a group all correct. Departure: the source adds 1e-6 to p; here nothing is added.
    """

    name: str = "max-rl"
    divisor: Divisor = "mean"


@settings
class DrGrpo(Grpo):
    """r - mean, without a divisor.

    A_i = r_i - mean (Dr. GRPO, arXiv 2503.20783): groups of every solve rate count alike.

    They do so per unit of reward. Leave-one-out (RLOO, arXiv 2402.14740) is G / (G - 1) times this. Departure: the
    source also divides the loss by a constant length instead of the tokens of the mini-batch; `loss.aggregation =
    "token-sum"` is that, up to the constant.
    """

    name: str = "dr-grpo"
    divisor: Divisor = "none"


@settings
class ClipHigher(Grpo):
    """GRPO with a wider clip above: 0.28.

    Clip 0.20 / 0.28 (DAPO, arXiv 2503.14476): the paper's "GRPO w/ Clip-higher", our baseline.
    """

    name: str = "clip-higher"
    loss: PolicyLoss = ClipLoss(clip_low=0.20, clip_high=0.28)


@settings
class EntropyBonus(Grpo):
    """An entropy bonus in the loss. It is that of arXiv 1602.01783; clip 0.20 / 0.28 as clip-higher."""

    name: str = "entropy-bonus"
    loss: PolicyLoss = ClipLoss(entropy_coef=0.001)

    def in_common_frame(self) -> Self:
        common = super().in_common_frame()
        return dataclasses.replace(common, loss=dataclasses.replace(common.loss, entropy_coef=self.loss.entropy_coef))


def group_advantage(
    rewards: np.ndarray, divisor: Divisor = "std", tolerance: float = ROUNDING, min_std: float = 0.0
) -> np.ndarray:
    """A_i = (r_i - mean) / max(std, min_std) over the group (Eq. 2; GRPO, arXiv 2402.03300), or over another divisor:
    float64 [G].

    A group of `alike` rewards gives exact zeros, G = 1 too. Without that, the rounding of equal rewards, such as
    0.7 once in float32 and once in float64, would be scaled up to an advantage of 1.

    Raises:
        ValueError: a reward is not finite.
        DiverError: a reward is below 0, and their mean divides.
    """
    r = one_group(rewards)
    if divisor == "mean" and r.min() < -tolerance * max(1.0, r.max()):
        raise DiverError(f"rewards divided by their mean must be at least 0 (0 wrong, 1 correct), not {r.min():g}")
    if alike(r, tolerance):
        return np.zeros_like(r)
    scale = {"std": r.std(), "sample-std": r.std(ddof=1), "mean": r.mean(), "none": 1.0}[divisor]
    return (r - r.mean()) / max(scale, min_std)


def one_group(rewards: np.ndarray) -> np.ndarray:
    """Rewards as float64 [G]; ValueError for another shape, and for a reward that is not finite."""
    r = np.asarray(rewards, dtype=np.float64)
    if r.ndim != 1 or not r.size:
        raise ValueError(f"rewards of one group must be a vector [G] with G >= 1, not of shape {r.shape}")
    if not (finite := np.isfinite(r)).all():
        raise ValueError(f"rewards must be finite, not {r[~finite][0]} at index {finite.argmin()}")
    return r
