"""Weights between two folders, against torch.lerp of what transformers loads; kill -9, memory, and what is refused."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
import torch
from diver_command import fails, succeeds
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from diver.core.files import lock
from diver.core.types import DiverError
from diver.sample import blend as module
from diver.sample.blend import blend, check_blend
from diver.tasks.testbeds import policy_folder

PROMPT = torch.tensor([[5, 17, 42, 3, 99, 8, 61]])
SMALL = {"hidden_size": 16, "intermediate_size": 24, "head_dim": 8, "num_attention_heads": 2, "num_key_value_heads": 2}


def model(folder, seed, dtype=torch.float32, shard="1GB", **settings):
    """A small random model with the bundled tokenizer."""
    torch.manual_seed(seed)
    config = AutoConfig.from_pretrained(policy_folder(), **{**SMALL, "num_hidden_layers": 2, **settings})
    made = AutoModelForCausalLM.from_config(config).to(dtype)
    made.save_pretrained(folder, max_shard_size=shard)
    AutoTokenizer.from_pretrained(policy_folder()).save_pretrained(folder)
    return folder


def loaded(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()


def logprobs(made):
    with torch.no_grad():
        return torch.log_softmax(made(PROMPT).logits.float(), -1)


def lerp(base, trained, alpha):
    """The model of the interpolated weights in memory."""
    weights, made = loaded(base).state_dict(), loaded(trained)
    between = {k: torch.lerp(weights[k].float(), t.float(), alpha).to(t.dtype) for k, t in made.state_dict().items()}
    made.load_state_dict(between)
    return made


def stored(folder, **tensors):
    """A folder with these weights as they stand, and the configuration and tokenizer of the bundled policy."""
    shutil.copytree(policy_folder(), folder)
    save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ends")
    return model(folder / "base", 1), model(folder / "trained", 2)


@pytest.mark.parametrize(
    ("dtype", "shard", "files"),
    [(torch.float32, "1GB", 1), (torch.float32, "20KB", 2), (torch.bfloat16, "1GB", 1), (torch.bfloat16, "10KB", 2)],
)
def test_the_folder_loads_with_the_interpolated_weights(ends, tmp_path, monkeypatch, dtype, shard, files):
    """From a base model in float32 and one file, in slices that cut tensors anywhere."""
    trained = model(tmp_path / "trained", 2, dtype, shard)
    monkeypatch.setattr(module, "SLICE", 61)
    for alpha in (0.25, 0.7):
        out = tmp_path / f"blended_{alpha}"
        blend(ends[0], trained, alpha, out)
        assert len([*out.glob("*.safetensors")]) >= files
        expected, found = lerp(ends[0], trained, alpha), loaded(out)
        assert {p.dtype for p in found.parameters()} == {dtype}
        assert found.state_dict().keys() == expected.state_dict().keys()
        assert all(torch.equal(found.state_dict()[k], tensor) for k, tensor in expected.state_dict().items())
        assert torch.equal(logprobs(found), logprobs(expected))
        assert not torch.allclose(logprobs(found), logprobs(loaded(trained)), atol=1e-3)
        tokenizer = AutoTokenizer.from_pretrained(out)
        assert tokenizer.get_vocab() == AutoTokenizer.from_pretrained(policy_folder()).get_vocab()


def test_the_ends_are_copies_and_the_folder_names_both(ends, tmp_path):
    """Each in its own dtype and files; what belongs to a checkpoint alone stays behind."""
    base, trained = ends[0], model(tmp_path / "trained", 2, torch.bfloat16, "10KB")
    for name in ("trainer.pt", "method.json", "checksums.json", "model.gguf", "trainer_state.json"):
        (trained / name).write_text("{}")
    (trained / "chat_template.jinja").write_text("{{ messages[0]['content'] }}")
    for alpha, end in ((0, base), (1, trained)):
        out = tmp_path / str(alpha)
        blend(base, trained, alpha, out)
        kept = {p.name: p.read_bytes() for p in end.iterdir() if p.suffix in (".safetensors", ".json", ".jinja")}
        for name in ("method.json", "checksums.json", "trainer_state.json"):
            kept.pop(name, None)
        record = json.loads((out / "blend.json").read_text())
        assert {p.name: p.read_bytes() for p in out.iterdir() if p.name != "blend.json"} == kept
        assert record["alpha"] == alpha and [*record] == ["alpha", "base", "trained"]
        assert re.fullmatch(rf"{base}@[0-9a-f]{{8}}", record["base"]) and record["trained"].startswith(f"{trained}@")


def test_other_types_of_numbers(tmp_path):
    """float64 is not rounded to float32. A tensor of the base model alone, such as positions, is left out."""
    third = torch.tensor([1 / 3, 1.0], dtype=torch.float64)
    base = stored(tmp_path / "base", w=torch.zeros(2), s=torch.tensor(1.0), positions=torch.arange(5))
    trained = stored(tmp_path / "trained", w=third, s=torch.tensor(3.0))
    blend(base, trained, 0.5, tmp_path / "out")
    found = load_file(tmp_path / "out/model.safetensors")
    assert found["w"].tolist() == [1 / 6, 0.5] and found["s"] == 2.0 and found.keys() == {"w", "s"}


def test_weights_that_transformers_does_not_load_are_not_read(ends, tmp_path):
    """Beside the shards of Mistral's models lie the same weights under other names."""
    base = shutil.copytree(ends[0], tmp_path / "base")
    trained = model(tmp_path / "trained", 2, shard="20KB")
    for folder in (base, trained):
        save_file({"layers.0.attention.wq.weight": torch.ones(2, 2)}, folder / "consolidated.safetensors")
    blend(base, trained, 0.5, tmp_path / "out")
    assert not (tmp_path / "out/consolidated.safetensors").exists()
    assert torch.equal(logprobs(loaded(tmp_path / "out")), logprobs(lerp(ends[0], ends[1], 0.5)))


