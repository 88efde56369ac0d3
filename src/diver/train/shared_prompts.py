"""A micro-batch as one row of tokens: each distinct prompt once, then no padding between the responses.

All of a model but its attention treats every token by itself. So the tokens of a micro-batch are run as one row [1, N],
and only the attention sees them in rows. It gathers the queries of each prompt, or each response, with the keys and
values of what it follows. Then it puts the results back. The gradient is that of padded rows; where the model has
dropout, the responses to a prompt share what is dropped of it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AttentionInterface, DynamicCache
from transformers.cache_utils import DynamicLayer

from diver.sample.policy import attention, hidden_states
from diver.train.batches import Batch

NAME = "diver_shared_prompts"  # name of the attention while a micro-batch runs


def shares_prompts(model: Any) -> bool:
    """Whether `before_responses` takes the model: full attention by sdpa, and positions by rotation alone.

    Not one whose activations are recomputed, which is after its attention has been put back.
    """
    return (
        model.config.get_text_config()._attn_implementation == "sdpa"
        and model._supports_attention_backend
        and hasattr(model.base_model, "rotary_emb")
        and all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)
        and not any(getattr(m, "gradient_checkpointing", False) for m in model.modules())
    )


class Part(NamedTuple):
    """Rows that attend: the places of their queries [n, Q] and keys [n, K] in the one row of tokens.

    `seen` [n, 1, Q, K] is what a query attends to; `tokens` are the places of those that are no padding in [n Q].
    """

    queries: Tensor
    keys: Tensor
    seen: Tensor
    tokens: Tensor


def before_responses(model: Any, batch: Batch) -> Tensor:
    """The last hidden state before each response token: [tokens, d]."""
    width, attended = batch.mask.shape[1], batch.attention.bool()
    first = batch.prompt_row == torch.arange(len(attended), device=attended.device)
    prompt = attended[first, :-width]

    ids, position = (
        torch.cat([x[first, :-width][prompt], x[:, -width:][batch.mask]])[None] for x in (batch.ids, batch.position)
    )
    prompts, responses = _places(prompt), int(prompt.sum()) + _places(batch.mask)
    rows = torch.cat([prompts[(first.cumsum(0) - 1)[batch.prompt_row]], responses], 1)
    causal = torch.ones(rows.shape[1], rows.shape[1], dtype=torch.bool, device=rows.device).tril()
    # Padding attends to itself: a softmax over nothing would be NaN.
    seen = (causal & attended[:, None] | causal.diag().diag())[:, None]
    parts = [
        Part(prompts, prompts, seen[first, :, :-width, :-width], prompt.flatten().nonzero()[:, 0]),
        Part(responses, rows, seen[:, :, -width:], batch.mask.flatten().nonzero()[:, 0]),
    ]
    own = AttentionInterface()[model.config.get_text_config()._attn_implementation]
    with attention(model, NAME, partial(_attend, parts, own)):
        hidden = hidden_states(model, input_ids=ids, position_ids=position, use_cache=False)
    return hidden[0, rows[:, -width - 1 : -1][batch.mask]]


def _places(tokens: Tensor) -> Tensor:
    """The number of each token in reading order, from 0, of a mask [n, T]; any for padding: int64 [n, T]."""
    return (tokens.flatten().cumsum(0) - 1).clamp(min=0).view_as(tokens)


def _attend(
    parts: Sequence[Part],
    own: Callable[..., tuple[Tensor, None]],
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: None,
    **options: Any,
) -> tuple[Tensor, None]:
    """An attention function of transformers: of [1, heads, N, d] each to [1, N, heads, d]."""
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    results = []
    for part in parts:
        rows = (x[places].transpose(1, 2) for x, places in ((q, part.queries), (k, part.keys), (v, part.keys)))
        results.append(own(module, *rows, part.seen, **options)[0].flatten(0, 1)[part.tokens])
    return torch.cat(results)[None], None
