"""Decode rows together, one response per row. A row that has ended begins the next response to sample.

If contexts grow turn by turn, `Past` keeps their keys and values, and a turn runs only the tokens that are new.
"""

import copy
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from diver.core.types import DiverError
from diver.sample.base import Job
from diver.sample.policy import hidden_states, logits_of

ALIGNMENT = 16  # columns; attention kernels on a GPU prefer multiples of it
# On a CPU, the capacity grows by this many columns, or by an eighth if that is more. With a larger reserve, the rows
# lie far apart in memory and attention reads them half as fast. The eighth bounds how often a long cache is copied.
GROWTH = 32


class RowLayer(DynamicLayer):
    """Keys and values of one layer, [at least rows, heads, capacity, dim], written at the lengths of `cache`."""

    keys: Tensor
    values: Tensor

    def __init__(self, cache: "RowCache", keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.cache, self.is_initialized = cache, True
        self.keys, self.values = (x.new_empty(0, x.shape[1], 0, x.shape[3], dtype=cache.dtype) for x in (keys, values))

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        rows, columns, added = self.cache.places
        for stored, states in ((self.keys, key_states), (self.values, value_states)):
            stored[rows, :, columns] = states.transpose(1, 2)[added].to(self.cache.dtype)
        going, width = self.cache.going, self.cache.width
        return self.keys[:going, :, :width], self.values[:going, :, :width]

    def get_seq_length(self) -> int:
        return self.cache.width - 1


class RowCache(DynamicCache):
    """The key-value cache of rows that begin and end at different times.

    Row i holds the keys and values of its positions from column 0 on, without padding. So a new prompt takes the place
    of an ended row at once, and a row never has more columns than its prompt and its limit. A step writes the new
    columns of each row and reads all columns up to the longest row; a mask leaves out those beyond the end of a row.

    `lengths` int64 [rows] are the numbers of cached positions; `limit` is their maximum. The first `going` rows take
    part in a step; the rows behind them do not change.

    On a CPU the capacity grows with the longest row, up to `limit`: rows that end early need no memory for their limit.
    """

    def __init__(self, model: Any, rows: int, limit: int) -> None:
        super().__init__()
        self.config, self.limit, self.width, self.going = model.config.get_text_config(), limit, 0, rows
        # Under autocast, rotary embeddings leave keys in float32, and a `DynamicCache` stores everything in float32.
        device_type = model.device.type
        self.dtype = torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else model.dtype
        self.lengths = torch.zeros(rows, dtype=torch.int64, device=model.device)
        self.places: tuple[Any, Any, Any] = ((), (), ())  # rows and columns of a step, and what is written there
        self.layers: list[Any] = []

    def reserve(self, columns: int) -> None:
        """Make room for this many columns."""
        if columns <= self.layers[0].keys.shape[2]:
            return
        # On a GPU the full capacity is reserved at once: freed blocks of growing sizes would fragment its memory.
        in_full = self.lengths.device.type != "cpu"
        capacity = self.limit if in_full else min(self.limit, columns + max(GROWTH, columns // 8))
        rows = len(self.lengths)
        for layer, name in itertools.product(self.layers, ("keys", "values")):
            old: Tensor = getattr(layer, name)[:rows]
            new = old.new_empty(rows, old.shape[1], capacity, old.shape[3])
            new[: len(old), :, : old.shape[2]] = old
            # A column without a token has weight 0 in the attention, but 0 times uninitialised memory may be NaN.
            new[len(old) :] = 0
            new[: len(old), :, old.shape[2] :] = 0
            setattr(layer, name, new)

    def write(self, rows: Tensor, prefill: Any, prompt: Tensor, lengths: Tensor) -> None:
        """Copy prompt `prompt[i]` of a `DynamicCache`, which has `lengths[i]` positions, into row `rows[i]`."""
        if not self.layers:
            self.layers = [RowLayer(self, layer.keys, layer.values) for layer in prefill.layers]
        columns = int(lengths.max())
        self.reserve(columns)
        for row_layer, prompt_layer in zip(self.layers, prefill.layers, strict=True):
            row_layer.keys[rows, :, :columns] = prompt_layer.keys[prompt, :, :columns].to(self.dtype)
            row_layer.values[rows, :, :columns] = prompt_layer.values[prompt, :, :columns].to(self.dtype)
        self.lengths[rows] = lengths

    def keep(self, rows: Tensor, going: int) -> None:
        """Keep only `rows`, the first `going` of which take part: the new row i is the old row `rows[i]`.

        Rows that do not move are not copied.
        """
        moved = (rows != torch.arange(len(rows), device=rows.device)).nonzero()[:, 0]
        columns = int(self.lengths.max())
        for layer in self.layers:
            for states in (layer.keys, layer.values):
                states[moved, :, :columns] = states[rows[moved], :, :columns]
        self.lengths, self.going = self.lengths[rows], going

    def part(self, start: int, stop: int) -> "RowCache":
        """A cache of these rows alone, which shares the memory of this one."""
        cache = copy.copy(self)
        cache.lengths, cache.going, cache.layers = self.lengths[start:stop], stop - start, []
        for layer in self.layers:
            view = copy.copy(layer)
            view.cache, view.keys, view.values = cache, layer.keys[start:stop], layer.values[start:stop]
            cache.layers.append(view)
        return cache

    def masks(self, longest: int, new: Tensor | None = None) -> Tensor | dict[str, Tensor]:
        """The attention mask of a step that adds one column, or `new[i]` columns to row i.

        It has the form that the model's attention takes. Layers with a sliding window have a second mask. `longest` is
        the length of the longest row after the step.
        """
        multiple = ALIGNMENT if self.lengths.device.type == "cuda" else 1
        self.width = min(-(-longest // multiple) * multiple, self.limit)
        self.reserve(self.width)
        lengths = self.lengths[: self.going]
        lengths.clamp_(max=self.width - 1)  # a row that has ended may be longer than the width
        column, row = (torch.arange(n, device=lengths.device) for n in (self.width, self.going))
        last = lengths[:, None]
        self.places = row, lengths, (slice(None), 0)
        if new is not None:
            offsets = torch.arange(int(new.max()), device=lengths.device)
            last = last + offsets
            row, position = (offsets < new[:, None]).nonzero(as_tuple=True)
            self.places = row, last[row, position], (row, position)
        seen = column <= last[..., None]
        if "flash" in (self.config._attn_implementation or ""):
            return seen[:, 0]  # FlashAttention takes [rows, width]; `Decoding` never adds several columns with it
        window, layer_types = getattr(self.config, "sliding_window", None), getattr(self.config, "layer_types", None)
        masks = [seen]
        if window is not None and (not layer_types or "sliding_attention" in layer_types):
            masks.append(seen & (column > last[..., None] - window))
        full, *sliding = (torch.where(mask, 0.0, -torch.inf).to(self.dtype)[:, None] for mask in masks)
        if not sliding:
            return full
        return {"full_attention": full, "sliding_attention": sliding[0]} if layer_types else sliding[0]


def in_front(going: np.ndarray) -> np.ndarray:
    """An order of rows in which the `going` rows come first and as few rows as possible move."""
    order, count = np.arange(len(going)), int(going.sum())
    ended, moving = np.flatnonzero(~going[:count]), count + np.flatnonzero(going[count:])
    order[ended], order[moving] = moving, ended
    return order


@dataclass
class Past:
    """Keys and values between two turns, for contexts that grow turn by turn up to `limit` positions.

    Row i of the cache has the context of job `job[i]` of the last turn. With FlashAttention, which takes only one new
    position per row, nothing is cached, and each turn runs complete contexts.
    """

    limit: int
    cache: RowCache | None = None
    job: np.ndarray = field(default_factory=lambda: np.arange(0))

    @torch.inference_mode()
    def keep(self, jobs: Sequence[int]) -> None:
        """Keep only these jobs of the last turn. Job `jobs[i]` becomes job i of the next one."""
        if self.cache is None:
            return
        place = {job: i for i, job in enumerate(jobs)}
        rows = in_front(np.isin(self.job, jobs))[: len(jobs)]
        self.cache.keep(torch.as_tensor(rows, device=self.cache.lengths.device), len(jobs))
        self.job = np.array([place[job] for job in self.job[rows]], np.int64)


def check_layers(model: Any) -> None:
    """DiverError if the model caches more than keys and values, or takes its masks in an unsupported form."""
    if model.config._attn_implementation == "flex_attention":
        raise DiverError(
            "model.attention 'flex_attention': its block masks are not supported; choose sdpa, "
            "eager or flash_attention_2"
        )
    layers = DynamicCache(config=model.config).layers
    if not all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in layers):
        raise DiverError(f"model type {model.config.model_type!r}: layers without a key-value cache are not supported")
    if "chunked_attention" in (getattr(model.config.get_text_config(), "layer_types", None) or ()):
        raise DiverError(f"model type {model.config.model_type!r}: chunked attention is not supported")


# Start new responses once this fraction of rows is free: each start takes a pass of the model over prompts.
REFILL_FRACTION = 1 / 16
# Shrink the batch once this fraction of rows is free and no response is left to begin: shrinking copies rows.
COMPACT_FRACTION = 1 / 16
MAX_PREFILL_TOKENS = 1 << 15  # tokens in one pass, so that prompts need no more memory than the decoding
MAX_MASKED = 1 << 26  # elements of the mask of one pass over the new tokens of contexts


class Prefill(NamedTuple):
    """Prompts after their pass through the model: the cache, the logits after each, and the row of each prompt."""

    cache: DynamicCache
    logits: Tensor
    place: dict[int, int]


class Decoding:
    """The job and progress of each row, and the cache. The loop: `refill`, tokens by `logits`, `take`, `advance`.

    `job` is -1 for a free row; `count` is the number of sampled tokens. Tokens and their scores are stored in ring
    buffers over steps, as long as the maximum length of a response.

    With `past` each job has one row, whose keys and values stay there for the next turn.
    """

    def __init__(
        self,
        model: Any,
        ends: Collection[int],
        prompts: Sequence[list[int]],
        jobs: Sequence[Job],
        rows: int,
        past: Past | None = None,
    ) -> None:
        self.model, self.ends, self.prompts, self.jobs = model, np.array([*ends]), prompts, jobs
        self.past = past if past and "flash" not in (model.config._attn_implementation or "") else None
        longest = past.limit if past else max(len(prompts[job.prompt]) + job.limit for job in jobs)
        self.cache = RowCache(model, rows, longest)
        self.job, self.count, self.limit, self.prompt_length = (np.full(rows, x, np.int64) for x in (-1, 0, 0, 0))
        self.seeds = np.zeros(rows, np.uint64)
        longest = max(job.limit for job in jobs)
        self.tokens = np.zeros((longest, rows), np.int64)
        self.scores = torch.zeros(2, longest, rows, device=model.device)  # log-prob and entropy
        self.logits = torch.zeros(0)
        self.step = self.begun = 0
        self.prefill: Prefill | None = None
        self.results: list[Any] = [None] * len(jobs)  # (tokens, log-probs, mean entropy) of each job
        if self.past and self.past.cache:
            self._go_on(self.past.cache, self.past.job)
        elif self.past:
            self.past.cache, self.past.job = self.cache, np.arange(rows)

    def refill(self) -> bool:
        """Begin responses in free rows if enough are free; False when all responses have ended."""
        free = np.flatnonzero(self.job < 0)
        if self.begun == len(self.jobs) or len(free) < REFILL_FRACTION * len(self.job):
            return bool((self.job >= 0).any())
        end, prefill = min(len(self.jobs), self.begun + len(free)), self.prefill
        while self.begun < end:
            waiting = self.jobs[self.begun : end]
            if prefill is None or waiting[0].prompt not in prefill.place:
                prefill = self._run_prompts(list(dict.fromkeys(job.prompt for job in waiting)))
            count = next((i for i, job in enumerate(waiting) if job.prompt not in prefill.place), len(waiting))
            jobs, rows, free = waiting[:count], free[:count], free[count:]
            self._begin(rows, np.arange(self.begun, self.begun + count))
            row, source = self._on_device(rows), self._on_device([prefill.place[job.prompt] for job in jobs])
            self.cache.write(row, prefill.cache, source, self._on_device(self.prompt_length[rows]))
            if not len(self.logits):
                self.logits = prefill.logits.new_zeros(len(self.job), prefill.logits.shape[1])
            self.logits[row] = prefill.logits[source]
        # Keep the pass of a prompt that has responses left to begin, so that it is not run again.
        next_prompt = self.jobs[end].prompt if end < len(self.jobs) else -1
        if prefill is None or next_prompt not in prefill.place:
            self.prefill = None
        else:
            index = self._on_device([prefill.place[next_prompt]])
            prefill.cache.batch_select_indices(index)
            self.prefill = Prefill(prefill.cache, prefill.logits[index], {next_prompt: 0})
        return True

    def _begin(self, rows: np.ndarray, jobs: np.ndarray) -> None:
        """Assign these jobs to these rows."""
        new_jobs = [self.jobs[job] for job in jobs]
        self.job[rows], self.count[rows] = jobs, 0
        self.limit[rows], self.seeds[rows] = [job.limit for job in new_jobs], [job.seed for job in new_jobs]
        self.prompt_length[rows] = [len(self.prompts[job.prompt]) for job in new_jobs]
        self.begun += len(rows)

    def _go_on(self, cache: RowCache, jobs: np.ndarray) -> None:
        """Continue the context of job `jobs[i]` in row i: its uncached tokens are run, padded on the right."""
        self.cache = cache
        self._begin(np.arange(len(jobs)), jobs)
        cache.reserve(int(self.prompt_length.max()))
        cached = cache.lengths.tolist()
        new_tokens = [self.prompts[self.jobs[job].prompt][n:] for job, n in zip(jobs, cached, strict=True)]
        budget = min(MAX_PREFILL_TOKENS, MAX_MASKED // int(self.prompt_length.max()))
        chunk_rows, logits = max(1, budget // max(map(len, new_tokens))), []
        for start in range(0, len(jobs), chunk_rows):
            chunk = new_tokens[start : start + chunk_rows]
            chunk_cache, widest = cache.part(start, start + len(chunk)), max(map(len, chunk))
            count = self._on_device([len(ids) for ids in chunk])
            row, last = torch.arange(len(chunk), device=count.device), chunk_cache.lengths + count - 1
            positions = chunk_cache.lengths[:, None] + torch.arange(widest, device=count.device)
            hidden = hidden_states(
                self.model,
                input_ids=self._on_device([ids + [0] * (widest - len(ids)) for ids in chunk]),
                attention_mask=chunk_cache.masks(int(last.max()) + 1, new=count),
                position_ids=positions.minimum(last[:, None]),  # padding: the model may have no position beyond
                past_key_values=chunk_cache,
                use_cache=True,
            )
            chunk_cache.lengths += count  # a view: changes those of `cache` too
            logits.append(logits_of(self.model, hidden[row, count - 1]))
        self.logits = torch.cat(logits)

    def _run_prompts(self, prompts: list[int]) -> Prefill:
        """Run as many of these prompts as fit in a pass, padded on the right. Causal attention ignores the padding."""
        widest = max(len(self.prompts[p]) for p in prompts)
        prompts = prompts[: max(1, MAX_PREFILL_TOKENS // widest)]
        ids = [self.prompts[p] + [0] * (widest - len(self.prompts[p])) for p in prompts]
        cache = DynamicCache()
        hidden = hidden_states(self.model, input_ids=self._on_device(ids), past_key_values=cache, use_cache=True)
        last = self._on_device([len(self.prompts[p]) - 1 for p in prompts])
        logits = logits_of(self.model, hidden[torch.arange(len(prompts), device=last.device), last])
        return Prefill(cache, logits, {p: i for i, p in enumerate(prompts)})

    def take(self, token: Tensor, logprob: Tensor, entropy: Tensor) -> None:
        """Record one token of each row; a row that ends with it becomes free. Each argument has shape [rows]."""
        slots = len(self.tokens)
        sampled = token.cpu().numpy()
        self.tokens[self.step % slots] = sampled
        self.scores[:, self.step % slots] = torch.stack((logprob, entropy))
        self.step += 1
        self.count += 1
        ended = np.flatnonzero((self.job >= 0) & (np.isin(sampled, self.ends) | (self.count == self.limit)))
        if not len(ended):
            return
        scores = self.scores[:, :, self._on_device(ended)].cpu().numpy()
        for i, row in enumerate(ended):
            steps = np.arange(self.step - self.count[row], self.step) % slots
            logprobs, entropies = scores[:, steps, i]
            self.results[self.job[row]] = self.tokens[steps, row].tolist(), logprobs, float(entropies.mean(dtype=float))
        self.job[ended] = -1

    def advance(self, token: Tensor) -> None:
        """Run the rows that have not ended through the model: `logits` are those after `token`."""
        going = np.flatnonzero(self.job >= 0)
        if not len(going):
            return
        if self.begun == len(self.jobs) and len(going) <= (1 - COMPACT_FRACTION) * len(self.job):
            # Continue only the rows that have not ended: the last of them move to the places of ended rows.
            order = in_front(self.job >= 0)
            rows = order[: len(going)]
            index, going = self._on_device(rows), np.arange(len(going))
            for name in ("job", "count", "limit", "prompt_length", "seeds"):
                setattr(self, name, getattr(self, name)[rows])
            self.tokens, self.scores, token = self.tokens[:, rows], self.scores[:, :, index], token[index]
            if self.past:  # the rows behind stay for the next turn
                order = np.append(order, np.arange(len(order), len(self.past.job)))
                self.past.job = self.past.job[order]
                index = self._on_device(order)
            self.cache.keep(index, len(rows))
        longest = int((self.prompt_length + self.count)[going].max())
        if self.past:  # a smaller width would cut the contexts of ended rows, which the next turn needs
            longest = max(longest, int(self.cache.lengths[: self.cache.going].max()) + 1)
        attention = self.cache.masks(longest)
        hidden = hidden_states(
            self.model,
            input_ids=token[:, None],
            attention_mask=attention,
            position_ids=self.cache.lengths[: self.cache.going, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        self.logits = logits_of(self.model, hidden[:, -1])
        self.cache.lengths[self._on_device(going)] += 1

    def _on_device(self, values: Any) -> Tensor:
        return torch.as_tensor(np.asarray(values), device=self.model.device)
