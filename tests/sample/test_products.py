"""Linear layers by oneDNN against torch's own."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from diver.recipe.sections import Model
from diver.sample.policy import ONEDNN, Linear, by_onednn, load_policy

pytestmark = pytest.mark.skipif(not ONEDNN, reason="this torch has no oneDNN beside MKL")


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(5, 3), (2, 7, 3), (1, 1, 3), (0, 3)])
def test_the_layer_and_its_gradients_are_those_of_torch(shape, bias):
    torch.manual_seed(0)
    own, other = Linear(3, 4, bias), torch.nn.Linear(3, 4, bias)
    other.load_state_dict(own.state_dict())
    x = torch.randn(shape)
    results = []
    for layer in (own, other):
        inputs = x.clone().requires_grad_()
        y = layer(inputs)
        (y.sin() * torch.arange(4.0)).sum().backward()
        results.append([y, inputs.grad, *(p.grad for p in layer.parameters())])
    for mine, torchs in zip(*results, strict=True):
        torch.testing.assert_close(mine, torchs, rtol=1e-6, atol=1e-6)
    with torch.inference_mode():
        torch.testing.assert_close(own(x), other(x), rtol=1e-6, atol=1e-6)


def test_a_view_and_frozen_weights():
    """Rows that are columns of another tensor; a gradient for the input alone."""
    layer, x = Linear(3, 4), torch.randn(3, 6, requires_grad=True)
    layer.weight.requires_grad_(False)
    layer(x.T).sum().backward()
    torch.testing.assert_close(x.grad, layer.weight.sum(0)[:, None].expand(3, 6))
    assert layer.weight.grad is None and layer.bias.grad.tolist() == [6] * 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types_are_torchs(dtype):
    layer, x = Linear(3, 4).to(dtype), torch.randn(2, 3, dtype=dtype)
    assert torch.equal(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))


def test_autocast_is_torchs():
    layer, x = Linear(3, 4), torch.randn(2, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16


def test_a_model_keeps_its_weights_its_ties_and_its_results(monkeypatch):
    config = LlamaConfig(
        vocab_size=11,
        hidden_size=8,
        intermediate_size=12,
        num_hidden_layers=2,
        num_attention_heads=2,
        tie_word_embeddings=True,
    )
    model, ids = LlamaForCausalLM(config).eval(), torch.arange(10).view(2, 5)
    weights, before = {k: v.clone() for k, v in model.state_dict().items()}, model(ids).logits
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    by_onednn(model)
    torch.testing.assert_close(model(ids).logits, before, rtol=1e-5, atol=1e-6)
    assert model.lm_head.weight is model.model.embed_tokens.weight and type(model.lm_head) is Linear
    assert all(torch.equal(weights[k], v) for k, v in model.state_dict().items())


@pytest.mark.parametrize(("capability", "layer"), [("AVX512", Linear), ("AVX2", torch.nn.Linear)])
def test_a_policy_has_them_where_they_are_faster(capability, layer, monkeypatch):
    """By what the processor can do, not by a measurement: a resumed run has the same numbers."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert type(load_policy(Model()).model.lm_head) is layer
