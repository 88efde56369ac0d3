"""The update with a large vocabulary: the same gradient as with all logits in memory, at a fraction of the memory."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.profiler import profile
from transformers import LlamaConfig, LlamaForCausalLM

from diver.losses import ClipLoss
from diver.losses.base import Tokens
from diver.sample.policy import Policy
from diver.train.batches import Row, collate
from diver.train.update import accumulate

VOCABULARY, LENGTHS, TEMPERATURE = 20_000, (30, 24, 18, 7), 0.7


@pytest.fixture
def policy():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=4, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )  # fmt: skip
    return Policy(LlamaForCausalLM(config), SimpleNamespace(pad_token_id=0), None)


@pytest.fixture
def rows():
    rng, start, rows = np.random.default_rng(0), 0, []
    for n in LENGTHS:
        tokens, old = rng.integers(0, VOCABULARY, n), rng.uniform(-11.0, -10.6, n).astype(np.float32)
        rows.append(Row([1, 2, 3], tokens, np.ones(n, bool), old, float(rng.normal()), 1 / sum(LENGTHS), start))
        start += n
    return rows


def peak(function):
    """The most bytes that were allocated at a time, beyond those of before. The profiler may lose events of a pass."""
    peaks = []
    for _ in range(3):
        with profile(profile_memory=True) as profiler:
            function()
        changes = [e.nbytes() for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
        peaks.append(max(np.cumsum(changes)))
    return max(peaks)


def all_at_once(policy, rows, loss):
    """The update before it was cut into chunks: [n, R, V] in float32, as it is and scaled."""
    batch = collate(rows, policy.model.device)
    out = policy.model(input_ids=batch.ids, attention_mask=batch.attention, position_ids=batch.position)
    scaled = out.logits[:, 2:-1].float() / TEMPERATURE
    values = scaled.gather(-1, batch.tokens[..., None])[..., 0] - scaled.logsumexp(-1)
    token_loss, _ = loss.forward(Tokens(values, batch.old_logprobs, batch.advantages))
    logp = scaled.log_softmax(-1)
    token_loss = token_loss + loss.entropy_coef * (logp.exp() * logp).sum(-1)
    (token_loss.masked_fill(~batch.mask, 0.0) * batch.weight[:, None]).sum().backward()


def gradient(policy):
    gradients = torch.cat([p.grad.flatten() for p in policy.model.parameters()])
    policy.model.zero_grad()
    return gradients


@pytest.mark.parametrize("entropy_coef", [pytest.param(0.0, marks=pytest.mark.slow), 0.01])
def test_chunks_of_the_logits_give_the_same_gradient(policy, rows, entropy_coef, monkeypatch):
    monkeypatch.setattr("diver.sample.policy.CHUNK_ELEMENTS", 8 * VOCABULARY)
    loss = ClipLoss(entropy_coef=entropy_coef)
    memory = [
        peak(lambda: all_at_once(policy, rows, loss)),
        peak(lambda: (gradient(policy), accumulate(policy, rows, loss, TEMPERATURE, 1000))),
    ]
    mine = gradient(policy)
    all_at_once(policy, rows, loss)
    expected = gradient(policy)
    assert float((mine - expected).norm() / expected.norm()) < 1e-5
    assert memory[1] < memory[0] / 3, memory
