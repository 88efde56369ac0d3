"""KL-Cov (arXiv 2505.22617): the tokens of the highest covariance of log-prob and advantage are penalised for change."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from diver.losses.base import PolicyLoss, Tokens, as_column, check_fraction, covariance, top_fraction
from diver.settings import settings

if TYPE_CHECKING:
    from torch import Tensor


@settings
class KlCovLoss(PolicyLoss):
    """-rho A of each token without a clip, + coef |log rho| for the selected ones.

    The first mini-batch of a step has no penalty: there the policy still is the one that sampled, |log rho| is 0, and
    rounding alone would give its gradient a sign.
    """

    name: str = "kl-cov"
    fraction: float = 2e-3
    """How many are penalised, as a fraction of the tokens of the mini-batch; at least one."""
    coef: float = 1.0
    """What |log rho|, the estimate of the KL divergence at a token, is multiplied by."""

    metric_names: ClassVar[tuple[str, ...]] = ("clip_fraction",)
    selects_tokens: ClassVar[bool] = True
    selects_on_policy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("fraction", self.fraction)
        if self.coef < 0:
            raise ValueError(f"coef must be at least 0, not {self.coef}")

    def select_tokens(self, tokens: Tokens) -> Tensor:
        return top_fraction(covariance(tokens.logprobs, tokens.advantages), self.fraction)

    def forward(
        self, logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, selected: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        assert selected is not None
        log_ratio = logprobs - old_logprobs
        loss = -log_ratio.exp() * as_column(advantages) + self.coef * log_ratio.abs() * selected
        return loss, {"clip_fraction": selected.new_zeros(selected.shape)}

    def has_gradient(self, advantage: float, selected: Tensor | None = None) -> bool:
        return super().has_gradient(advantage) or (selected is not None and bool(selected.any()))
