"""The policy losses, token by token, and the weights that add tokens up (paper eq. 1; `docs/method.md`).

A loss here is minimised: it is minus the paper's objective J. Whole-batch normalisers are put into per-row weights
first (`row_weights`), so a mini-batch may then be cut into micro-batches in any way without changing its gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from diver.losses.objective import Loss


def row_weights(lengths: Tensor, aggregation: str) -> Tensor:
    """The weight of every token of each row of one MINI-batch: float64 [n] from lengths [n] in tokens.

    token-mean     1 / (all tokens)         what verl ran for the paper
    sequence-mean  1 / (n |o_i|)            every response counts the same
    token-sum      1 / n                    the paper's eq. 1: sum over tokens, mean over responses
    An empty response has no tokens to weigh; its row still counts in n.
    """
    if not len(lengths):
        raise ValueError("row_weights: a mini-batch needs at least one row")
    lengths = lengths.double()
    if aggregation == "token-mean":
        return torch.ones_like(lengths) / lengths.sum().clamp(min=1)
    if aggregation == "sequence-mean":
        return 1 / (len(lengths) * lengths.clamp(min=1))
    if aggregation == "token-sum":
        return torch.ones_like(lengths) / len(lengths)
    raise ValueError(f"aggregation {aggregation!r}: there are token-mean, sequence-mean, token-sum")


def surrogate(
    loss: Loss, logprobs: Tensor, old: Tensor, advantage: Tensor, chosen: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The surrogate loss of each token as `loss` says, and whether the clip bound it: [n, T], bool [n, T].

    `chosen` bool [n, T] is what `choose` answered for the mini-batch: needed where `loss.chooses`.
    """
    if loss.surrogate == "kl-cov":
        assert chosen is not None
        log_ratio = logprobs - old
        plain = -torch.exp(log_ratio) * _column(advantage)
        return plain + loss.kl_cov.coefficient * log_ratio.abs() * chosen, torch.zeros_like(chosen)
    value, bound = clipped_surrogate(logprobs, old, advantage, loss.clip_low, loss.clip_high)
    if not loss.chooses:
        return value, bound
    assert chosen is not None
    counted = ~chosen if loss.surrogate == "clip-cov" else chosen
    return value.masked_fill(~counted, 0.0), bound & counted


def clipped_surrogate(
    logprobs: Tensor, old: Tensor, advantage: Tensor, low: float, high: float
) -> tuple[Tensor, Tensor]:
    """-CLIP(rho, A) of each token, and whether the clip bound it: [n, T], bool [n, T].

    rho = exp(logprobs - old); CLIP = min(rho A, clip(rho, 1 - low, 1 + high) A) with `advantage` [n] or [n, T].
    A bound token has no gradient: rho above 1 + high with A > 0, or below 1 - low with A < 0.
    """
    advantage = _column(advantage)
    ratio = torch.exp(logprobs - old)
    clipped = ratio.clamp(1 - low, 1 + high)
    bound = ((ratio > 1 + high) & (advantage > 0)) | ((ratio < 1 - low) & (advantage < 0))
    return -torch.minimum(ratio * advantage, clipped * advantage), bound


def _column(advantage: Tensor) -> Tensor:
    return advantage if advantage.dim() == 2 else advantage[:, None]


def choose(loss: Loss, logprobs: Tensor, entropy: Tensor, old: Tensor, advantage: Tensor, uniform: Tensor) -> Tensor:
    """The tokens that `loss` singles out of all N of a mini-batch, from [N] vectors without gradient: bool [N].

    clip-cov   at most `share` N, at least 1, chosen at random among the candidates: covariance between `low` and
               `high`, not bound by the clip. They are left out
    kl-cov     the `share` N, at least 1, of the highest covariance. They pay coefficient * |log rho|
    otherwise  the `entropy_share` N, at least 1, of the highest entropy. Only they count

    `uniform` are random numbers, one a token: clip-cov takes the candidates with the smallest, so that one candidate
    more or less changes at most one choice.
    """
    if loss.surrogate == "clip":
        return _highest(entropy, loss.entropy_share)
    products = covariance(logprobs, advantage)
    if loss.surrogate == "kl-cov":
        return _highest(products, loss.kl_cov.share)
    how = loss.clip_cov
    _, bound = clipped_surrogate(logprobs[None], old[None], advantage[None], loss.clip_low, loss.clip_high)
    candidates = (products > how.low) & (products < how.high) & ~bound[0]
    return candidates & _highest(torch.where(candidates, -uniform, -torch.inf), how.share)


def covariance(logprobs: Tensor, advantage: Tensor) -> Tensor:
    """(log pi - mean) (A - mean) of each token, the means over all N (arXiv 2505.22617): [N]."""
    return (logprobs - logprobs.mean()) * (advantage - advantage.mean())


def _highest(values: Tensor, share: float) -> Tensor:
    """Whether each is among the `share` N highest, rounded down but at least 1; of equal ones the earlier: bool [N]."""
    order = torch.argsort(values, descending=True, stable=True)
    chosen = torch.zeros_like(values, dtype=torch.bool)
    chosen[order[: max(1, int(share * len(values)))]] = True
    return chosen


def kl_to_reference(logprobs: Tensor, reference: Tensor) -> Tensor:
    """GRPO's estimator of KL(policy || reference) at each token, never negative (arXiv 2402.03300, eq. 4): [n, T]."""
    gap = reference - logprobs
    return torch.exp(gap) - gap - 1


def token_logprobs(logits: Tensor, tokens: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """log pi(token) and the scaled logits, both at logits / temperature: [n, T], [n, T, V], in float32."""
    scaled = logits.float() / temperature
    return torch.gather(scaled, -1, tokens[..., None])[..., 0] - torch.logsumexp(scaled, -1), scaled


def entropy(scaled: Tensor) -> Tensor:
    """Entropy in nats of softmax(scaled logits): [n, T]."""
    logp = torch.log_softmax(scaled, -1)
    return -(logp.exp() * logp).sum(-1)
