"""How often each response comes among many samples of a prompt, at the price of the different prefixes only.

Samples are exchangeable: Pass@k, distinct solutions and the spread of answers need how often each response came, and not
in which order. So n samples at a prefix are split over the next tokens by n draws from the policy, each child prefix goes
on with its share, and every prefix is run through the model once. A trained policy repeats itself: 1,024 samples of a
Countdown problem share a few dozen prefixes a token, where the sampler of whole rows runs 1,024.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from diver.data.prompts import encode
from diver.generate.hf import end_tokens, left_padded, next_logits
from diver.types import Rollout

AT_ONCE = 16  # prompts that are begun together; what follows is bounded by `rows`


class Prefixes(NamedTuple):
    """Prefixes of one length: their cache and mask, the logits after them, whose they are, their tokens, and n."""

    cache: DynamicCache
    mask: Tensor
    logits: Tensor
    prompt: np.ndarray
    tokens: list[tuple[int, ...]]
    n: np.ndarray


class Tally(NamedTuple):
    """One response and how many of the samples are it."""

    rollout: Rollout
    times: int


@torch.no_grad()
def tally(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    count: int,
    *,
    temperature: float,
    max_tokens: int,
    rows: int,
    seed: int,
    progress: Callable[[int], Any] = lambda drawn: None,
) -> list[list[Tally]]:
    """The different responses among `count` samples of each prompt, most frequent first; their counts add up to `count`.

    Of more than `rows` prefixes, a part at a time goes on; their children are run together before. The rollouts have
    no log-probs and no entropy.
    """
    ends = end_tokens(model, tokenizer)
    rng = np.random.default_rng(seed)
    found: list[list[Tally]] = [[] for _ in prompts]
    model.eval()
    for start in range(0, len(prompts), AT_ONCE):
        waiting = [_start(model, encode(tokenizer, prompts[start : start + AT_ONCE]), count)]
        while waiting:
            now = waiting.pop()
            if len(now.n) > rows:
                waiting += _halves(now)
                continue
            parent, token, n = _children(now, temperature, rng)
            tokens = [(*now.tokens[i], int(t)) for i, t in zip(parent, token, strict=True)]
            ended = np.isin(token, ends)
            last = ended | (len(tokens[0]) >= max_tokens)
            for i in last.nonzero()[0]:
                text = tokenizer.decode(tokens[i], skip_special_tokens=True)
                rollout = Rollout(response=text, tokens=tokens[i], truncated=not ended[i])
                found[start + now.prompt[parent[i]]].append(Tally(rollout, int(n[i])))
            progress(int(n[last].sum()))
            stay = (~last).nonzero()[0]
            if len(stay):
                waiting.append(_grow(model, now, parent[stay], [tokens[i] for i in stay], n[stay]))
    return [sorted(tallies, key=lambda t: (-t.times, t.rollout.tokens)) for tallies in found]


def _start(model: Any, ids: list[list[int]], count: int) -> Prefixes:
    """The prompts themselves, padded on the left."""
    padded, mask, position = left_padded(ids, model.device)
    cache = DynamicCache(config=model.config)
    logits = next_logits(model, padded, mask, position, cache)
    return Prefixes(cache, mask, logits, np.arange(len(ids)), [()] * len(ids), np.full(len(ids), count))


def _children(now: Prefixes, temperature: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n draws of the next token after each prefix: (index of the prefix, token, how many draws), all int64 [children].

    The cumulative distributions stand end to end on one line, prefix i on (i, i + 1], so that one search serves all.
    """
    cumulative = torch.softmax(now.logits.double() / temperature, -1).cumsum(-1).cpu().numpy()
    cumulative /= cumulative[:, -1:]
    size = cumulative.shape[1]
    line = (cumulative + np.arange(len(cumulative))[:, None]).ravel()
    whose = np.repeat(np.arange(len(now.n)), now.n)
    at = np.searchsorted(line, whose + 1 - rng.random(len(whose)))
    cell, n = np.unique(np.maximum(at, whose * size), return_counts=True)  # i + 1e-17 is i: not the prefix before
    return cell // size, cell % size, n


def _grow(model: Any, now: Prefixes, parent: np.ndarray, tokens: list[tuple[int, ...]], n: np.ndarray) -> Prefixes:
    """The children that have not ended, run through the model. The parents' cache becomes theirs."""
    chosen = torch.from_numpy(parent).to(now.mask.device)
    now.cache.batch_select_indices(chosen)
    mask = torch.cat([now.mask[chosen], now.mask.new_ones(len(parent), 1)], 1)
    newest = torch.tensor([[t[-1]] for t in tokens], device=mask.device)
    logits = next_logits(model, newest, mask, mask.sum(-1, keepdim=True) - 1, now.cache)
    return Prefixes(now.cache, mask, logits, now.prompt[parent], tokens, n)


def _halves(now: Prefixes) -> list[Prefixes]:
    """The same prefixes in two parts, each with a cache of its own."""
    parts = []
    for index in np.array_split(np.arange(len(now.n)), 2):
        chosen = torch.from_numpy(index).to(now.mask.device)
        cache = copy.deepcopy(now.cache)
        cache.batch_select_indices(chosen)
        tokens = [now.tokens[i] for i in index]
        parts.append(Prefixes(cache, now.mask[chosen], now.logits[chosen], now.prompt[index], tokens, now.n[index]))
    return parts
