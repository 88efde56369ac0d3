"""The clipped surrogate of PPO and GRPO, with separate bounds above and below (paper Eq. 1; DAPO, arXiv
2503.14476)."""

from typing import Any, ClassVar

from diver.core.settings import NonNegative, ZeroToOne, settings
from diver.losses.base import PolicyLoss, Tensor, Tokens


@settings
class ClipLoss(PolicyLoss):
    """-min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A) of each token, rho = exp(logprobs - old_logprobs)."""

    name: str = "clip"
    clip_low: ZeroToOne = 0.20
    """epsilon_l: the ratio is clipped below at 1 - clip_low."""
    clip_high: NonNegative = 0.28
    """epsilon_h: the ratio is clipped above at 1 + clip_high."""

    metric_names = ("clip_fraction",)
    common: ClassVar[dict[str, Any]] = {**PolicyLoss.common, "clip_low": 0.20, "clip_high": 0.28}

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        loss, is_clipped = clipped_surrogate(*tokens[:3], self.clip_low, self.clip_high)
        return loss, {"clip_fraction": is_clipped}


def clipped_surrogate(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, low: float, high: float
) -> tuple[Tensor, Tensor]:
    """-CLIP(rho, A) of each token, and whether the clip took effect: [n, T], bool [n, T].

    CLIP = min(rho A, clip(rho, 1 - low, 1 + high) A) with `advantages` [n, 1] or [n, T]. A clipped token has no
    gradient: rho above 1 + high with A > 0, or below 1 - low with A < 0.
    """
    ratio = (logprobs - old_logprobs).exp()
    clipped = ratio.clamp(1 - low, 1 + high)
    is_clipped = ((ratio > 1 + high) & (advantages > 0)) | ((ratio < 1 - low) & (advantages < 0))
    return -(ratio * advantages).minimum(clipped * advantages), is_clipped
