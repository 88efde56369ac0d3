"""The clipped surrogate over the tokens of highest entropy only (arXiv 2506.01939, "Beyond the 80/20 rule")."""

from diver.core.settings import PositiveFraction, settings
from diver.losses.base import Tensor, Tokens, top_fraction
from diver.losses.clip import ClipLoss


@settings
class HighEntropyLoss(ClipLoss):
    """Only unsure tokens have a gradient.

    The surrogate counts for a fraction of the tokens of the mini-batch; the others still count in the weights.

    Departures: as in TRL the mean is over all tokens, where the source's is over those that count, so that its loss is
    larger by one over the fraction. The fraction is of the mini-batch, whatever the micro-batches; the source's and
    TRL's is of a micro-batch.
    """

    name: str = "high-entropy"
    top_entropy_fraction: PositiveFraction = 0.2
    """Number of tokens of highest entropy that count, as a fraction of the tokens of the mini-batch; at least one."""

    selects_tokens = True
    needs_entropy = True

    def select_tokens(self, tokens: Tokens) -> Tensor:
        return top_fraction(tokens.entropy, self.top_entropy_fraction)

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        loss, metrics = super().forward(tokens)
        return loss.masked_fill(~tokens.selected, 0.0), {"clip_fraction": metrics["clip_fraction"] & tokens.selected}
