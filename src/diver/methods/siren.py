"""SIREN (after arXiv 2509.25133): Dr. GRPO, and the entropy of unsure tokens is held near the initial policy's."""

from typing import Any, ClassVar

from diver.core.settings import settings
from diver.losses import PolicyLoss, SirenLoss
from diver.methods.grpo import DrGrpo


@settings
class Siren(DrGrpo):
    """Holds the entropy of unsure tokens.

    A_i = r_i - mean, as Dr. GRPO. The loss holds the entropy of the most unsure tokens near the initial policy's.
    """

    name: str = "siren"
    loss: PolicyLoss = SirenLoss()

    common: ClassVar[dict[str, Any]] = {"divisor": "std"}  # the source defines the loss
