"""The sections of a recipe that belong to no method: run, model, sampling, training, evaluation, loggers."""

from __future__ import annotations

import re
from typing import Literal

from diver.config.data import Source
from diver.settings import settings


@settings
class Run:
    """Where a run lives, and its seed."""

    folder: str | None = None
    """The run folder; nothing means runs/ and the recipe's name."""
    seed: int = 0
    """Of every random stream of the run."""

    def __post_init__(self) -> None:
        if self.folder == "":
            raise ValueError("folder must not be empty")


@settings
class Model:
    """Which policy, and how it is held. Weights and optimizer are float32; a GPU computes in bfloat16."""

    path: str = "countdown"
    """A folder in Hugging Face layout, a hub name, or `countdown` for the bundled policy."""
    revision: str | None = None
    """Of a hub name."""
    device: str = "auto"
    """auto takes a GPU where there is one; or cpu, cuda, cuda:1."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the computation; auto is bfloat16 on a GPU and float32 on a CPU."""
    threads: int = 0
    """Threads on a CPU; 0 leaves torch's default, one a core. Results are exact for one number of threads."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, about a third slower."""
    attention: str = "sdpa"
    """transformers' attn_implementation: sdpa, eager, flash_attention_2, ..."""

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise ValueError(f"threads must be at least 0, not {self.threads}")
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", self.device):
            raise ValueError(f"device must be auto, cpu, mps, cuda or cuda:N, not {self.device!r}")


@settings
class Sampling:
    """How responses are drawn. Only the temperature shapes the distribution, so log-probs stay the policy's own."""

    group_size: int = 8
    """G: responses to each problem."""
    temperature: float = 1.0
    """Logits are divided by it: when sampling, in old and new log-probs, and in the entropy."""
    max_tokens: int = 8192
    """The longest response, in policy tokens; longer ones are truncated."""
    max_prompt_tokens: int = 1024
    """Problems whose rendered prompt is longer are left out, and counted."""
    max_num_seqs: int = 512
    """Responses in flight at a time: memory for the key-value cache grows with it."""

    def __post_init__(self) -> None:
        if self.group_size < 2:
            raise ValueError(f"sample.group_size: G is {self.group_size}; a group needs at least 2 responses to differ")
        if not self.temperature > 0:
            raise ValueError("sample.temperature must be above 0")
        if min(self.max_tokens, self.max_prompt_tokens, self.max_num_seqs) < 1:
            raise ValueError("sample.max_tokens, sample.max_prompt_tokens and sample.max_num_seqs must be at least 1")


@settings
class Update:
    """One rollout batch is used once, in optimizer steps over mini-batches."""

    mini_batch_size: int = 32
    """Problems (whole groups) in one optimizer step."""
    learning_rate: float = 1e-6
    """AdamW's."""
    warmup_steps: int = 0
    """Rollout steps over which the learning rate rises linearly to its full value."""
    weight_decay: float = 0.01
    """AdamW's."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's."""
    max_grad_norm: float = 1.0
    """Largest norm of the gradient of a mini-batch; longer ones are scaled down."""
    micro_batch_tokens: int = 16384
    """Prompt and response tokens, padding counted, in one forward pass. The logits take about 16 bytes for each of
    these tokens and each word of the vocabulary; results do not depend on it."""
    skip_zero_advantage: bool = True
    """Leave out of the forward pass the rows whose gradient is exactly zero. Same gradient, less work."""


@settings
class Train(Update):
    """How long, on how much at a time, and when to save."""

    steps: int = 350
    """Rollout steps: batches of groups sampled and learned from."""
    batch_size: int = 128
    """Problems in one rollout step."""
    save_steps: int = 10
    """Rollout steps between checkpoints; a killed run goes on from the last one."""
    save_total_limit: int = 2
    """How many of the newest checkpoints stay."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "mini_batch_size", "save_steps", "save_total_limit", "micro_batch_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.mini_batch_size > self.batch_size:
            raise ValueError(f"mini_batch_size ({self.mini_batch_size}) is larger than batch_size ({self.batch_size})")
        if self.batch_size % self.mini_batch_size:
            raise ValueError(f"mini_batch_size ({self.mini_batch_size}) must divide batch_size ({self.batch_size})")
        if not self.learning_rate > 0 or self.warmup_steps < 0 or self.weight_decay < 0 or not self.max_grad_norm > 0:
            raise ValueError(
                "learning_rate and max_grad_norm must be above 0, warmup_steps and weight_decay at least 0"
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must be at least 0 and below 1, not {self.betas}")


@settings
class Evaluation:
    """Held-out problems, sampled before, during and after training. It changes nothing in the training."""

    source: Source | None = None
    """Where held-out problems come from; nothing means: Countdown's own, or part of the training data set aside."""
    problems: int = 256
    """How many; 0 turns evaluation off."""
    every: int = 0
    """Rollout steps between evaluations during training; 0 means only before and after."""
    num_samples: int = 64
    """Responses to each problem before and after training."""
    num_samples_in_training: int = 16
    """Responses to each problem during training."""
    temperature: float = 0.6
    """The paper evaluates at 0.6."""

    def __post_init__(self) -> None:
        if self.problems < 0 or self.every < 0:
            raise ValueError("evaluate.problems and evaluate.every must not be negative")
        if min(self.num_samples, self.num_samples_in_training) < 1:
            raise ValueError("evaluate.num_samples and evaluate.num_samples_in_training must be at least 1")
        if not self.temperature > 0:
            raise ValueError("evaluate.temperature must be above 0")


@settings
class Log:
    """Loggers beside the run folder."""

    to: tuple[Literal["wandb", "tensorboard"], ...] = ()
    """Any of wandb, tensorboard: pip install 'diver-rl[loggers]'."""
    project: str = "diver"
    """wandb's project."""
