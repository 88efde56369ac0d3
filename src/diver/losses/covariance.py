"""Clip-Cov and KL-Cov (arXiv 2505.22617): tokens of high covariance of log-prob and advantage are held back."""

import numpy as np

from diver.core.settings import NonNegative, PositiveFraction, settings
from diver.losses.base import PolicyLoss, Tensor, Tokens, top_fraction
from diver.losses.clip import ClipLoss, clipped_surrogate


def covariance(logprobs: Tensor, advantages: Tensor) -> Tensor:
    """(log pi - mean) (A - mean) of each token, the means over all N: [N]."""
    return (logprobs - logprobs.mean()) * (advantages - advantages.mean())


@settings
class ClipCovLoss(ClipLoss):
    """Drops some tokens of high covariance.

    At most `fraction` N tokens of a mini-batch are left out, chosen at random among the candidates.

    Candidates have a covariance between `low` and `high` and are not clipped. Those with the smallest random numbers
    are taken, so that one candidate more or less changes at most one choice.
    """

    name: str = "clip-cov"
    clip_low: float = 1.0
    """epsilon_l: the ratio is clipped below at 1 - clip_low."""
    clip_high: float = 1.0
    """epsilon_h: the ratio is clipped above at 1 + clip_high."""
    fraction: PositiveFraction = 2e-4
    """Maximum number of tokens left out, as a fraction of the tokens of the mini-batch; at least one if any token is a
    candidate."""
    low: float = 1.0
    """Candidates have a covariance above this,"""
    high: float = 5.0
    """and below this; among them the choice is random."""

    common = PolicyLoss.common
    selects_tokens = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise ValueError(f"low must be below high, not low = {self.low}, high = {self.high}")

    def select_tokens(self, tokens: Tokens) -> Tensor:
        products = covariance(tokens.logprobs, tokens.advantages)
        _, is_clipped = clipped_surrogate(*tokens[:3], self.clip_low, self.clip_high)
        candidates = (products > self.low) & (products < self.high) & ~is_clipped
        return candidates & top_fraction((-tokens.uniform).masked_fill(~candidates, -np.inf), self.fraction)

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        loss, metrics = super().forward(tokens)
        return loss.masked_fill(tokens.selected, 0.0), {"clip_fraction": metrics["clip_fraction"] & ~tokens.selected}


@settings
class KlCovLoss(PolicyLoss):
    """KL penalty at high covariance.

    -rho A of each token without a clip, + coef |log rho| for the `fraction` N tokens of highest covariance.

    Stands for the paper's "Entropy-RL", which names no setting. The first mini-batch of a step has no penalty. There
    the policy still is the one that sampled: |log rho| is 0, and rounding alone would give its gradient a sign.
    """

    name: str = "kl-cov"
    fraction: PositiveFraction = 2e-3
    """Number of tokens that are penalised, as a fraction of the tokens of the mini-batch; at least one."""
    coef: NonNegative = 1.0
    """Factor of |log rho|, the estimate of the KL divergence at a token."""

    metric_names = ("clip_fraction",)
    selects_tokens = True
    selects_on_policy = False
    selected_have_gradient = True

    def select_tokens(self, tokens: Tokens) -> Tensor:
        return top_fraction(covariance(tokens.logprobs, tokens.advantages), self.fraction)

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        log_ratio = tokens.logprobs - tokens.old_logprobs
        loss = -log_ratio.exp() * tokens.advantages + self.coef * log_ratio.abs() * tokens.selected
        return loss, {"clip_fraction": tokens.selected.new_zeros(tokens.selected.shape)}
