"""Rows that are decoded together, each with a response of its own; ended rows are given the next response to sample."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from diver.sample.cache import RowCache
from diver.sample.policy import hidden_states, logits_of

# Start new responses once this fraction of rows is free: their prompts take a pass of the model.
REFILL_FRACTION = 1 / 16
# Shrink the batch once this fraction of rows is free and no response is left to begin: the last rows move.
COMPACT_FRACTION = 1 / 16
MAX_PREFILL_TOKENS = 1 << 15  # in one pass, so that prompts need no more memory than the decoding


class Job(NamedTuple):
    """A response to sample: the index of its prompt, its random stream, and its limit in tokens."""

    prompt: int
    seed: int
    limit: int


class Prefill(NamedTuple):
    """Prompts after their pass through the model: their cache, the logits after each, and the place of each prompt."""

    cache: DynamicCache
    logits: Tensor
    place: dict[int, int]


class Decoding:
    """Which job each row has, how far it is, and the cache. The loop: `refill`, tokens by `logits`, `take`, `advance`.

    `job` is -1 where a row is free; `count` are the tokens sampled. Tokens and their scores are kept in rings over
    steps, which are as long as the longest response may be.
    """

    def __init__(
        self, model: Any, ends: Collection[int], prompts: Sequence[list[int]], jobs: Sequence[Job], rows: int
    ) -> None:
        self.model, self.ends, self.prompts, self.jobs = model, np.array([*ends]), prompts, jobs
        self.cache = RowCache(model, rows, max(len(prompts[job.prompt]) + job.limit for job in jobs))
        self.job, self.count, self.limit, self.prompt_length = (np.full(rows, x, np.int64) for x in (-1, 0, 0, 0))
        self.seeds = np.zeros(rows, np.uint64)
        longest = max(job.limit for job in jobs)
        self.tokens = np.zeros((longest, rows), np.int64)
        self.scores = torch.zeros(2, longest, rows, device=model.device)  # log-prob and entropy
        self.logits = torch.zeros(0)
        self.step = self.begun = 0
        self.prefill: Prefill | None = None
        self.results: list[Any] = [None] * len(jobs)  # (tokens, log-probs, mean entropy) of each job

    def refill(self) -> bool:
        """Begin responses in free rows if enough are free; False when there is nothing left to do."""
        free = np.flatnonzero(self.job < 0)
        if self.begun == len(self.jobs) or len(free) < REFILL_FRACTION * len(self.job):
            return bool((self.job >= 0).any())
        end, prefill = min(len(self.jobs), self.begun + len(free)), self.prefill
        while self.begun < end:
            coming = self.jobs[self.begun : end]
            if prefill is None or coming[0].prompt not in prefill.place:
                prefill = self._run_prompts(list(dict.fromkeys(job.prompt for job in coming)))
            n = next((i for i, job in enumerate(coming) if job.prompt not in prefill.place), len(coming))
            jobs, rows, free = coming[:n], free[:n], free[n:]
            self.job[rows], self.count[rows] = np.arange(self.begun, self.begun + n), 0
            self.limit[rows], self.seeds[rows] = [job.limit for job in jobs], [job.seed for job in jobs]
            self.prompt_length[rows] = [len(self.prompts[job.prompt]) for job in jobs]
            row, source = self._on_device(rows), self._on_device([prefill.place[job.prompt] for job in jobs])
            self.cache.write(row, prefill.cache, source, self._on_device(self.prompt_length[rows]))
            if not len(self.logits):
                self.logits = prefill.logits.new_zeros(len(self.job), prefill.logits.shape[1])
            self.logits[row] = prefill.logits[source]
            self.begun += n
        # If some responses to the last prompt have not begun, its pass serves them too.
        last = self.jobs[end].prompt if end < len(self.jobs) else -1
        if prefill is None or last not in prefill.place:
            self.prefill = None
        elif len(prefill.place) == 1:
            self.prefill = prefill
        else:
            index = self._on_device([prefill.place[last]])
            prefill.cache.batch_select_indices(index)
            self.prefill = Prefill(prefill.cache, prefill.logits[index], {last: 0})
        return True

    def _run_prompts(self, prompts: list[int]) -> Prefill:
        """As many of these as one pass takes, padded on the right: by causality, padding changes nothing before it."""
        widest = max(len(self.prompts[p]) for p in prompts)
        prompts = prompts[: max(1, MAX_PREFILL_TOKENS // widest)]
        ids = [self.prompts[p] + [0] * (widest - len(self.prompts[p])) for p in prompts]
        cache = DynamicCache()
        hidden = hidden_states(self.model, input_ids=self._on_device(ids), past_key_values=cache, use_cache=True)
        last = self._on_device([len(self.prompts[p]) - 1 for p in prompts])
        logits = logits_of(self.model, hidden[torch.arange(len(prompts), device=last.device), last])
        return Prefill(cache, logits, {p: i for i, p in enumerate(prompts)})

    def take(self, token: Tensor, logprob: Tensor, entropy: Tensor) -> None:
        """Record one token of each row; a row that ends with it becomes free. Each argument has the shape [rows]."""
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
            # Only these rows remain, the last of them in the places of those that ended.
            rows = np.arange(len(going))
            rows[np.setdiff1d(rows, going)] = going[going >= len(going)]
            index, going = self._on_device(rows), np.arange(len(going))
            for name in ("job", "count", "limit", "prompt_length", "seeds"):
                setattr(self, name, getattr(self, name)[rows])
            self.tokens, self.scores, token = self.tokens[:, rows], self.scores[:, :, index], token[index]
            self.cache.keep(index)
        attention = self.cache.masks(int((self.prompt_length + self.count)[going].max()))
        hidden = hidden_states(
            self.model,
            input_ids=token[:, None],
            attention_mask=attention,
            position_ids=self.cache.lengths[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        self.logits = logits_of(self.model, hidden[:, -1])
        self.cache.lengths[self._on_device(going)] += 1

    def _on_device(self, values: Any) -> Tensor:
        return torch.as_tensor(np.asarray(values), device=self.model.device)
