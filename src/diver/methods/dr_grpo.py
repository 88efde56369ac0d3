"""Dr. GRPO (arXiv 2503.20783): A_i = r_i - mean over the group, without a standard deviation."""

from diver.core.settings import settings
from diver.methods.grpo import Divisor, Grpo


@settings
class DrGrpo(Grpo):
    """Correctness. A_i = r_i - mean: groups of every solve rate count alike, per unit of reward.

    Leave-one-out (RLOO, arXiv 2402.14740) is G / (G - 1) times this. Departure: the source also divides the loss by a
    constant length instead of the tokens of the mini-batch; `loss.aggregation = "token-sum"` is that, up to the
    constant.
    """

    name: str = "dr-grpo"
    divisor: Divisor = "none"
