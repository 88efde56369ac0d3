"""Log-probs, entropy and divergence of tokens, without the logits of all of them in memory at a time. Needs torch."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK_ELEMENTS = 1 << 27  # logits that are computed at a time; 512 MB in float32


def token_logprobs(
    hidden: Tensor,
    tokens: Tensor,
    head: Callable[[Tensor], Tensor],
    temperature: float,
    *,
    vocabulary: int,
    with_entropy: bool = False,
    top_p: float = 1.0,
) -> tuple[Tensor, Tensor | None]:
    """log pi of each token and the entropy in nats of its distribution, at logits / temperature: [N] each, in float32.

    With `top_p` the entropy is that of the nucleus (`entropy`).
    `head` maps hidden states [n, d] to logits [n, V]. More than CHUNK_ELEMENTS logits are computed in chunks,
    and once more in the backward pass, so the memory does not grow with N V. Values and gradients are the same.
    """

    def scores(hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor | None]:
        logp = torch.log_softmax(head(hidden).float() / temperature, -1)
        return logp.gather(-1, tokens[:, None])[:, 0], entropy(logp, top_p) if with_entropy else None

    size = max(1, CHUNK_ELEMENTS // vocabulary)
    if len(tokens) <= size:
        return scores(hidden, tokens)
    chunks = [
        checkpoint(scores, *chunk, use_reentrant=False, preserve_rng_state=False)
        for chunk in zip(hidden.split(size), tokens.split(size), strict=True)
    ]
    logprobs, entropies = zip(*chunks, strict=True)
    return torch.cat(logprobs), torch.cat(entropies) if with_entropy else None


def entropy(logp: Tensor, top_p: float = 1.0) -> Tensor:
    """Entropy in nats of distributions given by their log-probs [..., V]: [...].

    With `top_p` below 1 that of the nucleus: the smallest set of the likeliest whose probability is at least `top_p`,
    renormalised. What is in it has no gradient.
    """
    if top_p < 1:
        ordered, order = logp.detach().sort(descending=True, stable=True)
        before = ordered.exp().cumsum(-1) - ordered.exp()
        kept = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, before < top_p)
        logp = torch.log_softmax(logp.masked_fill(~kept, -1e4), -1)  # its exp is 0; -inf would give 0 * inf = NaN
    return -(logp.exp() * logp).sum(-1)


def kl_to_reference(logprobs: Tensor, reference: Tensor) -> Tensor:
    """GRPO's estimator of KL(policy || reference) at each token, never negative (arXiv 2402.03300, eq. 4): [n, T]."""
    gap = reference - logprobs
    return torch.exp(gap) - gap - 1
