"""Policy losses by name. A loss of one's own is named `package.module:Class`."""

from diver.losses.base import PolicyLoss
from diver.losses.clip import ClipLoss
from diver.losses.covariance import ClipCovLoss, KlCovLoss
from diver.losses.high_entropy import HighEntropyLoss

LOSSES: dict[str, type[PolicyLoss]] = {
    "clip": ClipLoss,
    "high-entropy": HighEntropyLoss,
    "clip-cov": ClipCovLoss,
    "kl-cov": KlCovLoss,
}

__all__ = ["LOSSES", "ClipCovLoss", "ClipLoss", "HighEntropyLoss", "KlCovLoss", "PolicyLoss"]
