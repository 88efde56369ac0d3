"""Loading a policy, on every version of transformers that is promised."""

import json
import shutil
import warnings
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, GptOssConfig

from diver.core.run_folder import RunFolder
from diver.core.types import DiverError
from diver.recipe.sections import Model
from diver.sample.decoding import check_layers
from diver.sample.policy import load_policy
from diver.tasks.testbeds import policy_folder
from diver.train import checkpoint


def gradient(policy, ids):
    policy.model.train()
    policy.model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    return torch.cat([p.grad.flatten() for p in policy.model.parameters()])


def test_recomputed_activations_give_the_same_gradient():
    """Nothing deprecated is called, and activations really are recomputed."""
    plain = load_policy(Model())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lean = load_policy(Model(gradient_checkpointing=True))
    ids = torch.tensor([plain.tokenizer("Use 3, 5 and 7 to make 8.")["input_ids"]])
    forwards = []
    lean.model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: forwards.append(1))
    torch.testing.assert_close(gradient(lean, ids), gradient(plain, ids))
    assert len(forwards) == 2


def test_the_attention_that_was_asked_for():
    assert {load_policy(Model(attention=name)).model.config._attn_implementation for name in ("sdpa", "eager")} == {
        "sdpa",
        "eager",
    }


def test_a_head_that_does_more_than_is_known_is_refused(monkeypatch):
    """Log-probs by a part of it would be those of another policy."""
    load, doubled = AutoModelForCausalLM.from_pretrained, []

    def with_more(*args, **kwargs):
        model, loaded = load(*args, **kwargs)
        model.register_forward_hook(lambda _, __, out: doubled.append(out.logits.mul_(2)))
        return model, loaded

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", with_more)
    with pytest.raises(DiverError, match="model type 'llama': its output head is not supported; TRL or verl may"):
        load_policy(Model())
    assert doubled

    def without_hidden_states(*args, **kwargs):
        model, loaded = load(*args, **kwargs)
        model.model.register_forward_hook(lambda _, __, out: SimpleNamespace(logits=None))
        model.register_forward_hook(lambda _, __, out: out)
        model.forward = lambda **inputs: SimpleNamespace(logits=torch.zeros(1, 2, 3))
        return model, loaded

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", without_hidden_states)
    with pytest.raises(DiverError, match="model type 'llama': its output head is not supported; TRL or verl may"):
        load_policy(Model())


def test_weights_that_are_not_numbers_are_refused(monkeypatch):
    load = AutoModelForCausalLM.from_pretrained

    def broken(*args, **kwargs):
        model, loaded = load(*args, **kwargs)
        model.model.norm.weight.data[0] = float("nan")
        return model, loaded

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", broken)
    with pytest.raises(DiverError, match="model type 'llama': its logits are NaN, so some of its weights are"):
        load_policy(Model())


def test_a_folder_that_lacks_weights_is_refused(tmp_path):
    """transformers draws what it does not find at random. verl's checkpoints with LoRA have no weight by its name."""
    shutil.copytree(policy_folder(), tmp_path / "policy")
    weights = load_file(tmp_path / "policy" / "model.safetensors")
    adapted = {name.replace("q_proj.", "q_proj.base_layer."): value for name, value in weights.items()}
    save_file(adapted, tmp_path / "policy" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DiverError, match=r"its files lack \d weights, such as model.layers.0.self_attn.q_proj.weight"):
        load_policy(Model(path=str(tmp_path / "policy")))


def test_an_attention_whose_masks_are_of_another_kind_is_refused():
    model = load_policy(Model()).model
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(
        DiverError, match="model.attention 'flex_attention': its block masks are not supported; choose sdpa"
    ):
        check_layers(model)


def test_an_attention_that_a_model_does_not_have(tmp_path):
    """gpt-oss has none through torch's scaled_dot_product_attention, the default."""
    config = GptOssConfig(
        vocab_size=35, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, num_local_experts=2, num_experts_per_tok=1, layer_types=["full_attention"],
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config, attn_implementation="eager").save_pretrained(tmp_path)
    for file in policy_folder().glob("token*"):
        shutil.copy(file, tmp_path)
    with pytest.raises(DiverError, match="cannot be loaded .*; set model.attention, to 'eager' for one"):
        load_policy(Model(path=str(tmp_path)))
    load_policy(Model(path=str(tmp_path), attention="eager"))


def test_a_response_is_decoded_as_it_was_written(tmp_path):
    """Tokenizers such as Llama 3's ask transformers for a clean-up that takes spaces away before punctuation."""
    saved = tmp_path / "model"
    shutil.copytree(policy_folder(), saved)
    config = json.loads((saved / "tokenizer_config.json").read_text())
    (saved / "tokenizer_config.json").write_text(json.dumps({**config, "clean_up_tokenization_spaces": True}))
    tokenizer = load_policy(Model(path=str(saved))).tokenizer
    assert tokenizer.decode(tokenizer("3 , 5 .", add_special_tokens=False)["input_ids"]) == "3 , 5 ."


def test_a_damaged_checkpoint_is_named(tmp_path):
    saved = tmp_path / "step_0010"
    shutil.copytree(policy_folder(), saved)
    weights = (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(DiverError, match=r"^checkpoint .*/step_0010: cannot be loaded .*delete it to resume"):
        load_policy(Model(), saved)
    with pytest.raises(DiverError, match="^model.path .*/step_0010': cannot be loaded"):
        load_policy(Model(path=str(saved)))
    with pytest.raises(DiverError, match=r"^checkpoint .*/step_0011: is no folder; give one of RUN/checkpoints"):
        load_policy(Model(), tmp_path / "step_0011")


def test_a_checkpoint_whose_bytes_changed_is_named_and_not_taken_for_divergence(tmp_path):
    policy = load_policy(Model())
    optimizer = torch.optim.AdamW(policy.model.parameters())
    with RunFolder(tmp_path / "run", {}, {}) as folder:
        checkpoint.save(folder, 3, policy, optimizer, keep=1)
        (saved,) = folder.checkpoints()
    checkpoint.check(saved)
    assert checkpoint.restore(saved, policy, optimizer) == 3
    other = shutil.copytree(saved, saved.with_name("step_0004"))
    with pytest.raises(DiverError, match=r"step_0004: .*\(its trainer.pt is of step 3\); delete it"):
        checkpoint.restore(other, policy, optimizer)
    weights = bytearray((saved / "model.safetensors").read_bytes())
    weights[-5] ^= 64  # a bit of an exponent: still a file that loads
    (saved / "model.safetensors").write_bytes(weights)
    with pytest.raises(DiverError, match=r"step_0003: model.safetensors of this checkpoint has changed .* delete it"):
        checkpoint.check(saved)
    (saved / "model.safetensors").unlink()
    with pytest.raises(DiverError, match=r"step_0003: model.safetensors of this checkpoint is missing"):
        checkpoint.check(saved)
    (saved / "checksums.json").unlink()  # of an earlier version
    checkpoint.check(saved)


def test_a_full_gpu_is_no_fault_of_the_checkpoint(tmp_path, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    policy = load_policy(Model())
    optimizer = torch.optim.AdamW(policy.model.parameters())
    monkeypatch.setattr(torch, "load", full)
    with pytest.raises(torch.OutOfMemoryError):
        checkpoint.restore(tmp_path, policy, optimizer)
