"""The settings that only `diver verl` reads: what a cluster adds to a recipe."""

from __future__ import annotations

from diver.settings import settings


@settings
class Cluster:
    """How verl runs the recipe; the built-in trainer does not look at it."""

    nodes: int = 1
    """Machines, each with `gpus` GPUs; Ray must span them."""
    gpus: int = 8
    """GPUs of each node."""
    tensor_parallel: int = 1
    """GPUs over which vLLM spreads one copy of the model."""
    gpu_memory_utilization: float = 0.85
    """Share of a GPU's memory that vLLM may take while it samples."""
    tokens_per_gpu: int = 0
    """Tokens in one forward pass of a GPU (dynamic batch size); 0: 16,384, or one longest prompt and response."""
    validation_batch: int = 512
    """Problems evaluated at a time."""
    attention: str = "flash_attention_2"
    """transformers' attn_implementation in verl's actor; with flash_attention_2, rows are packed without padding."""
    overrides: tuple[str, ...] = ()
    """verl's own options, key=value, which have the last word."""

    def __post_init__(self) -> None:
        if min(self.nodes, self.gpus, self.tensor_parallel, self.validation_batch) < 1:
            raise ValueError("nodes, gpus, tensor_parallel and validation_batch must be at least 1")
        if not 0 < self.gpu_memory_utilization < 1:
            raise ValueError(f"gpu_memory_utilization must be between 0 and 1, not {self.gpu_memory_utilization}")
        if self.tokens_per_gpu < 0:
            raise ValueError(f"tokens_per_gpu must be at least 0, not {self.tokens_per_gpu}")
        for option in self.overrides:
            if "=" not in option:
                raise ValueError(f"overrides must be key=value, not {option!r}")
