"""The entropy advantage (arXiv 2506.14758): a token at which the policy is unsure has more of the advantage."""

from diver.core.settings import NonNegative, settings
from diver.losses.base import Tensor, Tokens
from diver.losses.clip import ClipLoss


@settings
class EntropyAdvantageLoss(ClipLoss):
    """More advantage for unsure tokens.

    The clipped surrogate of A_t + min(alpha H_t, |A_t| / kappa), H_t the entropy of the token's distribution.

    H_t is that of the policy as it now is, in nats over the whole vocabulary, without gradient. With kappa > 1 the sign
    of the advantage stays, and a token without advantage stays without.
    """

    name: str = "entropy-advantage"
    alpha: NonNegative = 0.4
    """The coefficient of the entropy; the source's for GRPO, and 0.1 for PPO."""
    kappa: float = 2.0
    """A token gains at most |A| / kappa."""

    needs_entropy = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kappa <= 1:
            raise ValueError(f"kappa must be above 1, not {self.kappa}: a negative advantage could become positive")

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        gain = (self.alpha * tokens.entropy.detach()).minimum(tokens.advantages.abs() / self.kappa)
        return super().forward(tokens._replace(advantages=tokens.advantages + gain))
