"""Prompts that are run once for their responses, without padding: the gradient of rows that are run one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

from diver.core.types import Group, Problem, Reward, Rollout
from diver.losses import ClipLoss, HighEntropyLoss
from diver.methods import method_named
from diver.recipe.sections import Update
from diver.sample.policy import Policy
from diver.train import update as module
from diver.train.batches import shares_prompts
from diver.train.update import update

SIZES = {"vocab_size": 23, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.3}  # fmt: skip
PROMPTS = ([3, 4, 5, 6, 7], [8], [3, 4, 5, 6, 7], [9, 10, 11])  # one of them twice, as when an epoch ends within a step

LOSSES = [ClipLoss(), HighEntropyLoss(), ClipLoss(kl_coef=0.1, entropy_coef=0.01)]


def model_of(family, **changes):
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SIZES, **changes)
    return getattr(transformers, f"{family}ForCausalLM")._from_config(config, attn_implementation="sdpa")


@pytest.fixture(scope="module")
def groups():
    rng = np.random.default_rng(0)
    return method_named("clip-higher").apply(
        [
            Group(
                Problem(str(i), "", ""),
                tuple(
                    Rollout(
                        "", rng.integers(1, 23, n).tolist(), rng.uniform(-4, -2, n), reward=Reward(float(j % 3 == 0))
                    )
                    for j, n in enumerate(rng.integers(1, 14, 4))
                ),
                prompt_tokens=tuple(prompt),
            )
            for i, prompt in enumerate(PROMPTS)
        ],
        0.0,
    )


def change(model, groups, loss, budget):
    """What one step of gradient descent at rate 1 makes of all weights, and its metrics."""
    before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
    config = Update(mini_batch_size=len(groups), micro_batch_tokens=budget, max_grad_norm=1e9)
    metrics = update(
        Policy(model, SimpleNamespace(pad_token_id=0), None),
        torch.optim.SGD(model.parameters(), lr=1.0),
        groups,
        loss,
        config,
        temperature=0.7,
        reference=Policy(model_of("Qwen3"), None, None),
    )
    return torch.cat([p.detach().flatten() for p in model.parameters()]) - before, metrics


@pytest.mark.parametrize("family", ["Llama", "Qwen2", "Qwen3"])
@pytest.mark.parametrize("loss", LOSSES, ids=["clip", "high-entropy", "kl"])
@pytest.mark.parametrize("budget", [1, *(pytest.param(budget, marks=pytest.mark.slow) for budget in (40, 1000))])
def test_the_gradient_is_that_of_padded_rows(family, loss, budget, groups, monkeypatch):
    assert shares_prompts(model_of(family))
    shared, metrics = change(model_of(family), groups, loss, budget)
    monkeypatch.setattr(module, "shares_prompts", lambda model: False)
    padded, expected = change(model_of(family), groups, loss, budget)
    assert float(padded.norm()) > 0.1
    assert float((shared - padded).norm() / padded.norm()) < 1e-5
    assert metrics == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_a_prompt_is_run_once_and_padding_is_not(groups):
    model, widths = model_of("Llama"), []
    model.model.layers[0].mlp.register_forward_hook(lambda module, inputs, output: widths.append(inputs[0].shape[:2]))
    change(model, groups, ClipLoss(), 1000)
    rows = [r for g in groups for r in g.rollouts if r.advantage]
    assert widths == [(1, 5 + 1 + 3 + sum(r.length for r in rows))]


def test_the_model_keeps_its_attention(groups):
    model = model_of("Llama")
    change(model, groups, ClipLoss(), 1000)
    assert model.config._attn_implementation == "sdpa"


WINDOW = {"sliding_window": 4}
LEARNED = {"vocab_size": 23, "n_positions": 64, "n_embd": 16, "n_head": 2, "bos_token_id": 1, "eos_token_id": 1}


def test_other_models_are_run_in_padded_rows():
    recomputed, eager = model_of("Llama"), model_of("Llama")
    recomputed.activation_checkpointing_enable({"use_reentrant": False})
    eager.set_attn_implementation("eager")
    windows = [model_of("Mistral", **WINDOW), model_of("Qwen2", use_sliding_window=True, max_window_layers=1, **WINDOW)]
    learned_positions = transformers.GPT2LMHeadModel(transformers.GPT2Config(**LEARNED))
    others = [recomputed, eager, *windows, learned_positions]
    assert [shares_prompts(model) for model in others] == [False] * 5
    assert shares_prompts(model_of("Mistral", sliding_window=None))
