"""The GPU memory of a process of `diver train --engine trl`, by part, computed from the shape of the model.

Sizes are in bytes, and a GB is 2^30 of them. P are the parameters of the model, T those that are trained, and L
its layers. Its hidden size is h, the inner size of its MLP f, its key-value heads times their size kv, and its
vocabulary V.

weights      4 P in float32 and 2 P for the copy in bfloat16; with LoRA 2 P (8bit 1 P, 4bit 0.5 P) and 4 T
gradients    4 T
optimizer    8 T, the two moments of AdamW
vLLM         its fraction of the card, in colocate mode
cache        rows x positions x 2 L kv x 2, where transformers samples all rows of a rollout step at once
logits       rows x V x 8, of one position: log-probs of the update are taken in chunks of the vocabulary
activations  rows_per_device x positions x L (28 h + 8 f + 8 kv); with gradient checkpointing x (L x 4 h + one layer)

Cache and logits are those of the sampling, gradients and activations those of the update: never both at a time. The
activations of a layer are what the backward pass reads of two norms, attention with rotary positions and a gated MLP,
under autocast to bfloat16.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from diver.core.tables import markdown
from diver.core.types import DiverError
from diver.integrations.trl.launch import arguments
from diver.recipe.recipe import Recipe

CARDS = (24, 80)
"""Sizes of cards, in GB."""
GB = 2**30
USABLE = 0.9
"""The fraction of a card that can be used; the rest is for the CUDA context, kernels and fragments."""


class Shape(NamedTuple):
    """What the memory of a model depends on."""

    parameters: int
    layers: int
    hidden: int
    intermediate: int
    key_values: int
    """Number of key-value heads times the head size."""
    vocabulary: int
    adapters: int = 0
    """Parameters of the adapters; 0 if the weights are trained."""


class Part(NamedTuple):
    """One part of the memory, and when it is needed."""

    name: str
    size: float
    sampling: bool = True
    update: bool = True


def read_shape(recipe: Recipe) -> Shape:
    """The shape of the recipe's model by its configuration; no weights are read."""
    import torch
    from transformers import AutoModelForCausalLM

    from diver.sample.policy import key_value_size, load_configuration

    config = load_configuration(recipe.model).config
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    rank, targets = recipe.trl.lora_rank, recipe.trl.lora_targets
    linear = {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    adapted = [
        module
        for name, module in linear.items()
        if (name.rpartition(".")[2] in targets if targets else module is not model.get_output_embeddings())
    ]
    text = config.get_text_config()
    return Shape(
        sum(parameter.numel() for parameter in model.parameters()),
        text.num_hidden_layers,
        text.hidden_size,
        text.intermediate_size,
        key_value_size(text),
        text.vocab_size,
        rank * sum(module.in_features + module.out_features for module in adapted),
    )


def parts(shape: Shape, recipe: Recipe, card: int) -> list[Part]:
    """The parts of the memory on a card of `card` GB."""
    fields, trained, layers = arguments(recipe), shape.adapters or shape.parameters, shape.layers
    frozen = {"none": 2.0, "8bit": 1.0, "4bit": 0.5}[recipe.trl.quantization]
    weights = frozen * shape.parameters + 4 * trained if shape.adapters else 6 * shape.parameters
    positions = recipe.sample.max_prompt_tokens + recipe.sample.max_tokens
    sampled = 0 if fields["use_vllm"] else fields["per_device_train_batch_size"] * fields["steps_per_generation"]
    colocate = fields.get("vllm_mode") == "colocate"
    fraction = fields.get("vllm_gpu_memory_utilization", 0.3) if colocate else 0  # TRL's default
    layer = 28 * shape.hidden + 8 * shape.intermediate + 8 * shape.key_values
    token = layers * 4 * shape.hidden + layer if recipe.model.gradient_checkpointing else layers * layer
    return [
        Part("weights", weights),
        Part("optimizer", 8 * trained),
        Part("vLLM", fraction * card * GB),
        Part("cache", sampled * positions * 2 * layers * shape.key_values * 2, update=False),
        Part("logits", sampled * shape.vocabulary * 8, update=False),
        Part("gradients", 4 * trained, sampling=False),
        Part("activations", fields["per_device_train_batch_size"] * positions * token, sampling=False),
    ]


def peaks(found: list[Part]) -> tuple[float, float]:
    """What is needed while responses are sampled, and in the update."""
    return sum(part.size for part in found if part.sampling), sum(part.size for part in found if part.update)


def fits(shape: Shape, recipe: Recipe, card: int) -> bool:
    return max(peaks(parts(shape, recipe, card))) <= USABLE * card * GB


def nearest(shape: Shape, recipe: Recipe, card: int) -> str:
    """What fits on the card: the recipe with half as many responses in a forward pass, or problems in a step, and so
    on."""
    train = recipe.train
    for rows in _halves(recipe.trl.rows_per_device):  # rows: memory of the update; problems: of sampling
        for problems in _halves(train.batch_size):
            mini = math.gcd(problems, train.mini_batch_size)
            smaller = replace(train, batch_size=problems, mini_batch_size=mini)
            if problems * recipe.sample.group_size % recipe.trl.processes == 0 and fits(
                shape, replace(recipe, train=smaller, trl=replace(recipe.trl, rows_per_device=rows)), card
            ):
                given = f"--trl.rows_per_device {rows} --train.batch_size {problems} --train.mini_batch_size {mini}"
                return f"what fits is {given}"
    return "no batch fits; train adapters (--trl.lora_rank 16), or recompute (--model.gradient_checkpointing True)"


def check(shape: Shape, recipe: Recipe, card: int) -> None:
    """DiverError if the batch does not fit on a card of `card` GB, with the nearest one that does."""
    if not fits(shape, recipe, card):
        sampling, update = (size / GB for size in peaks(parts(shape, recipe, card)))
        vllm = "" if recipe.trl.vllm != "off" else ", or --trl.vllm colocate, which samples as many rows as fit"
        raise DiverError(
            f"memory: sampling needs {sampling:,.0f} GB and the update {update:,.0f} GB, and {USABLE:.0%} of a card of "
            f"{card} GB can be used: {nearest(shape, recipe, card)}{vllm}"
        )


def table(shape: Shape, recipe: Recipe) -> str:
    """The parts on each card, in GB, as Markdown."""
    columns = [parts(shape, recipe, card) for card in CARDS]
    rows = [[part.name, *(f"{column[i].size / GB:.1f}" for column in columns)] for i, part in enumerate(columns[0])]
    for i, name in enumerate(("all while sampling", "all in the update")):
        rows.append([name, *(f"{peaks(column)[i] / GB:.1f}" for column in columns)])
    rows.append(["fits", *("yes" if fits(shape, recipe, card) else "no" for card in CARDS)])
    return markdown(("GB on each GPU, computed", *(f"{card} GB" for card in CARDS)), rows)


def _halves(number: int) -> Iterator[int]:
    while number:
        yield number
        number //= 2
