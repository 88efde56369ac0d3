"""The memory of a GPU under TRL, by hand, and what is refused."""

import re
import shlex
from pathlib import Path

import pytest
from safetensors.torch import load_file

from diver.core.types import DiverError
from diver.integrations.trl import memory
from diver.recipe.load import load_recipe
from diver.recipe.recipe import make_recipe
from diver.tasks.testbeds import policy_folder

ROOT = Path(__file__).parents[3]
SMALL = memory.Shape(1000, layers=2, hidden=4, intermediate=8, key_values=2, vocabulary=10)
QWEN = memory.Shape(1_543_714_304, layers=28, hidden=1536, intermediate=8960, key_values=256, vocabulary=151_936)
"""Qwen2.5-1.5B, by its config.json."""


def recipe(trl=None, **model):
    """Two problems with two responses a step, of at most 3 + 5 tokens; two responses in a forward pass."""
    sample = {"group_size": 2, "max_prompt_tokens": 3, "max_tokens": 5}
    train = {"batch_size": 2, "mini_batch_size": 1}
    return make_recipe({"sample": sample, "train": train, "trl": {"rows_per_device": 2, **(trl or {})}, "model": model})


def sizes(shape, given, card=24):
    return {part.name: part.size for part in memory.parts(shape, given, card)}


def test_the_parts_by_hand():
    """Four rows of 8 positions, of 2 x 2 layers x 2 key-values x 2 bytes; a layer keeps 28 x 4 + 8 x 8 + 8 x 2 = 192 of
    a token."""
    found = sizes(SMALL, recipe())
    trained = {"weights": 6000, "optimizer": 8000, "vLLM": 0, "gradients": 4000}
    assert found == trained | {"cache": 4 * 8 * 16, "logits": 4 * 10 * 8, "activations": 2 * 8 * 2 * 192}
    assert memory.peaks(memory.parts(SMALL, recipe(), 24)) == (14832, 24144)
    assert sizes(SMALL, recipe(gradient_checkpointing=True))["activations"] == 2 * 8 * (2 * 4 * 4 + 192)


@pytest.mark.parametrize(("quantization", "weights"), [("none", 2400), ("8bit", 1400), ("4bit", 900)])
def test_adapters_by_hand(quantization, weights):
    found = sizes(SMALL._replace(adapters=100), recipe({"lora_rank": 1, "quantization": quantization}))
    assert (found["weights"], found["optimizer"], found["gradients"]) == (weights, 800, 400)


def test_vllm_takes_its_fraction_of_the_card_and_keeps_the_cache():
    colocate = sizes(SMALL, recipe({"vllm": "colocate", "options": {"vllm_gpu_memory_utilization": 0.5}}))
    assert (colocate["vLLM"], colocate["cache"], colocate["logits"]) == (12 * 2**30, 0, 0)
    assert sizes(SMALL, recipe({"vllm": "server"}))["vLLM"] == 0


def test_the_shape_is_that_of_the_model():
    lora = {"lora_rank": 4, "lora_targets": ["q_proj", "v_proj"]}
    shape = memory.read_shape(make_recipe({"trl": lora}))
    weights = load_file(policy_folder() / "model.safetensors")
    assert shape.parameters == sum(weight.numel() for weight in weights.values())
    of_layer = [weights[f"model.layers.0.self_attn.{name}.weight"].shape for name in ("q_proj", "v_proj")]
    assert shape.adapters == shape.layers * 4 * sum(map(sum, of_layer))
    assert (shape.vocabulary, shape.hidden) == weights["model.embed_tokens.weight"].shape
    assert memory.read_shape(make_recipe({})).adapters == 0


def test_the_papers_batch_needs_vllm():
    """1,024 rows of 9,216 positions with 28,672 bytes each are 252 GB, which no card has."""
    paper = ROOT / "recipes" / "paper" / "qwen2.5-math-1.5b.toml"
    assert sizes(QWEN, load_recipe(paper))["cache"] == 1024 * 9216 * 28_672
    with pytest.raises(DiverError) as error:
        memory.check(QWEN, load_recipe(paper), 80)
    told = str(error.value)
    assert told.startswith(
        "memory: sampling needs 273 GB and the update 46 GB, and 90% of a card of 80 GB can be used: "
    )
    assert told.endswith(", or --trl.vllm colocate, which samples as many rows as fit")
    flags = shlex.split(re.search("what fits is (.*), or", told)[1])
    memory.check(QWEN, load_recipe(paper, flags), 80)
    assert flags[3] == "16" and not memory.fits(QWEN, load_recipe(paper, [*flags[:3], "32", *flags[4:]]), 80)
    memory.check(QWEN, load_recipe(paper, ["--trl.vllm", "colocate"]), 80)


def test_a_model_that_fits_with_no_batch_is_told_what_saves_memory():
    with pytest.raises(DiverError, match=r"no batch fits; train adapters \(--trl.lora_rank 16\), or recompute"):
        memory.check(QWEN, load_recipe(ROOT / "recipes" / "qwen2.5-1.5b-gsm8k.toml"), 24)


def test_the_example_of_the_readme_fits_24_gb():
    (words,) = re.findall(r"`diver train (\S+\.toml --engine trl [^`]*)`", (ROOT / "README.md").read_text())
    path, *flags = shlex.split(words)
    adapted = QWEN._replace(adapters=18_464_768)  # rank 16 in every linear layer but the output
    memory.check(adapted, load_recipe(ROOT / path, flags), 24)
    assert "| fits                     |   yes |   yes |" in memory.table(adapted, load_recipe(ROOT / path, flags))
