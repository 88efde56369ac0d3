"""Responses from a causal model of transformers, in this process: evaluation and training sample by it.

Each prompt is run through the model once and its cache expanded to the samples; rows that have ended leave the batch;
the cache is written into memory allocated ahead. The log-prob and the entropy of every sampled token are kept, so
training needs no second pass over them.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from diver.generate.base import Generation, Key, Request, prompts_that_fit
from diver.generate.policy import Policy
from diver.generate.streams import uniform
from diver.losses.logprobs import entropy
from diver.types import DiverError, Rollout

# Ended rows are removed when they are this fraction of the batch: removing them copies the cache.
COMPACT_FRACTION = 0.25
BLOCK = 64  # samples of a problem in one pass of an evaluation
MAX_PROMPTS = 64  # in one pass, so that the prefill needs no more memory than the decoding
MAX_NUM_SEQS = 512  # throughput hardly grows beyond
MIN_NUM_SEQS = 64
MAX_TOKENS_IN_FLIGHT = {"cpu": 1 << 16, "cuda": 1 << 19}  # of long responses: their cache must fit, a kill loses a pass


class PreallocatedCacheLayer(DynamicLayer):
    """A cache layer that doubles its capacity when full, where `DynamicLayer` copies itself at every token."""

    buffers: Any = None  # keys and values with spare capacity, of which the layer's own are the beginning

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        key_states = key_states.to(value_states.dtype)  # under autocast the rotation leaves them in float32
        old_length = self.get_seq_length()
        new_length = old_length + key_states.shape[-2]
        if self.buffers is None or self.buffers[0].shape[-2] < new_length:
            capacity = max(2 * old_length, new_length + 32)
            self.buffers = [s.new_empty((*s.shape[:-2], capacity, s.shape[-1])) for s in (key_states, value_states)]
            if old_length:
                for buffer, cached in zip(self.buffers, (self.keys, self.values), strict=True):
                    buffer[..., :old_length, :] = cached
        keys, values = self.buffers
        keys[..., old_length:new_length, :], values[..., old_length:new_length, :] = key_states, value_states
        self.keys, self.values = keys[..., :new_length, :], values[..., :new_length, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        super().batch_select_indices(indices)
        self.buffers = None


def preallocated_cache(model: Any) -> DynamicCache:
    """The model's own kind of cache, with every plain layer replaced by a `PreallocatedCacheLayer`."""
    cache = DynamicCache(config=model.config)
    if not all(isinstance(layer, DynamicLayer) for layer in cache.layers):
        raise DiverError(
            f"model type {model.config.model_type!r}: layers without a key-value cache are not supported here"
        )
    cache.layers = [PreallocatedCacheLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
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
    batch = {"input_ids": ids, "attention_mask": mask, "position_ids": position}
    return model(**batch, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[:, -1]


def draw(probabilities: Tensor, numbers: np.ndarray) -> Tensor:
    """One index of each row [n, V], by inverting the cumulative distribution at its number in (0, 1]: int64 [n].

    Added up in float64: in float32, tokens of a large vocabulary that come after most of the mass would never be drawn.
    """
    wide = torch.float32 if probabilities.device.type == "mps" else torch.float64  # which Apple's GPUs lack
    cumulative = probabilities.cumsum(-1, dtype=wide)
    if not torch.isfinite(cumulative[:, -1]).all():
        raise DiverError("the policy gives no finite probabilities: it has diverged, or sample.temperature is too low")
    target = torch.from_numpy(numbers).to(cumulative)[:, None]
    # The first entry to reach it has a probability above 0, because it is above 0 itself; the last one where it is 1.
    return torch.searchsorted(cumulative, target * cumulative[:, -1:])[:, 0]


def passes(requests: Iterable[Request], max_num_seqs: int) -> Iterator[list[list[Request]]]:
    """Requests in their order, as they go through a model together: up to `max_num_seqs` in blocks of one problem.

    Consecutive requests of a problem are a block, whose prompt a pass computes once; a block that fits into one pass is
    not split.
    """
    blocks: list[list[Request]] = []
    for request in requests:
        last = blocks[-1][-1] if blocks else None
        same = last is not None and request.problem_id == last.problem_id and request.sample > last.sample
        if same and len(blocks[-1]) < max_num_seqs:
            blocks[-1].append(request)
        else:
            blocks.append([request])
    batch: list[list[Request]] = []
    for block in blocks:
        if batch and (len(batch) == MAX_PROMPTS or sum(map(len, batch)) + len(block) > max_num_seqs):
            yield batch
            batch = []
        batch.append(block)
    if batch:
        yield batch


class HFGenerator:
    """See `diver.generate.base.Generator`; generations come a pass at a time.

    Each response has a stream of its own; the others in its pass affect it by rounding alone (see `respond`). Passes are
    cut from all requests, those in `have` included, and run whole, so an evaluation that was killed and resumed is equal
    to an uninterrupted one to the last bit. `max_num_seqs` bounds the responses in a pass; 0 chooses up to 512, fewer
    where responses may be long. `context` is the model's number of positions, None if unknown.
    """

    def __init__(self, policy: Policy, name: str = "", max_num_seqs: int = 0) -> None:
        if max_num_seqs < 0:
            raise ValueError(f"max_num_seqs is {max_num_seqs}; it must be at least 1, or 0 for automatic")
        self.name, self.max_num_seqs, self.context = name, max_num_seqs, policy.context
        self.model, self.tokenizer, self.precision = policy
        self.ends = torch.tensor(end_tokens(self.model, self.tokenizer), device=self.model.device)

    def generate(
        self,
        requests: Sequence[Request],
        *,
        temperature: float,
        max_tokens: int,
        have: Container[Key] = (),
        in_order: bool = False,
    ) -> Iterator[Generation]:
        """Unless `in_order`, the first samples of all problems come first, so that more samples later are further
        passes, and among them prompts of similar length share a pass."""
        tokens = prompts_that_fit(requests, self)
        in_flight = MAX_TOKENS_IN_FLIGHT.get(self.model.device.type, 1 << 19)
        rows = self.max_num_seqs or min(MAX_NUM_SEQS, max(MIN_NUM_SEQS, in_flight // max_tokens))
        if not in_order:
            order = {name: (len(ids), i) for i, (name, ids) in enumerate(tokens.items())}
            requests = sorted(requests, key=lambda r: (r.sample // min(BLOCK, rows), order[r.problem_id]))
        for blocks in passes(requests, rows):
            batch = [request for block in blocks for request in block]
            if all(request.key in have for request in batch):
                continue
            prompts = [tokens[block[0].problem_id] for block in blocks]
            seeds = [[request.seed for request in block] for block in blocks]
            limits = [min(max_tokens, (self.context or sys.maxsize) - len(prompt)) for prompt in prompts]
            with self.inference():
                groups = self.respond(prompts, seeds, limits, temperature)
            for request, rollout in zip(batch, chain.from_iterable(groups), strict=True):
                if request.key not in have:
                    yield Generation(*request.key, rollout.replace(index=request.sample))

    @contextmanager
    def inference(self) -> Iterator[None]:
        """The model in the state in which `respond` needs it."""
        training = self.model.training
        self.model.eval()
        autocast = torch.autocast(self.model.device.type, self.precision, enabled=self.precision is not None)
        with torch.no_grad(), autocast:
            try:
                yield
            finally:
                self.model.train(training)

    def respond(
        self, prompts: Sequence[list[int]], seeds: Sequence[Sequence[int]], limits: Sequence[int], temperature: float
    ) -> list[list[Rollout]]:
        """One pass, all rows in one batch: a response of up to `limits[i]` tokens to prompt i for each of `seeds[i]`.

        A response draws its tokens by its own seed. The others in the batch affect it by rounding only: products of
        other sizes may be summed in other orders, and a token differs where its random number falls into the gap.
        """
        device = self.model.device
        prompt_of = [i for i, own in enumerate(seeds) for _ in own]  # row -> prompt
        streams = np.array([seed for own in seeds for seed in own], np.uint64)
        logits, mask, cache = self._prefill(prompts, torch.tensor(prompt_of, device=device))
        position = mask.sum(-1, keepdim=True)
        limit = torch.tensor([limits[i] for i in prompt_of], device=device)
        row = torch.arange(len(prompt_of), device=device)  # row of the batch -> rollout
        ended = torch.zeros(len(prompt_of), dtype=torch.bool, device=device)
        steps: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        while True:
            scaled = logits.float() / temperature
            token = draw(torch.softmax(scaled, -1), uniform(streams, len(steps)))
            logprob = scaled.gather(-1, token[:, None])[:, 0] - torch.logsumexp(scaled, -1)
            live = ~ended
            steps.append((row[live], token[live], logprob[live], entropy(scaled[live])))
            ended = ended | torch.isin(token, self.ends) | (limit == len(steps))
            num_ended = int(ended.sum())
            if num_ended == len(ended):
                break
            if num_ended >= COMPACT_FRACTION * len(ended):
                stay = (~ended).nonzero()[:, 0]
                cache.batch_select_indices(stay)
                row, token, mask, position, limit, ended = (x[stay] for x in (row, token, mask, position, limit, ended))
                streams = streams[stay.cpu().numpy()]
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
            logits = next_logits(self.model, token[:, None], mask, position, cache)
            position = position + ~ended[:, None]  # ended rows stay within the model's positions
        rollouts = iter(self._collect(len(prompt_of), steps))
        return [[next(rollouts) for _ in own] for own in seeds]

    def _prefill(self, prompts: Sequence[list[int]], prompt_of: Tensor) -> tuple[Tensor, Tensor, DynamicCache]:
        """Each prompt once through the model, padded on the left; then a row for each entry of `prompt_of`."""
        ids, mask, position = left_padded(prompts, self.model.device)
        cache = preallocated_cache(self.model)
        logits = next_logits(self.model, ids, mask, position, cache)
        cache.batch_select_indices(prompt_of)
        return logits[prompt_of], mask[prompt_of], cache

    def _collect(self, n: int, steps: list[tuple[Tensor, Tensor, Tensor, Tensor]]) -> list[Rollout]:
        """Turn the tokens sampled at each step into rollouts: a stable sort by row keeps them in order of time."""
        row, token, logprob, entropies = (torch.cat(column).cpu().numpy() for column in zip(*steps, strict=True))
        order = np.argsort(row, kind="stable")
        cuts = np.cumsum(np.bincount(row, minlength=n))[:-1]
        columns = [np.split(column[order], cuts) for column in (token, logprob, entropies)]
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
