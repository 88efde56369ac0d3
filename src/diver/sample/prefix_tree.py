"""Count the distinct responses among many samples of a prompt, at the cost of the distinct prefixes only.

Samples are exchangeable: Pass@k, distinct solutions and the distribution of answers depend on how often each response
came, not on the order. So n samples at a prefix are split over the next tokens by n draws from the policy. Each child
prefix continues with its count, and every prefix is run through the model once. A trained policy repeats itself: 1,024
samples of a Countdown problem share a few dozen prefixes a token, where `HFGenerator` runs 1,024 rows.
"""

import copy
import sys
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from diver.core.seeds import stream_seed
from diver.core.types import Rollout
from diver.sample.base import Generation, Key, Request, SamplingParams, prompts_that_fit
from diver.sample.hf import end_tokens
from diver.sample.policy import Policy, positions
from diver.sample.prompt_cache import Prompts, attending

MAX_PROMPTS = 16  # prompts begun together; `max_prefixes` bounds their continuations


class Prefixes(NamedTuple):
    """Prefixes of one length, sorted by prompt: their cache, the logits after them, and their sample counts `n`."""

    cache: DynamicCache
    logits: Tensor
    prompt: np.ndarray
    tokens: np.ndarray
    """int64 [prefixes, length]."""
    n: np.ndarray


class PrefixTreeGenerator:
    """See `diver.sample.base.Generator`; a generation stands for `count` samples, the most frequent response first.

    MAX_PROMPTS prompts share a random stream, keyed by `seed`, the `name` of the model, and their place. The seeds of
    the requests are not used, so the samples of two models are independent. The rollouts have no log-probs and no
    entropy. If any sample of these prompts is not in `have`, all are drawn again, and those not in `have` are yielded.
    So a resumed call equals an uninterrupted one. Other requests lead to other samples.
    """

    def __init__(self, policy: Policy, name: str = "", *, seed: int, max_prefixes: int = 2048) -> None:
        self.policy, self.tokenizer, self.context = policy, policy.tokenizer, positions(policy.model.config)
        self.name, self.seed, self.max_prefixes = name, seed, max_prefixes

    def generate(
        self, requests: Sequence[Request], params: SamplingParams, have: Container[Key] = ()
    ) -> Iterator[Generation]:
        tokens = prompts_that_fit({r.problem_id: r.prompt for r in requests}, self)
        samples = Counter(request.problem_id for request in requests)
        for start in range(0, len(tokens), MAX_PROMPTS):
            names = [*tokens][start : start + MAX_PROMPTS]
            if all((name, sample) in have for name in names for sample in range(samples[name])):
                continue
            rng = np.random.default_rng(stream_seed(self.seed, "tree", self.name, start))
            prompts, counts = [tokens[name] for name in names], [samples[name] for name in names]
            results = sample_counts(self.policy, prompts, counts, params, self.max_prefixes, rng)
            for name, responses in zip(names, results, strict=True):
                sample = 0
                for rollout, count in responses:
                    # A machine that rounds differently gives other counts, so some samples of a response may be stored.
                    if missing := [i for i in range(sample, sample + count) if (name, i) not in have]:
                        yield Generation(name, missing[0], rollout.replace(index=missing[0]), len(missing))
                    sample += count


@torch.no_grad()
def sample_counts(
    policy: Policy,
    prompts: Sequence[list[int]],
    counts: Sequence[int],
    params: SamplingParams,
    max_prefixes: int,
    rng: np.random.Generator,
) -> list[list[tuple[Rollout, int]]]:
    """The distinct responses among `counts[i]` samples of prompt i, most frequent first, each with its count.

    More than `max_prefixes` prefixes are halved. One half continues to its end before the other half is run.
    """
    model, tokenizer = policy.model, policy.tokenizer
    ends = end_tokens(model, tokenizer, params.stop_token_ids)
    room = positions(model.config) or sys.maxsize
    limits = np.array([min(params.max_tokens, room - len(prompt)) for prompt in prompts])
    results: list[list[tuple[Rollout, int]]] = [[] for _ in prompts]
    model.eval()
    shared, root = _start(model, prompts, counts)
    waiting = [root]
    with attending(model):
        while waiting:
            prefixes = waiting.pop()
            if len(prefixes.n) > max_prefixes:
                waiting += _halves(prefixes)
                continue
            parent, token, n = _children(prefixes, params.temperature, rng)
            prompt, tokens = prefixes.prompt[parent], np.column_stack([prefixes.tokens[parent], token])
            ended = np.isin(token, ends)
            complete = ended | (tokens.shape[1] >= limits[prompt])
            for i in complete.nonzero()[0]:
                ids = tuple(tokens[i].tolist())
                text = tokenizer.decode(ids, skip_special_tokens=True)
                rollout = Rollout(response=text, tokens=ids, truncated=not ended[i])
                results[prompt[i]].append((rollout, int(n[i])))
            incomplete = (~complete).nonzero()[0]
            if len(incomplete):
                prefixes.cache.batch_select_indices(torch.from_numpy(parent[incomplete]).to(model.device))
                logits = _next_logits(model, shared, prefixes.cache, prompt[incomplete], tokens[incomplete])
                waiting.append(Prefixes(prefixes.cache, logits, prompt[incomplete], tokens[incomplete], n[incomplete]))
    return [sorted(responses, key=lambda r: (-r[1], r[0].tokens)) for responses in results]


