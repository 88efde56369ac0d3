"""From mini-batches of complete groups to micro-batches under a token budget, and the model's pass over one of them.

`before_responses` runs a micro-batch as one row of tokens [1, N]: each distinct prompt once, then the responses without
padding. This is possible because only the attention of a model relates tokens to one another. The attention gathers the
queries of each prompt or response, with the keys and values before them, and puts the results back. The gradient is
that of padded rows. If the model has dropout, the responses to a prompt share the dropout of the prompt.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from transformers import AttentionInterface, DynamicCache
from transformers.cache_utils import DynamicLayer

from diver.core.types import Group
from diver.sample.policy import attention, hidden_states

T = TypeVar("T")
NAME = "diver_shared_prompts"  # name under which the attention is registered


class Row(NamedTuple):
    """The inputs of the loss for one rollout: `tokens` and `mask` [S] are its `Rollout.sequence`.

    Its advantages are [T], or one number for all T tokens of the policy. `start` is the index of the first of these
    tokens among those of the mini-batch.
    """

    prompt: Sequence[int]
    tokens: np.ndarray
    mask: np.ndarray
    old_logprobs: np.ndarray
    advantages: np.ndarray | float
    weight: float
    start: int = 0

    @property
    def length(self) -> int:
        """Tokens that the model is run on."""
        return len(self.prompt) + len(self.tokens)

    @property
    def written(self) -> int:
        """T, the tokens that the policy wrote."""
        return int(self.mask.sum())


class Batch(NamedTuple):
    """A padded micro-batch: prompts end and responses begin at the same column, [n, P + R] and [n, R].

    `mask` [n, R] marks the tokens of the policy, without padding and the environment. `token_index` [n, R] is the index
    of each of these tokens in the mini-batch; 0 elsewhere. `advantages` are [n, 1], or [n, R] if a row has one for each
    token. `prompt_row` [n] is the first row with the same prompt.
    """

    ids: Tensor
    attention: Tensor
    position: Tensor
    tokens: Tensor
    mask: Tensor
    old_logprobs: Tensor
    advantages: Tensor
    weight: Tensor
    token_index: Tensor
    prompt_row: Tensor


def rows_of(groups: Sequence[Group], weights: Sequence[float]) -> list[Row]:
    """A row for each rollout of groups with their `prompt_tokens`, in order."""
    rows: list[Row] = []
    start = 0
    for (prompt, r), weight in zip(((g.prompt_tokens, r) for g in groups for r in g.rollouts), weights, strict=True):
        advantages = r.advantage if r.token_advantages is None else r.token_advantages
        logprobs = np.full(r.length, np.nan) if r.logprobs is None else r.logprobs  # a replayed rollout may have none
        rows.append(Row(prompt, *r.sequence, logprobs, advantages, weight, start))
        start += r.length
    return rows


def mini_batches(groups: Sequence[T], size: int) -> list[Sequence[T]]:
    """The mini-batches of a step, of at most `size` groups each.

    If a selection left out groups, the sizes are about equal: groups of a small last mini-batch would weigh more.
    """
    count = -(-len(groups) // size)
    return [groups[i * len(groups) // count : (i + 1) * len(groups) // count] for i in range(count)]


def micro_batches(rows: Sequence[Row], budget: int, *, shared: bool = False) -> list[list[Row]]:
    """Split rows into batches of at most `budget` tokens, padding included; a longer row is a batch by itself.

    If prompts are `shared`, each counts once in a batch. The longest rows come first. So rows of similar length share a
    batch, and a lack of memory shows at the first batch.
    """
    batches: list[list[Row]] = []
    prompts: set[tuple[int, ...]] = set()  # distinct prompts of the last batch
    longest = [0, 0]  # tokens of the longest prompt and of the longest response in the last batch
    for row in sorted(rows, key=lambda r: r.length, reverse=True):
        count = len(batches[-1]) + 1 if batches else 1
        prompts.add(tuple(row.prompt))
        longest = [max(longest[0], len(row.prompt)), max(longest[1], len(row.tokens))]
        if not batches or (len(prompts) if shared else count) * longest[0] + count * longest[1] > budget:
            batches.append([])
            prompts, longest = {tuple(row.prompt)}, [len(row.prompt), len(row.tokens)]
        batches[-1].append(row)
    return batches


def collate(rows: Sequence[Row], device: torch.device) -> Batch:
    """Pad prompts on the left and responses on the right with token 0, which every model has.

    Padding is masked by position, never by its id: in many models PAD equals EOS, and in some it has no embedding.
    """
    p = max(len(row.prompt) for row in rows)
    r = max(1, *(len(row.tokens) for row in rows))
    ids = np.zeros((len(rows), p + r), dtype=np.int64)
    attention_mask = np.zeros((len(rows), p + r), dtype=np.int64)
    mask = np.zeros((len(rows), r), dtype=bool)
    old_logprobs = np.zeros((len(rows), r), dtype=np.float32)
    token_index = np.zeros((len(rows), r), dtype=np.int64)
    per_token = any(np.ndim(row.advantages) for row in rows)
    advantages = np.zeros((len(rows), r if per_token else 1), dtype=np.float32)
    first: dict[tuple[int, ...], int] = {}
    for i, row in enumerate(rows):
        start, end = p - len(row.prompt), p + len(row.tokens)
        ids[i, start:end] = [*row.prompt, *row.tokens]
        attention_mask[i, start:end] = 1
        mask[i, : end - p] = row.mask
        old_logprobs[i, mask[i]] = row.old_logprobs
        token_index[i, mask[i]] = row.start + np.arange(row.written)
        advantages[i, mask[i] if per_token else 0] = row.advantages
    token_ids, attended = torch.from_numpy(ids).to(device), torch.from_numpy(attention_mask).to(device)
    return Batch(
        ids=token_ids,
        attention=attended,
        position=(attended.cumsum(-1) - 1).clamp(min=0),
        tokens=token_ids[:, p:],
        mask=torch.from_numpy(mask).to(device),
        old_logprobs=torch.from_numpy(old_logprobs).to(device),
        advantages=torch.from_numpy(advantages).to(device),
        weight=torch.tensor([row.weight for row in rows], dtype=torch.float32, device=device),
        token_index=torch.from_numpy(token_index).to(device),
        prompt_row=torch.tensor([first.setdefault(tuple(row.prompt), i) for i, row in enumerate(rows)], device=device),
    )


def shares_prompts(model: Any) -> bool:
    """Whether `before_responses` can run the model: it has full attention by sdpa, and rotary positions only.

    A model with activation checkpointing cannot: it recomputes activations after its attention has been restored.
    """
    return (
        model.config.get_text_config()._attn_implementation == "sdpa"
        and model._supports_attention_backend
        and hasattr(model.base_model, "rotary_emb")
        and all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)
        and not any(getattr(m, "gradient_checkpointing", False) for m in model.modules())
    )


class Part(NamedTuple):
    """Rows of queries and keys, as indices [n, Q] and [n, K] into the single row that the model runs.

    `seen` [n, 1, Q, K] marks the keys of each query. `tokens` are the indices in [n Q] of the queries that are not
    padding.
    """

    queries: Tensor
    keys: Tensor
    seen: Tensor
    tokens: Tensor


def before_responses(model: Any, batch: Batch) -> Tensor:
    """The last hidden state before each token that the policy wrote: [tokens, d]."""
    width, attended = batch.mask.shape[1], batch.attention.bool()
    response = attended[:, -width:]
    is_first = batch.prompt_row == torch.arange(len(attended), device=attended.device)
    prompt = attended[is_first, :-width]

    ids, position = (
        torch.cat([x[is_first, :-width][prompt], x[:, -width:][response]])[None] for x in (batch.ids, batch.position)
    )
    # The index of each token, counted row by row: int64 [n, T], arbitrary at padding.
    prompts, responses = ((x.flatten().cumsum(0) - 1).clamp(min=0).view_as(x) for x in (prompt, response))
    responses = int(prompt.sum()) + responses
    rows = torch.cat([prompts[(is_first.cumsum(0) - 1)[batch.prompt_row]], responses], 1)
    causal = torch.ones(rows.shape[1], rows.shape[1], dtype=torch.bool, device=rows.device).tril()
    # Padding attends to itself: a softmax over nothing would be NaN.
    seen = (causal & attended[:, None] | causal.diag().diag())[:, None]
    parts = [
        Part(prompts, prompts, seen[is_first, :, :-width, :-width], prompt.flatten().nonzero()[:, 0]),
        Part(responses, rows, seen[:, :, -width:], response.flatten().nonzero()[:, 0]),
    ]
    full_attention = AttentionInterface()[model.config.get_text_config()._attn_implementation]
    with attention(model, NAME, partial(_attend, parts, full_attention)):
        hidden = hidden_states(model, input_ids=ids, position_ids=position, use_cache=False)
    return hidden[0, rows[:, -width - 1 : -1][batch.mask]]


def _attend(
    parts: Sequence[Part],
    base_attention: Callable[..., tuple[Tensor, None]],
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: None,
    **options: Any,
) -> tuple[Tensor, None]:
    """An attention function of transformers: from queries, keys and values [1, heads, N, d] to [1, N, heads, d]."""
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    results = []
    for part in parts:
        rows = (x[places].transpose(1, 2) for x, places in ((q, part.queries), (k, part.keys), (v, part.keys)))
        results.append(base_attention(module, *rows, part.seen, **options)[0].flatten(0, 1)[part.tokens])
    return torch.cat(results)[None], None
