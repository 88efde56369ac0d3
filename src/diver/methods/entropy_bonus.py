"""GRPO with an entropy bonus in the loss: - 0.001 H of every token."""

from __future__ import annotations

from diver.losses import ClipLoss, PolicyLoss
from diver.methods.grpo import Grpo
from diver.settings import settings


@settings
class EntropyBonus(Grpo):
    """Correctness. The loss has an entropy bonus; clip 0.20 / 0.28 as clip-higher."""

    name: str = "entropy-bonus"
    loss: PolicyLoss = ClipLoss(entropy_coef=0.001)
