"""Log-probs, entropy and divergence of tokens, from logits. Needs torch."""

from __future__ import annotations

import torch
from torch import Tensor


def token_logprobs(logits: Tensor, tokens: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """log pi(token) and the scaled logits, both at logits / temperature: [n, T], [n, T, V], in float32."""
    scaled = logits.float() / temperature
    return torch.gather(scaled, -1, tokens[..., None])[..., 0] - torch.logsumexp(scaled, -1), scaled


def entropy(scaled: Tensor) -> Tensor:
    """Entropy in nats of softmax(scaled logits): [n, T]."""
    logp = torch.log_softmax(scaled, -1)
    return -(logp.exp() * logp).sum(-1)


def kl_to_reference(logprobs: Tensor, reference: Tensor) -> Tensor:
    """GRPO's estimator of KL(policy || reference) at each token, never negative (arXiv 2402.03300, eq. 4): [n, T]."""
    gap = reference - logprobs
    return torch.exp(gap) - gap - 1
