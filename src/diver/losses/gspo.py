"""GSPO (arXiv 2507.18071): one importance ratio for a response, the geometric mean of those of its tokens."""

from typing import Any, ClassVar

from diver.core.settings import settings
from diver.losses.base import Aggregation, PolicyLoss, Tensor, Tokens, response_mean
from diver.losses.clip import ClipLoss, clipped_surrogate


@settings
class GspoLoss(ClipLoss):
    """One importance ratio per response.

    -min(s A, clip(s, 1 - clip_low, 1 + clip_high) A) of each response, s = exp(mean over its tokens of log rho).

    Written for tokens, as the source's GSPO-token: each has the ratio sg(s) pi / sg(pi), where sg stops the gradient.
    The ratio has the value of s, and over the tokens of a response the gradient of s. So `clip_fraction` is of whole
    responses. As in the source, rho is to the trainer's own log-probs from before the first update, and not to the
    sampler's.
    """

    name: str = "gspo"
    aggregation: Aggregation = "sequence-mean"
    """The source's. Over the mini-batch: mean of tokens, mean of sequence means, or Eq. 1's sum over tokens."""
    clip_low: float = 3e-4
    """epsilon_l: the ratio is clipped below at 1 - clip_low. A mean of tokens is much nearer to 1 than a token."""
    clip_high: float = 4e-4
    """epsilon_h: the ratio is clipped above at 1 + clip_high."""

    recomputes_logprobs = True
    common: ClassVar[dict[str, Any]] = {**PolicyLoss.common, "aggregation": "sequence-mean"}

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        fixed = tokens.logprobs.detach()
        log_s = response_mean(fixed - tokens.old_logprobs, tokens.mask)
        log_ratio = tokens.logprobs - fixed + log_s  # in this order logprobs - fixed is exactly 0
        zero = log_ratio.new_zeros(())
        loss, is_clipped = clipped_surrogate(log_ratio, zero, tokens.advantages, self.clip_low, self.clip_high)
        return loss, {"clip_fraction": is_clipped}
