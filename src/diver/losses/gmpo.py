"""GMPO (arXiv 2507.20673): the geometric mean of the clipped ratios of a response in place of their mean."""

from typing import Any, ClassVar

from diver.core.settings import settings
from diver.losses.base import Aggregation, PolicyLoss, Tensor, Tokens, response_mean
from diver.losses.clip import ClipLoss


@settings
class GmpoLoss(ClipLoss):
    """Geometric mean of clipped ratios.

    -s A of each response, s = exp(mean over its tokens of log rho, clipped where A moves it further from 0).

    log rho is at most clip_high with A > 0 and at least -clip_low with A < 0. A clipped token has no gradient, while
    the other tokens of its response have one. GSPO clips the mean, and so the whole response. Every token of a response
    has the loss of the response, so `sequence-mean`, the source's, is the mean over the responses.
    """

    name: str = "gmpo"
    aggregation: Aggregation = "sequence-mean"
    """The source's. Over the mini-batch: mean of tokens, mean of sequence means, or Eq. 1's sum over tokens."""
    clip_low: float = 0.4
    """log rho is clipped below at -clip_low, rho at 0.67."""
    clip_high: float = 0.4
    """log rho is clipped above at clip_high, rho at 1.49."""

    common: ClassVar[dict[str, Any]] = {**PolicyLoss.common, "aggregation": "sequence-mean"}

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        log_ratio = tokens.logprobs - tokens.old_logprobs
        too_high = (log_ratio > self.clip_high) & (tokens.advantages > 0)
        too_low = (log_ratio < -self.clip_low) & (tokens.advantages < 0)
        clipped = log_ratio.masked_fill(too_high, self.clip_high).masked_fill(too_low, -self.clip_low)
        s = response_mean(clipped, tokens.mask).exp()
        return -s.expand_as(log_ratio) * tokens.advantages, {"clip_fraction": too_high | too_low}
