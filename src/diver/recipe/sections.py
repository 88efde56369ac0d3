"""Settings of the run, the model, sampling, training, evaluation, loggers, and of verl and TRL alone."""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from diver.core.settings import Bound, NonNegative, NonNegativeInt, Positive, PositiveInt, settings, words
from diver.recipe.data import Source


def _without_texts_of_booleans(table: Mapping[str, Any]) -> Mapping[str, Any]:
    for key, value in table.items():
        if isinstance(value, str) and value.lower() in ("true", "false"):  # the text "false" would count as true
            raise ValueError(f"{key}: {value!r} is a text; write {value.lower()} without quotes")
    return table


Variables = Annotated[Mapping[str, bool | int | float | str], AfterValidator(_without_texts_of_booleans)]
Beta = Annotated[float, Field(ge=0, lt=1)]


@settings
class Run:
    """The run folder, the seed and the engine."""

    folder: Annotated[str, Field(min_length=1)] | None = None
    """The run folder. Default: runs/ and the name of the recipe."""
    seed: NonNegativeInt = 0
    """Seed of all random numbers of the run."""
    engine: Literal["builtin", "trl", "verl"] = "builtin"
    """The trainer. With trl it is TRL's GRPOTrainer, and with verl it runs on a cluster."""

    @property
    def engine_name(self) -> str:
        """Its name in config.json and on the console."""
        return "built-in" if self.engine == "builtin" else self.engine


