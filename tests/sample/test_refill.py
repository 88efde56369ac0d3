"""Rows are given new responses as they end: how many steps that takes, what memory,
and which models it is right for."""

import heapq

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Cohere2Config,
    Gemma2Config,
    GPT2Config,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
)

from diver.sample import decoding
from diver.sample.decoding import Decoding, Job, Past, RowCache
from diver.sample.hf import HFGenerator
from diver.sample.policy import Policy, hidden_states

SIZES = {
    "vocab_size": 13, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 4, "max_position_embeddings": 64, "bos_token_id": None, "eos_token_id": None,
    "pad_token_id": None, "initializer_range": 0.4,
}  # fmt: skip


class Tokenizer:
    eos_token_id = None

    def batch_decode(self, ids, **_):
        return [" ".join(map(str, row)) for row in ids]


def generator(config, **kwargs):
    torch.manual_seed(0)
    return HFGenerator(Policy(AutoModelForCausalLM.from_config(config, **kwargs).eval(), Tokenizer(), None))


def ideal_steps(lengths, rows):
    """Each response begins as soon as a row is free: the step at which the last one ends."""
    free_at = [0] * rows
    for length in lengths:
        heapq.heappushpop(free_at, free_at[0] + length)
    return max(free_at)


def test_steps_and_memory_of_responses_of_log_normal_length(monkeypatch):
    """A mean of a quarter of the limit, as responses of reasoning models have; waves take 3 times the ideal."""
    limit, rows = 96, 32
    lengths = np.random.default_rng(0).lognormal(np.log(limit / 4) - 0.4, 1.0, 16 * rows).clip(1, limit).astype(int)
    assert abs(lengths.mean() / (limit / 4) - 1) < 0.1 and lengths.max() == limit
    prompts = [[1 + i % 12] * (3 + i % 10) for i in range(96)]
    jobs = [Job(i // 8, i, int(length)) for i, length in enumerate(lengths)]
    batches, cells = [], []
    monkeypatch.setattr(
        Decoding, "advance", lambda self, token, f=Decoding.advance: (batches.append(self), f(self, token))
    )
    reserve = RowCache.reserve
    monkeypatch.setattr(
        RowCache, "reserve", lambda self, n: (reserve(self, n), cells.append(self.layers[0].keys.shape[::2]))
    )
    sampler = generator(LlamaConfig(**{**SIZES, "num_hidden_layers": 1, "max_position_embeddings": 256}))
    responses = sampler.respond(prompts, jobs, 1.0, rows)
    assert [r.length for r in responses] == lengths.tolist() and all(r.truncated for r in responses)
    assert len(batches) <= 1.15 * ideal_steps(lengths, rows)
    waves = sum(max(lengths[start : start + rows]) for start in range(0, len(lengths), rows))
    assert waves > 2.5 * ideal_steps(lengths, rows)
    assert max(n for n, _ in cells) == rows and max(columns for _, columns in cells) <= 12 + limit


MODELS = {
    "llama": LlamaConfig(**SIZES),
    "all sliding": MistralConfig(**SIZES, sliding_window=5),
    "some sliding": Qwen2Config(**SIZES, use_sliding_window=True, sliding_window=5, max_window_layers=1),
    "soft cap": Gemma2Config(**SIZES, sliding_window=5, final_logit_softcapping=2.0, attn_logit_softcapping=None),
    "scaled up": Cohere2Config(**SIZES, logit_scale=0.25, sliding_window=5),
    "scaled down": GraniteConfig(**SIZES, logits_scaling=4.0),
    "table of positions": GPT2Config(
        vocab_size=13, n_positions=64, n_embd=16, n_layer=2, n_head=4, bos_token_id=None, eos_token_id=None
    ),
}


each_model = pytest.mark.parametrize(
    "name, attention",
    [(name, how) for name in MODELS for how in ("sdpa", "eager") if (name, how) != ("soft cap", "sdpa")],
)


def check_logprobs(model, prompt, response, temperature):
    with torch.no_grad():
        logits = model(torch.tensor([prompt + response.tokens])).logits[0, len(prompt) - 1 : -1]
    expected = torch.log_softmax(logits / temperature, -1)[torch.arange(response.length), response.tokens]
    np.testing.assert_allclose(response.logprobs, expected, atol=2e-5)


@each_model
def test_logprobs_are_those_of_the_whole_forward_pass(name, attention):
    """Windows shorter than the responses, heads that are more than a matrix, rows that begin at different steps."""
    sampler = generator(MODELS[name], attn_implementation=attention)
    prompts = [[1, 2, 3, 4, 5, 6, 7], [8], [9, 10, 11]]
    jobs = [Job(i % 3, i, 4 + 5 * i % 17) for i in range(12)]
    responses = sampler.respond(prompts, jobs, 0.8, rows=4)
    for job, response in zip(jobs, responses, strict=True):
        assert response.length == job.limit
        check_logprobs(sampler.model, prompts[job.prompt], response, 0.8)


@each_model
def test_a_turn_goes_on_from_what_is_cached(name, attention, monkeypatch):
    """Replies and observations of other lengths in each row, some of which are over after a turn."""
    monkeypatch.setattr(decoding, "MAX_PREFILL_TOKENS", 12)  # the new tokens take several passes
    sampler = generator(MODELS[name], attn_implementation=attention)
    contexts = [[1 + i % 12 for i in range(3 + start % 3)] for start in range(9)]
    past, widths = Past(limit=60), []
    monkeypatch.setattr(
        decoding,
        "hidden_states",
        lambda *a, **kw: (widths.append(kw["input_ids"].shape[1]), hidden_states(*a, **kw))[1],
    )
    for turn in range(3):
        widths.clear()
        jobs = [Job(i, 100 * turn + i, 1 + (5 * i + turn) % 8) for i in range(len(contexts))]
        responses = sampler.respond(contexts, jobs, 0.8, past=past)
        for i, (context, response) in enumerate(zip(contexts, responses, strict=True)):
            assert response.length == jobs[i].limit
            check_logprobs(sampler.model, context, response, 0.8)
        if turn:  # the widest of nine has an observation of four tokens and the last token of its reply
            assert max(widths) <= 5
        going = [i for i in range(len(contexts)) if (i + turn) % 4]
        contexts = [contexts[i] + responses[i].tokens + [2] * (1 + i % 4) for i in going]
        past.keep(going)
    assert [len(context) > 15 for context in contexts].count(True) > 2
