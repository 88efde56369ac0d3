"""Settings that only `diver verl` reads: the cluster and verl's own options."""

from __future__ import annotations

from diver.settings import settings


@settings
class Cluster:
    """How verl runs the recipe. The built-in trainer ignores these settings."""

    nodes: int = 1
    """Number of nodes, each with `gpus` GPUs and all in one Ray cluster."""
    gpus: int = 8
    """Number of GPUs per node."""
    tensor_parallel: int = 1
    """Number of GPUs over which vLLM shards the model (tensor parallelism)."""
    gpu_memory_utilization: float = 0.85
    """Fraction of each GPU's memory that vLLM may use while it samples."""
    tokens_per_gpu: int = 0
    """Maximum number of tokens per GPU in one forward pass (dynamic batch size). 0 means 16,384, or the longest prompt
    and response together where these are longer."""
    validation_batch: int = 512
    """Number of problems evaluated at a time."""
    attention: str = "flash_attention_2"
    """The attn_implementation of transformers in verl's actor. With flash_attention_2, sequences are packed without padding."""
    overrides: tuple[str, ...] = ()
    """Options of verl as key=value, applied last."""

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
