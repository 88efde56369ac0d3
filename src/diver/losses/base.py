"""The base class of policy losses: settings, token selection and the loss of each token (paper Eq. 1; docs/methods.md).

A loss is minimised: it is minus the paper's objective J. The normalisers of a mini-batch are put into the weights of
its rows first (`row_weights`). A mini-batch may then be cut into micro-batches in any way without changing its
gradient. torch is imported where numbers are computed, so that naming a loss needs none.
"""

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from diver.core.settings import NonNegative, settings

if TYPE_CHECKING:
    from torch import Tensor
else:
    Tensor = Any

Aggregation = Literal["token-mean", "sequence-mean", "token-sum"]
Given = Any  # None where it is not given


class Tokens(NamedTuple):
    """Tokens under the current policy: all N of a mini-batch without gradient, [N], or padded rows of it, [n, T].

    Attributes:
        logprobs: under the current policy.
        old_logprobs: under the policy that sampled.
        advantages: broadcast over the other tensors; [n, 1] if all tokens of a response have the same advantage.
        entropy: in nats, if the loss needs it.
        mask ([n, T]): False at padding and at tokens of the environment; only in `forward`.
        selected ([n, T]): what `select_tokens` returned; only in `forward`.
        uniform ([N]): random numbers in [0, 1). In `forward`, this and the following fields are None.
        lengths ([n]): the number of tokens of each row; the N tokens are in the order of the rows.
        weights ([N]): the factor of each token's loss.
        anchor: what `measure_anchor` returned.
    """

    logprobs: Tensor
    old_logprobs: Tensor
    advantages: Tensor
    entropy: Given = None
    mask: Given = None
    selected: Given = None
    uniform: Given = None
    lengths: Given = None
    weights: Given = None
    anchor: Given = None


@settings
class PolicyLoss:
    """The settings of every loss. A subclass adds further settings, and defines the loss of a token."""

    name: str = ""
    """Its name in LOSSES, or `package.module:Class`."""
    aggregation: Aggregation = "token-mean"
    """Over the mini-batch: mean of tokens (the authors ran this), mean of sequence means, Eq. 1's sum over tokens."""
    kl_coef: NonNegative = 0.0
    """Coefficient of the KL divergence to the reference policy."""
    entropy_coef: float = 0.0
    """Coefficient of the entropy bonus."""

    metric_names: ClassVar[tuple[str, ...]] = ()
    """Names of the metrics of this loss. They are 0 in a step in which no row has a gradient."""
    selects_tokens: ClassVar[bool] = False
    """Whether tokens are selected over a whole mini-batch before its gradient is taken."""
    needs_entropy: ClassVar[bool] = False
    """Whether `select_tokens` and `forward` need the entropy of each token."""
    top_p: ClassVar[float] = 1.0
    """If below 1, `entropy` is that of the nucleus: the most likely tokens that together have this probability. A
    subclass may make it a setting."""
    has_anchor: ClassVar[bool] = False
    """Whether `measure_anchor` is called once in a run. Every checkpoint stores the number that it returns."""
    recomputes_logprobs: ClassVar[bool] = False
    """Whether the old log-probs are recomputed before the first update: the rounding of bfloat16 exceeds the loss's
    bounds."""
    selected_have_gradient: ClassVar[bool] = False
    """Whether a selected token has a gradient even without an advantage."""
    selects_on_policy: ClassVar[bool] = True
    """Whether tokens are also selected in the first mini-batch of a step, when the policy equals the sampler."""

    common: ClassVar[dict[str, Any]] = {"aggregation": "token-mean", "kl_coef": 0.0, "entropy_coef": 0.0}
    """Settings that the frame `common` replaces (`method.frame`). Other settings are unchanged."""

    def __post_init__(self) -> None:
        """Raises ValueError for settings that do not fit together. A single number has a `Bound`."""

    def in_common_frame(self) -> Self:
        return dataclasses.replace(self, **self.common)

    def select_tokens(self, tokens: Tokens) -> Tensor:
        """Select among the tokens of a mini-batch: bool [N], or a number per token. See `selects_tokens`."""
        raise TypeError(f"loss {self.name!r} selects no tokens")

    def measure_anchor(self, tokens: Tokens) -> float:
        """A number measured on all tokens of the first batch, under the initial policy. Called where `has_anchor`."""
        raise TypeError(f"loss {self.name!r} has no anchor")

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of each token, [n, T], and metrics, {name: [n, T]}, whose means are logged as policy/<name>."""
        raise TypeError(f"loss {self.name!r} does not say what the loss of a token is: define forward")

    def has_gradient(self, advantages: np.ndarray | float, selected: Tensor | None = None) -> bool:
        """Whether the gradient of a row may differ from zero; `selected` [T] has what was selected of its tokens."""
        if self.selected_have_gradient and selected is not None and selected.any():
            return True
        return bool(np.any(advantages)) or self.kl_coef > 0 or self.entropy_coef != 0


def row_weights(lengths: Tensor, aggregation: str) -> Tensor:
    """The weight of every token of each row of one MINI-batch: float64 [n] from lengths [n] in tokens.

    token-mean     1 / (all tokens)         what verl ran for the paper
    sequence-mean  1 / (n |o_i|)            every response counts the same
    token-sum      1 / n                    the paper's eq. 1: sum over tokens, mean over responses
    An empty response has no tokens to weigh; its row still counts in n.
    """
    lengths, ones = lengths.double(), lengths.double().fill_(1)
    if aggregation == "token-mean":
        return ones / lengths.sum().clamp(min=1)
    if aggregation == "sequence-mean":
        return 1 / (len(lengths) * lengths.clamp(min=1))
    if aggregation == "token-sum":
        return ones / len(lengths)
    raise ValueError(f"aggregation {aggregation!r}: choose token-mean, sequence-mean or token-sum")


def kl_to_reference(logprobs: Tensor, reference: Tensor) -> Tensor:
    """GRPO's estimator of KL(policy || reference) at each token, never negative (arXiv 2402.03300, eq. 4): [n, T]."""
    gap = reference - logprobs
    return gap.exp() - gap - 1


def response_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean of `values` over the policy's tokens of each row, [n, 1] from [n, T]; 0 for a row without tokens."""
    return (values * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)


def top_fraction(values: Tensor, fraction: float) -> Tensor:
    """Mark the `fraction` N highest values, rounded down, at least one; ties go to the earlier: bool [N]."""
    import torch

    order = torch.argsort(values, descending=True, stable=True)
    highest = torch.zeros_like(values, dtype=torch.bool)
    highest[order[: max(1, int(fraction * len(values)))]] = True
    return highest
