"""DPPO (arXiv 2602.04879): a token loses its gradient when its probability, not its ratio, has moved too far."""

from typing import Annotated

from diver.core.settings import Bound, Positive, settings
from diver.losses.base import PolicyLoss, Tensor, Tokens


@settings
class DppoLoss(PolicyLoss):
    """Trust region by probability change.

    -sg(min(rho, max_ratio)) A log pi of each token, sg without gradient, and 0 outside of the trust region.

    A token is outside if |pi - pi_old| > delta and its update would move pi further away. This is so for pi above
    pi_old with A > 0, and below with A < 0. |pi - pi_old| is the total variation of the binary distribution "this token
    or another" (the source's Binary-TV).
    """

    name: str = "dppo"
    delta: Positive = 0.15
    """Largest change of the probability of a token. The default is that of verl's script for this loss."""
    max_ratio: Annotated[float, Bound("above 1", lambda x: x > 1)] = 10_000.0
    """Upper bound of the ratio as a weight. That of verl's script is never reached in practice: the source found that a
    low bound hurts."""

    metric_names = ("clip_fraction",)

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        weight = (tokens.logprobs - tokens.old_logprobs).exp().clamp(max=self.max_ratio).detach()
        moved = (tokens.logprobs.exp() - tokens.old_logprobs.exp()).detach()
        is_outside = (moved * tokens.advantages.sign()) > self.delta
        loss = -weight * tokens.advantages * tokens.logprobs
        return loss.masked_fill(is_outside, 0.0), {"clip_fraction": is_outside}
