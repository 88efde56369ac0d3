"""MaxRL (arXiv 2602.02710): A_i = (r_i - p) / p over the group, p the mean reward; the less often solved, the
larger."""

from diver.core.settings import settings
from diver.methods.grpo import Divisor, Grpo


@settings
class MaxRl(Grpo):
    """Correctness, divided by its mean in the group.

    Clip 0.20 / 0.20, as in the authors' runs. No correct response gives exact zeros, and so does a group all correct.
    Departure: the source adds 1e-6 to p; here nothing is added.
    """

    name: str = "max-rl"
    divisor: Divisor = "mean"
