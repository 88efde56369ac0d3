"""Settings of the run, the model, sampling, training, evaluation and loggers."""

from __future__ import annotations

import re
from typing import Literal

from diver.config.data import Source
from diver.settings import settings


@settings
class Run:
    """The run folder and the seed."""

    folder: str | None = None
    """The run folder; the default is runs/ and the name of the recipe."""
    seed: int = 0
    """Seed of all random numbers of the run."""

    def __post_init__(self) -> None:
        if self.folder == "":
            raise ValueError("folder must not be empty")


@settings
class Model:
    """The policy, and how it is loaded. Weights and optimizer state are in float32."""

    path: str = "countdown"
    """A folder in Hugging Face layout, the id of a model on the hub, or `countdown` for the bundled policy."""
    revision: str | None = None
    """The commit, tag or branch of a model on the hub."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1 and so on. auto selects a GPU where there is one."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the computation; auto is bfloat16 on a GPU and float32 on a CPU."""
    threads: int = 0
    """Number of CPU threads; 0 is the default of torch, one per core. Results are reproducible for a fixed number of
    threads."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass, which saves memory and is about a third slower."""
    attention: str = "sdpa"
    """The attn_implementation of transformers: sdpa, eager, flash_attention_2 and so on."""

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise ValueError(f"threads must be at least 0, not {self.threads}")
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", self.device):
            raise ValueError(f"device must be auto, cpu, mps, cuda or cuda:N, not {self.device!r}")


@settings
class Sampling:
    """How responses are sampled. There is no top-k or top-p, so log-probs are those of the policy at this temperature."""

    group_size: int = 8
    """Number of responses to each problem (G)."""
    temperature: float = 1.0
    """Sampling temperature. It divides the logits of the sampler, of old and new log-probs, and of the entropy."""
    max_tokens: int = 8192
    """Maximum length of a response, in tokens of the policy; longer responses are truncated."""
    max_prompt_tokens: int = 1024
    """Maximum length of a rendered prompt, in tokens. Problems with longer prompts are skipped and counted."""
    max_num_seqs: int = 512
    """Maximum number of responses sampled at a time. The memory of the key-value cache grows with it."""

    def __post_init__(self) -> None:
        if self.group_size < 2:
            raise ValueError(f"sample.group_size: G is {self.group_size}; a group needs at least 2 responses to differ")
        if not self.temperature > 0:
            raise ValueError("sample.temperature must be above 0")
        if min(self.max_tokens, self.max_prompt_tokens, self.max_num_seqs) < 1:
            raise ValueError("sample.max_tokens, sample.max_prompt_tokens and sample.max_num_seqs must be at least 1")


@settings
class Update:
    """The update: one optimizer step for each mini-batch of a rollout batch, which is used once."""

    mini_batch_size: int = 32
    """Number of problems, with their whole groups, in one optimizer step."""
    learning_rate: float = 1e-6
    """Learning rate of AdamW."""
    warmup_steps: int = 0
    """Number of rollout steps over which the learning rate rises linearly to its full value."""
    weight_decay: float = 0.01
    """Weight decay of AdamW."""
    betas: tuple[float, float] = (0.9, 0.999)
    """beta1 and beta2 of AdamW."""
    max_grad_norm: float = 1.0
    """Maximum norm of the gradient of a mini-batch (gradient clipping)."""
    micro_batch_tokens: int = 16384
    """Maximum number of prompt and response tokens in one forward pass, padding included. The logits take about 16 bytes
    for each of these tokens and each token of the vocabulary. Results do not depend on it."""
    skip_zero_advantage: bool = True
    """Skip the forward pass of responses whose gradient is exactly zero. The gradient is the same."""


@settings
class Train(Update):
    """The number of steps, the batch size, and checkpoints."""

    steps: int = 350
    """Number of rollout steps. In each, a batch of groups is sampled and the policy is updated on it."""
    batch_size: int = 128
    """Number of problems in one rollout step."""
    save_steps: int = 10
    """Number of rollout steps between checkpoints. A killed run resumes from the last one."""
    save_total_limit: int = 2
    """Number of checkpoints kept; older ones are deleted."""

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
    """Evaluation on held-out problems before, during and after training. It does not influence the training."""

    source: Source | None = None
    """Source of the held-out problems. The default is Countdown's held-out problems, or a part of the training data that is
    then excluded from training."""
    problems: int = 256
    """Number of held-out problems; 0 disables evaluation."""
    every: int = 0
    """Number of rollout steps between evaluations; 0 means only before and after training."""
    num_samples: int = 64
    """Number of responses to each problem before and after training."""
    num_samples_in_training: int = 16
    """Number of responses to each problem during training."""
    temperature: float = 0.6
    """Sampling temperature of the evaluation; 0.6 in the paper."""

    def __post_init__(self) -> None:
        if self.problems < 0 or self.every < 0:
            raise ValueError("evaluate.problems and evaluate.every must not be negative")
        if min(self.num_samples, self.num_samples_in_training) < 1:
            raise ValueError("evaluate.num_samples and evaluate.num_samples_in_training must be at least 1")
        if not self.temperature > 0:
            raise ValueError("evaluate.temperature must be above 0")


@settings
class Log:
    """Loggers in addition to metrics.jsonl in the run folder."""

    to: tuple[Literal["wandb", "tensorboard"], ...] = ()
    """Any of wandb and tensorboard, which need pip install 'diver-rl[loggers]'."""
    project: str = "diver"
    """The project of wandb."""