def test_what_cannot_be_blended_is_one_line_and_leaves_nothing(ends, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base, trained = ends
    wider = model(tmp_path / "wider", 1, intermediate_size=32)
    deeper = model(tmp_path / "deeper", 2, num_hidden_layers=3)
    worded = shutil.copytree(trained, tmp_path / "worded")
    tokenizer = AutoTokenizer.from_pretrained(trained)
    tokenizer.add_tokens(["<think>"])
    tokenizer.save_pretrained(worded)
    pickled = shutil.copytree(trained, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    partly = model(tmp_path / "partly", 2, shard="20KB")
    lost = sorted(partly.glob("*.safetensors"))[1]
    lost.unlink()
    cut = shutil.copytree(trained, tmp_path / "cut")
    with (cut / "model.safetensors").open("r+b") as file:
        file.truncate(20_000)
    packed = [stored(tmp_path / f"packed_{i}", w=torch.full((2,), i, dtype=torch.int32)) for i in (0, 1)]
    small = stored(tmp_path / "small", w=torch.ones(2, dtype=torch.float8_e4m3fn))
    taken = tmp_path / "taken"
    taken.mkdir()
    shown = r"\[24, 16\] in F32 and \[32, 16\] in F32"
    for one, other, out, said in [
        (base, wider, "out", f"model.layers.0.mlp.gate_proj.weight is {shown}|down_proj.*|up_proj.*"),
        (base, deeper, "out", r"base: has no tensor model.layers.2.\S+, which \S+/deeper has; name the model that was"),
        (base, worded, "out", "base and .*/worded: their tokenizers differ"),
        (base, pickled, "out", r"pickled: has no model.safetensors; model.save_pretrained\(FOLDER\) writes it"),
        (base, partly, "out", f"partly: has no {lost.name}"),
        (base, cut, "out", "cut/model.safetensors: is damaged .*; copy it again"),
        (*packed, "out", r"packed_1: w is \[2\] in I32 and \[2\] in I32, not one shape in F32, F16 or BF16"),
        (small, small, "out", r"w is \[2\] in F8_E4M3 and \[2\] in F8_E4M3, not one shape in F32"),
        (base, trained, "taken", "taken: exists; choose another --out, or delete it"),
    ]:
        line = fails("blend", "--base", one, "--model", other, "--out", out)
        assert re.search(said, line), line
        assert not (tmp_path / "out").exists() and not [*tmp_path.glob(".*")] and not [*taken.iterdir()]


def test_what_to_blend_is_named_completely(ends, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    base, trained = ends
    for args, said in [
        (["runs/x"], "--out: name the folder of the model"),
        (["--out", "out"], "name a run, or --base and --model"),
        (["--model", trained, "--out", "out"], "name a run, or --base and --model"),
        (["runs/x", "--base", base, "--model", trained, "--out", "out"], "name a run, or --base and --model"),
        (["--base", base, "--model", trained, "--alpha", 1.5, "--out", "out"], "alpha.* between 0 and 1"),
        (["nowhere", "--out", "out"], "nowhere: no such file or folder in .*; a model is given by --model"),
    ]:
        line = fails("blend", *args)
        assert re.search(said, line), line
    out = succeeds("blend", "--base", base, "--model", trained, "--alpha", 0.25, "--out", "models/quarter")
    assert out == f"models/quarter: {base} + 0.25 ({trained} - {base})\n"
    assert torch.equal(logprobs(loaded("models/quarter")), logprobs(lerp(base, trained, 0.25)))


def test_one_process_at_a_time_writes_a_model(ends, tmp_path):
    """The other has its line, and disturbs nothing."""
    (tmp_path / ".half.partial").mkdir()
    (tmp_path / ".half.partial/model.safetensors").write_text("of the first")
    with lock(tmp_path / ".half.partial"):
        with pytest.raises(DiverError, match=r"\.half\.partial: another process is using this folder"):
            blend(*ends, 0.5, tmp_path / "half")
        assert (tmp_path / ".half.partial/model.safetensors").read_text() == "of the first"
    blend(*ends, 0.5, tmp_path / "half")
    assert torch.equal(logprobs(loaded(tmp_path / "half")), logprobs(lerp(*ends, 0.5)))
    assert [p.name for p in tmp_path.iterdir()] == ["half"]


# ---- LoRA

LAYER = "base_model.model.model.layers.0.self_attn.q_proj"


def adapters(folder, base, config=None, **more):
    """Adapters as peft saves them: rank 2 of one layer, and of the embedding."""
    folder.mkdir()
    torch.manual_seed(3)
    tensors = {
        f"{LAYER}.lora_A.weight": torch.randn(2, 16),
        f"{LAYER}.lora_B.weight": torch.randn(16, 2),
        "base_model.model.model.embed_tokens.lora_embedding_A": torch.randn(2, 419),
        "base_model.model.model.embed_tokens.lora_embedding_B": torch.randn(16, 2),
    }
    save_file({**tensors, **more}, folder / "adapter_model.safetensors")
    settings = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": str(base), "r": 2, "lora_alpha": 6,
        "target_modules": ["q_proj", "embed_tokens"], **(config or {}),
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    AutoTokenizer.from_pretrained(policy_folder()).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("alpha", [0, 0.3, 1])
def test_the_b_matrices_of_adapters_are_scaled(ends, tmp_path, alpha):
    """So their product is: B A times alpha. A module whose name ends in _B has an A matrix, too."""
    odd = {"base_model.model.gate_lora_B.lora_A.weight": torch.ones(2, 16, dtype=torch.bfloat16)}
    folder = adapters(tmp_path / "lora", ends[0], {"use_rslora": True, "init_lora_weights": "gaussian"}, **odd)
    blend(ends[0], folder, alpha, tmp_path / "out")
    before, after = (load_file(f / "adapter_model.safetensors") for f in (folder, tmp_path / "out"))
    for name, tensor in after.items():
        factor = alpha if name.endswith(("lora_B.weight", "lora_embedding_B")) else 1
        assert torch.equal(tensor, before[name] * factor) and tensor.dtype == before[name].dtype
    assert len(after) == 5
    config = [(f / "adapter_config.json").read_text() for f in (folder, tmp_path / "out")]
    assert config[0] == config[1]


def test_adapters_whose_effect_is_not_that_of_b_are_refused(ends, tmp_path):
    base, trained = ends
    vector = torch.ones(16)
    for i, (of, config, more, said) in enumerate([
        (base, {"use_dora": True}, {f"{LAYER}.lora_magnitude_vector": vector}, "has more than LoRA's A and B"),
        (base, {"bias": "all"}, {f"{LAYER}.bias": vector}, "has more than LoRA's A and B"),
        (base, {"modules_to_save": ["norm"]}, {"base_model.model.model.norm.weight": vector}, "more than LoRA's A and"),
        (base, {"init_lora_weights": "pissa"}, {}, "more than LoRA's A and B matrices .*PiSSA"),
        (trained, {}, {}, rf"has adapters of {trained}, not of {base}; name the model that was trained"),
        (base, {"init_lora_weights": True}, {}, ""),
        (base, {"init_lora_weights": "eva", "bias": "none"}, {}, ""),
        (base, {"use_dora": False, "modules_to_save": None}, {}, ""),
        ("owner/name-on-the-hub", {}, {}, ""),
        (shutil.copytree(base, tmp_path / "moved"), {"lora_bias": True}, {f"{LAYER}.lora_B.bias": vector}, ""),
    ]):  # fmt: skip
        folder = adapters(tmp_path / str(i), of, config, **more)
        if said:
            with pytest.raises(DiverError, match=said):
                check_blend(base, folder)
        else:
            check_blend(base, folder)
    with pytest.raises(DiverError, match="name the model that was trained"):
        check_blend(adapters(tmp_path / "first", base), adapters(tmp_path / "second", "owner/name-on-the-hub"))


def test_adapters_load_in_peft_with_the_scaled_product(ends, tmp_path):
    pytest.importorskip("peft", reason="in the environment of `make test-trl` only")
    folder, base = adapters(tmp_path / "lora", ends[0]), loaded(ends[0])
    blend(ends[0], folder, 0.25, tmp_path / "out")
    read = load_file(folder / "adapter_model.safetensors")
    a, b = (read[f"{LAYER}.lora_{x}.weight"] for x in "AB")
    e, f = (read[f"base_model.model.model.embed_tokens.lora_embedding_{x}"] for x in "AB")
    with torch.no_grad():  # lora_alpha / r = 3; tied weights would give the head the adapter, too
        base.model.layers[0].self_attn.q_proj.weight += 0.25 * 3 * b @ a
        head = base.lm_head.weight.clone()
        base.model.embed_tokens.weight = torch.nn.Parameter(base.model.embed_tokens.weight + 0.25 * 3 * (f @ e).T)
        base.lm_head.weight = torch.nn.Parameter(head)
    found = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert torch.allclose(logprobs(found), logprobs(base), atol=1e-5)


# ---- kill -9 and memory

KILLED = """
import os, signal, sys
from diver.sample import blend
from diver.cli import main
read, left = blend._read, [int(sys.argv.pop(1))]
def killed(*given):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    return read(*given)
blend._read = killed
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 15, 40])
def test_killed_it_leaves_no_model_and_ends_with_the_same_one(ends, tmp_path, at):
    """In the first, in a middle and in the last file: 21 tensors, each read from both models."""
    trained = model(tmp_path / "trained", 2, shard="20KB")
    args = ["blend", "--base", ends[0], "--model", trained, "--alpha", 0.5, "--out", "models/half"]
    program = [sys.executable, "-c", KILLED, str(at), *map(str, args)]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (tmp_path / "models/half").exists() and [*(tmp_path / "models").iterdir()]
    succeeds(*args, cwd=tmp_path)
    assert [p.name for p in (tmp_path / "models").iterdir()] == ["half"]
    blend(ends[0], trained, 0.5, tmp_path / "at once")
    found, expected = (
        {p.name: p.read_bytes() for p in f.iterdir()} for f in (tmp_path / "models/half", tmp_path / "at once")
    )
    assert found == expected and len(found) > 5


MEMORY = """
import resource, sys
from pathlib import Path
from diver.sample.blend import blend, check_blend
base, trained, out = map(Path, sys.argv[1:])
check_blend(base, trained)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
blend(base, trained, 0.5, out)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_two_tensors_of_1_gb_take_a_quarter_of_it(tmp_path, dtype):
    """At the shapes of the embedding of a 7 B model. The files are sparse."""
    rows = (1 << 30) // (8192 * (4 if dtype == "F32" else 2))
    header = json.dumps({"w": {"dtype": dtype, "shape": [rows, 8192], "data_offsets": [0, 1 << 30]}}).encode()
    for name in ("base", "trained"):
        folder = shutil.copytree(policy_folder(), tmp_path / name)
        with (folder / "model.safetensors").open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + (1 << 30))
    program = [sys.executable, "-c", MEMORY, *(str(tmp_path / name) for name in ("base", "trained", "out"))]
    done = subprocess.run(program, capture_output=True, text=True, timeout=600, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/model.safetensors").stat().st_size == 8 + len(header) + (1 << 30)
    assert int(done.stdout) < (1 << 20) / 4  # KiB
    shutil.rmtree(tmp_path / "out")