@settings
class Model:
    """The policy, and how it is loaded. Weights and optimizer state are in float32."""

    path: str = "countdown"
    """Folder of the model, or its id on the hub. Folders are in Hugging Face layout. `countdown` is the policy that
    comes with DIVER."""
    revision: str | None = None
    """The commit, tag or branch of a model on the hub."""
    device: Annotated[str, Field(pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")] = "auto"
    """auto, cpu, mps, cuda or cuda:1. With auto, a GPU is used if one is found."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Precision of the computation. With auto, it is bfloat16 on a GPU and float32 on a CPU, so that results do not
    depend on the kind of CPU. Some CPUs are faster in bfloat16; a run of a large model measures it and offers it in one
    line."""
    threads: NonNegativeInt = 0
    """Number of CPU threads; 0 is the default of torch, one per core. Results are reproducible for a fixed number."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass, which saves memory and is about a third slower."""
    attention: str = "sdpa"
    """The attn_implementation of transformers: sdpa, eager or flash_attention_2."""
    chat_template_kwargs: Variables = field(default_factory=dict)
    """Variables of the model's chat template, such as {enable_thinking = false} of Qwen3."""


@settings
class Sampling:
    """How responses are sampled. There is no top-k or top-p, so log-probs are those of the policy at
    this temperature."""

    group_size: Annotated[int, Bound("at least 2", lambda x: x >= 2)] = 8
    """Number of responses to each problem (G), at least 2."""
    temperature: Positive = 1.0
    """Sampling temperature. It divides the logits of the sampler, of old and new log-probs, and of the entropy."""
    max_tokens: PositiveInt = 8192
    """Maximum length of a response in tokens. Longer responses are truncated."""
    max_prompt_tokens: PositiveInt = 1024
    """Maximum length of a rendered prompt, in tokens. Problems with longer prompts are skipped and counted."""
    max_num_seqs: NonNegativeInt = 0
    """Number of responses sampled at a time; 0: automatic. Automatic is what fits into the free memory of a
    GPU, up to 1,024. On a CPU it is 512, or fewer where responses may be long. A new response takes the place of one
    that ends."""
    stop_token_ids: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Tokens that end a response, besides those of model and tokenizer: 151645 for a Qwen2.5 base model in ChatML."""


@settings
class Update:
    """The update: one optimizer step for each mini-batch of a rollout batch, which is used once."""

    mini_batch_size: PositiveInt = 32
    """Number of problems in one optimizer step. Their groups are never split. If a selection leaves fewer groups than a
    batch, they are spread evenly over as few steps as this allows."""
    learning_rate: NonNegative = 1e-6
    """Learning rate of AdamW."""
    warmup_steps: NonNegativeInt = 0
    """Number of rollout steps over which the learning rate rises linearly to its full value."""
    weight_decay: NonNegative = 0.01
    """Weight decay of AdamW."""
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    """beta1 and beta2 of AdamW."""
    max_grad_norm: Positive = 1.0
    """Maximum norm of the gradient of a mini-batch (gradient clipping)."""
    micro_batch_tokens: PositiveInt = 16384
    """Maximum number of tokens in one forward pass. A prompt that is run once for several responses counts once.
    Padding counts where the model needs it. Results do not depend on this value."""
    skip_zero_advantage: bool = True
    """Skip the forward pass of responses whose gradient is exactly zero. The gradient is the same."""


@settings
class Train(Update):
    """The number of steps, the batch size, and checkpoints."""

    steps: PositiveInt = 350
    """Number of rollout steps. In each, a batch of groups is sampled and the policy is updated on it."""
    batch_size: PositiveInt = 128
    """Number of problems in one rollout step."""
    save_steps: PositiveInt = 10
    """Number of rollout steps between checkpoints. A killed run resumes from the last one."""
    save_minutes: NonNegative = 30.0
    """Maximum number of minutes between checkpoints; 0: no limit. A checkpoint is saved at the end of a step. SIGTERM
    and Ctrl-C save one, too."""
    save_total_limit: PositiveInt = 2
    """Number of checkpoints kept; older ones are deleted."""

    def __post_init__(self) -> None:
        if self.batch_size % self.mini_batch_size:
            raise ValueError(f"mini_batch_size ({self.mini_batch_size}) must divide batch_size ({self.batch_size})")


@settings
class Evaluation:
    """Evaluation on held-out problems before, during and after training. It does not influence the training."""

    source: Source | None = None
    """Source of the held-out problems. Default: the held-out problems of a testbed, else a part of the training data,
    which is then excluded from training."""
    problems: NonNegativeInt = 64
    """Number of held-out problems; 0: no evaluation. The default takes at most half of the training data. With the
    defaults, an evaluation before or after training samples as many responses as one rollout step, 64 x 16 = 128 x
    8."""
    every: NonNegativeInt = 0
    """Steps between evaluations; 0: none during training."""
    num_samples: PositiveInt = 16
    """Responses to each problem before and after training."""
    num_samples_in_training: PositiveInt = 4
    """Number of responses to each problem during training."""
    temperature: Positive = 0.6
    """Sampling temperature of the evaluation. The paper has 0.6."""


@settings
class Log:
    """Loggers in addition to metrics.jsonl in the run folder."""

    to: Annotated[tuple[Literal["wandb", "tensorboard", "mlflow", "trackio"], ...], BeforeValidator(words)] = ()
    """Loggers in addition to metrics.jsonl. Each is a package to install."""
    project: str = "diver"
    """The project of wandb and trackio, the experiment of mlflow."""


@settings
class Cluster:
    """How verl runs the recipe. The built-in trainer ignores these settings."""

    nodes: PositiveInt = 1
    """Number of nodes. Each has `gpus` GPUs, and all are in one Ray cluster."""
    gpus: PositiveInt = 8
    """Number of GPUs per node."""
    tensor_parallel: PositiveInt = 1
    """Number of GPUs over which vLLM shards the model (tensor parallelism)."""
    gpu_memory_utilization: Annotated[float, Bound("above 0 and below 1", lambda x: 0 < x < 1)] = 0.85
    """Fraction of each GPU's memory that vLLM may use while it samples."""
    tokens_per_gpu: NonNegativeInt = 0
    """Maximum number of tokens per GPU in one forward pass (dynamic batch size). With 0, it is 16,384, or the longest
    prompt and response together where these are longer."""
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
    """Maximum number of responses of a process in one forward pass. The number taken divides its part of a
    mini-batch."""
    lora_rank: NonNegativeInt = 0
    """Rank of the LoRA adapters; 0: train all weights. Adapters (arXiv 2106.09685) are trained by peft in place of the
    weights."""
    lora_learning_rate: NonNegative | None = None
    """Learning rate of the adapters. Default: ten times train.learning_rate, which is that of the weights (Schulman et
    al. 2025, LoRA Without Regret)."""
    lora_alpha: Positive = 32.0
    """Scale of the adapters: their product is multiplied by lora_alpha / lora_rank."""
    lora_dropout: NonNegative = 0.0
    """Dropout of the input of the adapters."""
    lora_targets: tuple[str, ...] = ()
    """Names of the modules that have an adapter; the default is every linear layer but the output."""
    quantization: Literal["none", "8bit", "4bit"] = "none"
    """Precision of the frozen weights under LoRA, by bitsandbytes; 4bit is QLoRA's NF4 (arXiv 2305.14314)."""
    vllm: Literal["off", "colocate", "server"] = "off"
    """Whether and where vLLM samples. With colocate it samples on the GPUs of the training, with server on a server
    started by `vllm serve`."""
    deepspeed: str | None = None
    """A DeepSpeed configuration, a JSON file."""
    options: Variables = field(default_factory=dict)
    """Other fields of TRL's GRPOConfig, applied last, such as {vllm_gpu_memory_utilization = 0.3}."""

    def __post_init__(self) -> None:
        if self.quantization != "none" and not self.lora_rank:
            raise ValueError(f"quantization = {self.quantization!r} freezes the weights: give lora_rank, such as 16")