def _start(model: Any, prompts: Sequence[list[int]], counts: Sequence[int]) -> tuple[Prompts, Prefixes]:
    """Run the prompts together, padded on the left: their keys and values, and the empty prefix of each."""
    lengths, device = [*map(len, prompts)], model.device
    ids = torch.tensor([[0] * (max(lengths) - len(p)) + p for p in prompts], device=device)
    mask = torch.tensor([[0] * (max(lengths) - n) + [1] * n for n in lengths], device=device)
    cache: Any = DynamicCache(config=model.config)
    position = (mask.cumsum(-1) - 1).clamp(min=0)
    batch = {"input_ids": ids, "attention_mask": mask, "position_ids": position, "past_key_values": cache}
    logits = model(**batch, use_cache=True, logits_to_keep=1).logits[:, -1]
    prompt, no_tokens = np.arange(len(prompts)), np.empty((len(prompts), 0), np.int64)
    layers = [
        [(keys[:, -n:], values[:, -n:]) for n, keys, values in zip(lengths, layer.keys, layer.values, strict=True)]
        for layer in cache.layers
    ]
    root = Prefixes(DynamicCache(config=model.config), logits, prompt, no_tokens, np.array(counts))
    return Prompts(layers, lengths), root


def _next_logits(model: Any, prompts: Prompts, cache: DynamicCache, prompt: np.ndarray, tokens: np.ndarray) -> Tensor:
    """The logits after the last token of each prefix, [prefixes, V]. The token enters the cache."""
    length = tokens.shape[1]
    position = torch.tensor(np.array(prompts.lengths)[prompt] + length - 1, device=model.device)[:, None]
    return model(
        input_ids=torch.tensor(tokens[:, -1:], device=model.device),
        position_ids=position,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
        prompts=prompts,
        rows=np.bincount(prompt, minlength=len(prompts.lengths)).tolist(),
    ).logits[:, -1]


def _children(now: Prefixes, temperature: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n draws of the next token after each prefix: (index of the prefix, token, number of draws), all int64 [children].

    At temperature 0 the most likely token is drawn each time. The cumulative distributions are laid end to end on one
    line, prefix i on (i, i + 1], so that a single search serves all prefixes.
    """
    logits = now.logits.double()
    most_likely = torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[1]).double()
    probabilities = torch.softmax(logits / temperature, -1) if temperature else most_likely
    cumulative = probabilities.cumsum(-1).cpu().numpy()
    cumulative /= cumulative[:, -1:]
    size = cumulative.shape[1]
    line = (cumulative + np.arange(len(cumulative))[:, None]).ravel()
    prefix = np.repeat(np.arange(len(now.n)), now.n)
    cell = np.searchsorted(line, prefix + 1 - rng.random(len(prefix)))
    # A draw may round to i, the end of prefix i - 1.
    cell, n = np.unique(np.maximum(cell, prefix * size), return_counts=True)
    return cell // size, cell % size, n


def _halves(now: Prefixes) -> list[Prefixes]:
    """The prefixes in two halves, each with its rows of the cache."""
    halves = []
    for half in np.array_split(np.arange(len(now.n)), 2):
        cache = copy.copy(now.cache)
        cache.layers = [copy.copy(layer) for layer in now.cache.layers]
        selected = torch.from_numpy(half).to(now.logits.device)
        cache.batch_select_indices(selected)
        halves.append(Prefixes(cache, now.logits[selected], now.prompt[half], now.tokens[half], now.n[half]))
    return halves
