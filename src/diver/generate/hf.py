"""The embedded sampler: whole groups from a causal model of transformers, in this process.

Each prompt is run through the model once and its cache expanded to the group; rows that have ended leave the batch;
the cache is written into room kept ahead. The log-prob and the entropy of every sampled token are kept, so training
needs no second pass over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from diver.data.prompts import encode
from diver.generate.streams import uniform
from diver.io.seeds import stream_seed
from diver.losses.logprobs import entropy
from diver.types import DiverError, Rollout

# Rows are moved together when this share of the batch has ended: moving costs a copy of the cache.
LEAVE_SHARE = 0.25


class RoomyLayer(DynamicLayer):
    """A cache layer that doubles its room when full, where `DynamicLayer` copies itself at every token."""

    room: Any = None  # keys and values with room for more, of which the layer's own are the beginning

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        key_states = key_states.to(value_states.dtype)  # under autocast the rotation leaves them in float32
        old = self.get_seq_length()
        new = old + key_states.shape[-2]
        if self.room is None or self.room[0].shape[-2] < new:
            both: Any = ((self.keys, key_states), (self.values, value_states))
            self.room = [_room(kept, states, old, new) for kept, states in both]
        keys, values = self.room
        keys[..., old:new, :], values[..., old:new, :] = key_states, value_states
        self.keys, self.values = keys[..., :new, :], values[..., :new, :]
        return self.keys, self.values

    def batch_repeat_interleave(self, repeats: int) -> None:
        super().batch_repeat_interleave(repeats)
        self.room = None

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)
        self.room = None


def _room(kept: Tensor, states: Tensor, old: int, new: int) -> Tensor:
    shape = list(states.shape)
    shape[-2] = max(2 * old, new + 32)
    room = states.new_empty(shape)
    if old:
        room[..., :old, :] = kept
    return room


def roomy_cache(model: Any) -> DynamicCache:
    """The model's own kind of cache, with every plain layer replaced by a roomy one."""
    cache = DynamicCache(config=model.config)
    if not all(isinstance(layer, DynamicLayer) for layer in cache.layers):
        raise DiverError(
            f"model type {model.config.model_type!r}: layers without a key-value cache are not supported here"
        )
    cache.layers = [RoomyLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """The tokens that end a response: the model's own and the tokenizer's."""
    named = model.generation_config.eos_token_id if model.generation_config is not None else None
    named = named if isinstance(named, list) else [named]
    return sorted({e for e in [*named, tokenizer.eos_token_id] if e is not None})


def left_padded(prompts: Sequence[list[int]], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, attention mask and positions of prompts that end at the same column: int64 [n, P] each."""
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts], device=device)
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
    return ids, mask, (mask.cumsum(-1) - 1).clamp(min=0)


def next_logits(model: Any, ids: Tensor, mask: Tensor, position: Tensor, cache: DynamicCache) -> Tensor:
    """The logits after the last column, [n, V]; the cache takes in the columns of `ids`."""
    out = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=position,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return out.logits[:, -1]


def draw(probabilities: Tensor, numbers: np.ndarray) -> Tensor:
    """One index of each row [n, V], by inverting the cumulative distribution at its number in (0, 1]: int64 [n].

    Added up in float64: in float32, tokens of a large vocabulary that come after most of the mass would never be drawn.
    """
    wide = torch.float32 if probabilities.device.type == "mps" else torch.float64  # which Apple's GPUs have not
    cumulative = probabilities.cumsum(-1, dtype=wide)
    if not torch.isfinite(cumulative[:, -1]).all():
        raise DiverError("the policy gives no finite probabilities: it has diverged, or sample.temperature is too low")
    at = torch.from_numpy(numbers).to(cumulative)[:, None]
    # The first entry to reach it has a probability above 0, because it is above 0 itself; the last one where it is 1.
    return torch.searchsorted(cumulative, at * cumulative[:, -1:])[:, 0]


class EmbeddedSampler:
    """Samples from `model`; see `diver.generate.Sampler`. `precision` is the autocast dtype on a GPU, or None."""

    def __init__(self, model: Any, tokenizer: Any, precision: torch.dtype | None = None) -> None:
        self.model, self.tokenizer, self.precision = model, tokenizer, precision
        self.ends = torch.tensor(end_tokens(model, tokenizer), device=model.device)

    def __call__(
        self,
        prompts: Sequence[str],
        count: int,
        *,
        temperature: float,
        max_tokens: int,
        rows: int,
        seed: int,
        progress: Callable[[int], Any] = lambda drawn: None,
    ) -> list[list[Rollout]]:
        drawn: list[list[Rollout]] = [[] for _ in prompts]
        seeds = [[stream_seed(seed, i, j) for j in range(count)] for i in range(len(prompts))]
        ids = encode(self.tokenizer, prompts)
        at_once = max(1, rows // count)
        with self.inference():
            for start in range(0, len(prompts), at_once):
                part = slice(start, start + at_once)
                for done in range(0, count, rows):  # more samples than rows: the same prompts again
                    some = [own[done : done + rows] for own in seeds[part]]
                    found = self.respond(ids[part], some, [max_tokens] * len(some), temperature)
                    for i, rollouts in enumerate(found, start):
                        drawn[i] += rollouts
                    progress(sum(map(len, some)))
        return drawn

    @contextmanager
    def inference(self) -> Iterator[None]:
        """The model as `respond` needs it; one context for many passes, so that autocast casts the weights once."""
        training = self.model.training
        self.model.eval()
        with (
            torch.no_grad(),
            torch.autocast(self.model.device.type, self.precision, enabled=self.precision is not None),
        ):
            try:
                yield
            finally:
                self.model.train(training)

    def respond(
        self,
        prompts: Sequence[list[int]],
        seeds: Sequence[Sequence[int]],
        longest: Sequence[int],
        temperature: float,
    ) -> list[list[Rollout]]:
        """One pass, all rows side by side: a response of up to `longest[i]` tokens to prompt i for each of `seeds[i]`.

        A response draws its tokens by its own seed. Its companions touch it by rounding only: products of other sizes may
        be summed in other orders, and a token is another where its number falls into the gap.
        """
        device = self.model.device
        of = [i for i, own in enumerate(seeds) for _ in own]  # row -> prompt
        streams = np.array([seed for own in seeds for seed in own], np.uint64)
        logits, mask, cache = self._prefill(prompts, torch.tensor(of, device=device))
        position = mask.sum(-1, keepdim=True)
        limit = torch.tensor([longest[i] for i in of], device=device)
        row = torch.arange(len(of), device=device)  # row of the batch -> rollout
        ended = torch.zeros(len(of), dtype=torch.bool, device=device)
        steps: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        while True:
            scaled = logits.float() / temperature
            token = draw(torch.softmax(scaled, -1), uniform(streams, len(steps)))
            logprob = scaled.gather(-1, token[:, None])[:, 0] - torch.logsumexp(scaled, -1)
            live = ~ended
            steps.append((row[live], token[live], logprob[live], entropy(scaled[live])))
            ended = ended | torch.isin(token, self.ends) | (limit == len(steps))
            gone = int(ended.sum())
            if gone == len(ended):
                break
            if gone >= LEAVE_SHARE * len(ended):
                stay = (~ended).nonzero()[:, 0]
                cache.batch_select_indices(stay)
                row, token, mask, position, limit, ended = (x[stay] for x in (row, token, mask, position, limit, ended))
                streams = streams[stay.cpu().numpy()]
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
            logits = next_logits(self.model, token[:, None], mask, position, cache)
            position = position + ~ended[:, None]  # rows that wait to leave stay within the model's positions
        rollouts = iter(self._collect(len(of), steps))
        return [[next(rollouts) for _ in own] for own in seeds]

    def _prefill(self, prompts: Sequence[list[int]], of: Tensor) -> tuple[Tensor, Tensor, DynamicCache]:
        """Each prompt once through the model, padded on the left; then a row for each entry of `of`."""
        ids, mask, position = left_padded(prompts, self.model.device)
        cache = roomy_cache(self.model)
        logits = next_logits(self.model, ids, mask, position, cache)
        cache.batch_select_indices(of)
        return logits[of], mask[of], cache

    def _collect(self, n: int, steps: list[tuple[Tensor, Tensor, Tensor, Tensor]]) -> list[Rollout]:
        """Turn the tokens drawn at each step into rollouts: a stable sort by row keeps them in order of time."""
        row, token, logprob, spread = (torch.cat(column).cpu().numpy() for column in zip(*steps, strict=True))
        order = np.argsort(row, kind="stable")
        cuts = np.cumsum(np.bincount(row, minlength=n))[:-1]
        columns = [np.split(column[order], cuts) for column in (token, logprob, spread)]
        ends = set(self.ends.tolist())
        texts = self.tokenizer.batch_decode([t.tolist() for t in columns[0]], skip_special_tokens=True)
        return [
            Rollout(
                response=text,
                tokens=t.tolist(),
                logprobs=lp.astype(np.float32),
                entropy=float(h.astype(np.float64).mean()),
                truncated=int(t[-1]) not in ends,
            )
            for text, t, lp, h in zip(texts, *columns, strict=True)
        ]
