"""SAPO (arXiv 2511.20347): a sigmoid of the importance ratio in place of the clip."""

from diver.core.settings import Positive, settings
from diver.losses.base import Aggregation, PolicyLoss, Tensor, Tokens


@settings
class SapoLoss(PolicyLoss):
    """A sigmoid in place of the clip.

    -f(rho) A of each token, f(rho) = sigmoid(tau (rho - 1)) 4 / tau, with a tau for each sign of A.

    At rho = 1 the gradient is that of the surrogate without a clip. It falls smoothly to both sides, the faster the
    larger tau is.
    """

    name: str = "sapo"
    aggregation: Aggregation = "sequence-mean"
    """The source's. Over the mini-batch: mean of tokens, mean of sequence means, or Eq. 1's sum over tokens."""
    tau_positive: Positive = 1.0
    """tau of a token with A above 0."""
    tau_negative: Positive = 1.05
    """tau of the other tokens."""

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        ratio = (tokens.logprobs - tokens.old_logprobs).exp()
        a = tokens.advantages
        tau = a.new_full(a.shape, self.tau_negative).masked_fill(a > 0, self.tau_positive)
        return -(tau * (ratio - 1)).sigmoid() * 4 / tau * a, {}
