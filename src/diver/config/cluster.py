"""Settings that only `diver verl` reads: the cluster and verl's own options."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt

from diver.settings import settings


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
    """The attn_implementation of transformers in verl's actor. With flash_attention_2, sequences are packed without padding."""
    overrides: tuple[Annotated[str, Field(pattern="^[^=]+=")], ...] = ()
    """Options of verl as key=value, applied last."""
