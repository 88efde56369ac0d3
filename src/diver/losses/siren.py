"""SIREN (after arXiv 2509.25133): the entropy of the most unsure tokens is held near that of the initial policy."""

from typing import Annotated

from diver.core.settings import Bound, NonNegative, PositiveFraction, settings
from diver.losses.base import Tensor, Tokens
from diver.losses.clip import ClipLoss


@settings
class SirenLoss(ClipLoss):
    """The clipped surrogate, and beta (H - anchor)^2 once for each mini-batch, H the mean entropy at the peaks.

    A peak is a token whose nucleus entropy is above the `quantile` of its response (linear between tokens). H is the
    mean over a response's peaks, 0 if it has none, then the mean over the responses. The anchor is the same H of the
    first batch of the run, under the initial policy. Gradients go through the entropies, not through what is in a
    nucleus or a peak.

    Read in the authors' release (hence "after"). Departures: a nucleus includes the token that reaches `top_p`, among
    all tokens, not the first 10,000. The release leaves it out, so a likely first token leaves an empty set. The term
    is one of the mini-batch, as H is, and not of each micro-batch. The loss is the mean over tokens, where the source
    divides by a constant length. With the gradient's coefficient of each token the sum over micro-batches is that of
    the whole mini-batch, so `policy/loss` is not its value.
    """

    name: str = "siren"
    clip_low: float = 0.20
    """epsilon_l: the ratio is clipped below at 1 - clip_low."""
    clip_high: float = 0.20
    """epsilon_h: the ratio is clipped above at 1 + clip_high."""
    top_p: PositiveFraction = 0.8  # type: ignore[misc]  # a setting here
    """The probability of a nucleus."""
    quantile: Annotated[float, Bound("at least 0 and below 1", lambda x: 0 <= x < 1)] = 0.8
    """Quantile of the entropies of a response; a token above it is a peak."""
    beta: NonNegative = 0.005
    """The coefficient of the term."""

    selects_tokens = True
    needs_entropy = True
    has_anchor = True
    selected_have_gradient = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.entropy_coef:
            raise ValueError("entropy_coef must be 0: the entropies of this loss are those of a nucleus")

    def measure_anchor(self, tokens: Tokens) -> float:
        return float((self._share(tokens) * tokens.entropy).sum())

    def select_tokens(self, tokens: Tokens) -> Tensor:
        """The coefficient of each token's entropy in its loss, [N], with which the gradient is that of the term."""
        share = self._share(tokens)
        mean = (share * tokens.entropy).sum()
        return 2 * self.beta * (mean - tokens.anchor) * share / tokens.weights

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        loss, metrics = super().forward(tokens)
        return loss + tokens.selected * tokens.entropy, metrics

    def _share(self, tokens: Tokens) -> Tensor:
        """The weight of each token in H: 1 / (peaks of its response x responses) at a peak, else 0: [N]."""
        import torch

        shares = []
        for entropy in tokens.entropy.split(tokens.lengths.tolist()):
            # torch.quantile refuses an empty response.
            peaks = entropy > torch.quantile(entropy, self.quantile) if len(entropy) else entropy > 0
            shares.append(peaks / (peaks.sum().clamp(min=1) * len(tokens.lengths)))
        return torch.cat(shares)
