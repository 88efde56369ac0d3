"""CISPO (MiniMax-M1, arXiv 2506.13585): the importance ratio is clipped as a weight, so that every token has a
gradient."""

from diver.core.settings import settings
from diver.losses.base import PolicyLoss, Tensor, Tokens
from diver.losses.clip import ClipLoss


@settings
class CispoLoss(ClipLoss):
    """Clips the weight, not the gradient.

    -sg(clip(rho, 1 - clip_low, 1 + clip_high)) A log pi of each token, sg without gradient.

    Where `clip` takes the gradient from a token whose ratio has left the bounds, this keeps it, with a bounded weight.
    After the source, which has no lower bound and does not print its upper one: 5 is ours, what TRL's documentation
    advises.
    """

    name: str = "cispo"
    clip_low: float = 1.0
    clip_high: float = 4.0

    common = PolicyLoss.common

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        ratio = (tokens.logprobs - tokens.old_logprobs).exp().detach()
        weight = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        return -weight * tokens.advantages * tokens.logprobs, {"clip_fraction": weight != ratio}
