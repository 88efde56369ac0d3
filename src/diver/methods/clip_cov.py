"""Clip-Cov (arXiv 2505.22617): GRPO's advantage; a few tokens of high covariance have no gradient."""

from __future__ import annotations

from diver.losses import ClipCovLoss, PolicyLoss
from diver.methods.grpo import Grpo
from diver.settings import settings


@settings
class ClipCov(Grpo):
    """Correctness. Tokens whose log-prob and advantage vary together are left out of the loss; clip 0 to 2."""

    name: str = "clip-cov"
    loss: PolicyLoss = ClipCovLoss()
