"""KL-Cov (arXiv 2505.22617): GRPO's advantage; the tokens of the highest covariance are penalised for change."""

from __future__ import annotations

from diver.losses import KlCovLoss, PolicyLoss
from diver.methods.grpo import Grpo
from diver.settings import settings


@settings
class KlCov(Grpo):
    """Correctness. No clip. Stands for the paper's "Entropy-RL", which names no setting (docs/method.md)."""

    name: str = "kl-cov"
    loss: PolicyLoss = KlCovLoss()
