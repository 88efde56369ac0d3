"""The settings of the policy loss, with the defaults of the paper. The functions are in `diver.losses.loss`; no torch here."""

from __future__ import annotations

from typing import Literal

from diver.settings import settings


@settings
class ClipCov:
    """Clip-Cov (arXiv 2505.22617): some tokens of high covariance of log-prob and advantage have no gradient."""

    share: float = 2e-4
    """The most that are left out, as a share of the tokens of the mini-batch; at least one where there is a candidate."""
    low: float = 1.0
    """Candidates have a covariance above this,"""
    high: float = 5.0
    """and below this; among them the choice is random."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {self.share}")
        if not self.low < self.high:
            raise ValueError(f"low must be below high, not low = {self.low}, high = {self.high}")


@settings
class KlCov:
    """KL-Cov (arXiv 2505.22617): the tokens of the highest covariance of log-prob and advantage pay for their change."""

    share: float = 2e-3
    """How many pay, as a share of the tokens of the mini-batch; at least one."""
    coefficient: float = 1.0
    """What |log rho|, the estimate of the KL divergence at a token, is multiplied by."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {self.share}")
        if self.coefficient < 0:
            raise ValueError(f"coefficient must be at least 0, not {self.coefficient}")


@settings
class Loss:
    """The policy loss (paper Eq. 1, and three baselines); the functions are in `diver.losses.loss`."""

    surrogate: Literal["clip", "clip-cov", "kl-cov"] = "clip"
    """Eq. 1's clipped surrogate; the same, some tokens of high covariance left out; no clip, and those tokens penalised."""
    clip_low: float = 0.20
    """epsilon_l: the ratio is clipped below at 1 - clip_low (not by kl-cov)."""
    clip_high: float = 0.28
    """epsilon_h: the ratio is clipped above at 1 + clip_high (not by kl-cov)."""
    clip_cov: ClipCov = ClipCov()
    """Of the surrogate clip-cov."""
    kl_cov: KlCov = KlCov()
    """Of the surrogate kl-cov."""
    entropy_share: float = 1.0
    """The surrogate counts for this share of the tokens of the mini-batch, those of highest entropy (arXiv 2506.01939)."""
    aggregation: Literal["token-mean", "sequence-mean", "token-sum"] = "token-mean"
    """Over the mini-batch: mean of tokens (what the authors ran), mean of sequence means, or Eq. 1's sum over tokens."""
    beta: float = 0.0
    """Coefficient of the KL divergence to the reference policy."""
    entropy: float = 0.0
    """Coefficient of the entropy bonus."""

    def __post_init__(self) -> None:
        if not 0 <= self.clip_low <= 1:
            raise ValueError(f"clip_low must be between 0 and 1, not {self.clip_low}")
        if self.clip_high < 0:
            raise ValueError(f"clip_high must be at least 0, not {self.clip_high}")
        if self.beta < 0:
            raise ValueError(f"beta must be at least 0, not {self.beta}")
        if not 0 < self.entropy_share <= 1:
            raise ValueError(f"entropy_share must be above 0 and at most 1, not {self.entropy_share}")
        if self.entropy_share < 1 and self.surrogate != "clip":
            raise ValueError(f'entropy_share below 1 goes with surrogate = "clip" only, not "{self.surrogate}"')

    @property
    def chooses(self) -> bool:
        """Whether tokens are chosen over a whole mini-batch before its gradient is taken."""
        return self.surrogate != "clip" or self.entropy_share < 1
