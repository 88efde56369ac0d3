"""Attention whose prompts are kept once, against the model's own on whole sequences."""

import numpy as np
import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    DynamicCache,
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from diver.core.types import DiverError
from diver.sample.prefix_tree import _next_logits, _start
from diver.sample.prompt_cache import attending

SIZES = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
PROMPTS = [[1, 2, 3, 4, 5, 6, 7], [8, 9], [10, 11, 12, 13]]


def model(key_heads, family=(LlamaForCausalLM, LlamaConfig)):
    torch.manual_seed(0)
    of, config = family
    made = of(config(**SIZES, num_key_value_heads=key_heads)).eval()
    torch.nn.init.normal_(made.lm_head.weight)  # logits of order 1
    return made


LLAMA, QWEN2, QWEN3 = (LlamaForCausalLM, LlamaConfig), (Qwen2ForCausalLM, Qwen2Config), (Qwen3ForCausalLM, Qwen3Config)


@pytest.mark.parametrize(("key_heads", "family"), [(4, LLAMA), (2, LLAMA), (1, LLAMA), (2, QWEN2), (2, QWEN3)])
@torch.no_grad()
def test_the_logits_are_those_of_whole_sequences(key_heads, family):
    """Two rows of the first prompt, none of the second, three of the last, over three tokens."""
    made, prompt = model(key_heads, family), np.array([0, 0, 2, 2, 2])
    shared, first = _start(made, PROMPTS, [2, 1, 3])
    for i, ids in enumerate(PROMPTS):
        torch.testing.assert_close(first.logits[i], made(torch.tensor([ids])).logits[0, -1])
    tokens, cache = np.random.default_rng(1).integers(0, 40, (5, 3)), DynamicCache(config=made.config)
    with attending(made):
        found = [_next_logits(made, shared, cache, prompt, tokens[:, :length]) for length in (1, 2, 3)]
    for length, logits in zip((1, 2, 3), found, strict=True):
        for row in range(5):
            ids = [*PROMPTS[prompt[row]], *tokens[row, :length]]
            torch.testing.assert_close(logits[row], made(torch.tensor([ids])).logits[0, -1])


def test_the_models_own_attention_is_put_back():
    made = model(4)
    before = made.config._attn_implementation
    with pytest.raises(KeyError), attending(made):
        assert made.config._attn_implementation == "diver_prompt_cache"
        raise KeyError
    assert made.config._attn_implementation == before


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: MistralForCausalLM(MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=4)),
         "a sliding window"),
        (lambda: Gemma2ForCausalLM(Gemma2Config(**SIZES, num_key_value_heads=2, head_dim=8)), "not supported"),
        (lambda: BloomForCausalLM(BloomConfig(vocab_size=40, hidden_size=32, n_layer=2, n_head=4)), "exchanged"),
    ],
)  # fmt: skip
@torch.no_grad()
def test_an_attention_with_more_than_keys_and_values_is_refused(made, why):
    of = made().eval()
    shared, first = _start(of, PROMPTS, [1, 1, 1])
    with pytest.raises(DiverError, match=why), attending(of):
        _next_logits(of, shared, first.cache, np.arange(3), np.ones((3, 1), np.int64))
