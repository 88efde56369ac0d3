"""Settings that one engine alone reads: verl and TRL."""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from diver.core.settings import check_booleans, settings


@settings
class Cluster:
    """How verl runs the recipe. The built-in trainer ignores these settings."""

    nodes: PositiveInt = 1
    """Number of nodes, each with `gpus` GPUs and all in one Ray cluster."""
    gpus: PositiveInt = 8
    """Number of GPUs per node."""
    tensor_parallel: PositiveInt = 1
    """Number of GPUs over which vLLM shards the model (tensor parallelism)."""
    gpu_memory_utilization: Annotated[float, Field(gt=0, lt=1)] = 0.85
    """Fraction of each GPU's memory that vLLM may use while it samples."""
    tokens_per_gpu: NonNegativeInt = 0
    """Maximum number of tokens per GPU in one forward pass (dynamic batch size). 0 means 16,384, or the longest prompt
    and response together where these are longer."""
    validation_batch: PositiveInt = 512
    """Number of problems evaluated at a time."""
    attention: str = "flash_attention_2"
    """The attn_implementation of transformers in verl's actor. With flash_attention_2,
    sequences are packed without padding."""
    overrides: tuple[Annotated[str, Field(pattern="^[^=]+=")], ...] = ()
    """Options of verl as key=value, applied last."""


@settings
class Trl:
    """How TRL runs the recipe. The other engines ignore these settings."""

    processes: PositiveInt = 1
    """Number of processes, one per GPU."""
    rows_per_device: PositiveInt = 8
    """Maximum number of responses of a process in one forward pass; what is taken divides its part of a mini-batch."""
    lora_rank: NonNegativeInt = 0
    """Rank of the LoRA adapters (arXiv 2106.09685) that peft trains in place of the weights; 0 trains the weights."""
    lora_alpha: PositiveFloat = 32.0
    """Scale of the adapters: their product is multiplied by lora_alpha / lora_rank."""
    lora_dropout: NonNegativeFloat = 0.0
    """Dropout of the input of the adapters."""
    lora_targets: tuple[str, ...] = ()
    """Names of the modules that have an adapter; the default is every linear layer but the output."""
    quantization: Literal["none", "8bit", "4bit"] = "none"
    """Precision of the frozen weights under LoRA, by bitsandbytes; 4bit is QLoRA's NF4 (arXiv 2305.14314)."""
    vllm: Literal["off", "colocate", "server"] = "off"
    """vLLM samples: on the GPUs of the training, or on a server started by `trl vllm-serve`."""
    deepspeed: str | None = None
    """A DeepSpeed configuration, a JSON file."""
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    """Other fields of TRL's GRPOConfig, applied last, such as {vllm_gpu_memory_utilization = 0.3}."""

    def __post_init__(self) -> None:
        check_booleans(self.options, "options")
        if self.quantization != "none" and not self.lora_rank:
            raise ValueError(f"quantization = {self.quantization!r} freezes the weights: give lora_rank, such as 16")
