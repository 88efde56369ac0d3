"""GRPO with clip-higher (DAPO, arXiv 2503.14476): the ratio is clipped later above than below."""

from __future__ import annotations

from diver.losses import ClipLoss, PolicyLoss
from diver.methods.grpo import Grpo
from diver.settings import settings


@settings
class ClipHigher(Grpo):
    """Correctness. Clip 0.20 / 0.28: the paper's "GRPO w/ Clip-higher", and the baseline of every comparison here."""

    name: str = "clip-higher"
    loss: PolicyLoss = ClipLoss(clip_low=0.20, clip_high=0.28)
