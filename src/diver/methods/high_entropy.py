"""GRPO on the tokens of highest entropy only (arXiv 2506.01939, "Beyond the 80/20 rule")."""

from __future__ import annotations

from diver.losses import HighEntropyLoss, PolicyLoss
from diver.methods.grpo import Grpo
from diver.settings import settings


@settings
class HighEntropy(Grpo):
    """Correctness. Only the fifth of the tokens with the highest entropy counts in the loss; clip 0.20 / 0.28."""

    name: str = "high-entropy"
    loss: PolicyLoss = HighEntropyLoss()
