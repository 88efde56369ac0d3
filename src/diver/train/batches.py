"""From mini-batches of whole groups to padded micro-batches under a token budget."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from diver.core.types import Group


class Row(NamedTuple):
    """The inputs of the loss of one rollout, its advantages [T] or one for all tokens.

    `start` is the index of its first token among all tokens of the mini-batch.
    """

    prompt: Sequence[int]
    tokens: Sequence[int]
    old_logprobs: np.ndarray
    advantages: np.ndarray | float
    weight: float
    start: int = 0

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.tokens)


class Batch(NamedTuple):
    """A padded micro-batch: prompts end and responses begin at the same column, [n, P + R] and [n, R].

    `token_index` [n, R] is the index of each token among all tokens of the mini-batch; 0 at padding. `advantages` are
    [n, 1], or [n, R] where a row has one for each token. `prompt_row` [n] is the first row that has the same prompt.
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
        rows.append(Row(prompt, r.tokens, r.logprobs, advantages, weight, start))  # type: ignore[arg-type]
        start += r.length
    return rows


def micro_batches(rows: Sequence[Row], budget: int, *, shared: bool = False) -> list[list[Row]]:
    """Split rows into batches of at most `budget` tokens, padding included; a longer row is a batch of its own.

    Where prompts are `shared`, one counts once in a batch. Longest rows first, so that rows of similar length share a
    batch and a lack of memory shows at the first batch.
    """
    batches: list[list[Row]] = []
    prompts: set[tuple[int, ...]] = set()  # distinct prompts of the last batch
    longest = [0, 0]  # tokens of its longest prompt and response
    for row in sorted(rows, key=lambda r: r.length, reverse=True):
        count = len(batches[-1]) + 1 if batches else 1
        prompts.add(tuple(row.prompt))
        longest = [max(longest[0], len(row.prompt)), max(longest[1], len(row.tokens))]
        if not batches or (len(prompts) if shared else count) * longest[0] + count * longest[1] > budget:
            batches.append([])
            prompts, longest = {tuple(row.prompt)}, [len(row.prompt), len(row.tokens)]
        batches[-1].append(row)
    return batches


def collate(rows: Sequence[Row], pad: int, device: torch.device) -> Batch:
    """Prompts padded on the left, responses on the right."""
    p, r = max(len(row.prompt) for row in rows), max(1, *(len(row.tokens) for row in rows))
    ids = np.full((len(rows), p + r), pad, dtype=np.int64)
    attention = np.zeros((len(rows), p + r), dtype=np.int64)
    old_logprobs = np.zeros((len(rows), r), dtype=np.float32)
    token_index = np.zeros((len(rows), r), dtype=np.int64)
    first: dict[tuple[int, ...], int] = {}
    for i, row in enumerate(rows):
        start, length = p - len(row.prompt), len(row.tokens)
        ids[i, start : p + length] = [*row.prompt, *row.tokens]
        attention[i, start : p + length] = 1
        old_logprobs[i, :length] = row.old_logprobs
        token_index[i, :length] = row.start + np.arange(length)
    advantages = np.zeros((len(rows), r if any(np.ndim(row.advantages) for row in rows) else 1), dtype=np.float32)
    for i, row in enumerate(rows):
        advantages[i, : len(row.tokens)] = row.advantages
    column, attended = torch.from_numpy(ids).to(device), torch.from_numpy(attention).to(device)
    return Batch(
        ids=column,
        attention=attended,
        position=(attended.cumsum(-1) - 1).clamp(min=0),
        tokens=column[:, p:],
        mask=attended[:, p:].bool(),
        old_logprobs=torch.from_numpy(old_logprobs).to(device),
        advantages=torch.from_numpy(advantages).to(device),
        weight=torch.tensor([row.weight for row in rows], dtype=torch.float32, device=device),
        token_index=torch.from_numpy(token_index).to(device),
        prompt_row=torch.tensor([first.setdefault(tuple(row.prompt), i) for i, row in enumerate(rows)], device=device),
    )
