"""A policy: loading it (the bundled one, a Hugging Face folder, or a hub name), and the log-probs of its tokens."""

import json
import timeit
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils.logging import disable_progress_bar

from diver.core.extras import missing
from diver.core.seeds import digest
from diver.core.types import DiverError, Diverged
from diver.recipe.data import POLICIES
from diver.recipe.sections import Model
from diver.tasks import hub
from diver.tasks.templates import with_chat_template_kwargs
from diver.tasks.testbeds import policy_folder

BF16_PARAMETERS = 50_000_000  # in smaller models, the conversion costs what bfloat16 saves
BF16_SPEEDUP = 1.5  # bfloat16 is worth its rounding if it multiplies matrices this many times faster
CHUNK_ELEMENTS = 1 << 27  # logits that are computed at a time; 512 MB in float32
ADAPTERS = "adapter_config.json"  # the file that marks a folder of LoRA adapters saved by peft


class Policy(NamedTuple):
    model: Any
    tokenizer: Any
    precision: torch.dtype | None
    """The dtype of autocast; None if the model computes in the dtype of its weights."""


class Configuration(NamedTuple):
    """Configuration and tokenizer of a policy, without its weights."""

    config: Any
    generation_config: Any
    tokenizer: Any


def positions(config: Any) -> int | None:
    """The maximum number of tokens of a prompt and its response; None if the configuration does not say.

    For LongRoPE (Phi-3, Phi-4-mini) these are the original positions. Beyond them, transformers uses other rotation
    factors for all uncached positions of a batch. A response would then depend on the others in its batch.
    """
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    if rope.get("rope_type", rope.get("type")) == "longrope":
        return rope.get("original_max_position_embeddings") or getattr(text, "original_max_position_embeddings", None)
    return getattr(text, "max_position_embeddings", None)


def hidden_states(model: Any, **inputs: Any) -> Tensor:
    """The last hidden states of a causal model, before its head: [n, T, d]."""
    return model.base_model(**inputs).last_hidden_state


def logits_of(model: Any, hidden: Tensor) -> Tensor:
    """The model's head on hidden states [..., d]: [..., V]. `load_policy` checks that it is the complete head."""
    config, logits = model.config.get_text_config(), model.get_output_embeddings()(hidden)
    if (scale := getattr(config, "logit_scale", None)) is not None:  # Cohere
        logits = logits * scale
    if (divisor := getattr(config, "logits_scaling", None)) is not None:  # Granite
        logits = logits / divisor
    if (cap := getattr(config, "final_logit_softcapping", None)) is not None:  # Gemma
        logits = torch.tanh(logits / cap) * cap
    return logits


def token_logprobs(
    hidden: Tensor,
    tokens: Tensor,
    head: Callable[[Tensor], Tensor],
    temperature: float,
    *,
    vocabulary: int,
    with_entropy: bool = False,
    top_p: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """log pi of each token and the entropy in nats of its distribution, at logits / temperature: [N] each, in float32.

    Without `with_entropy` the entropies are 0. With `top_p` the entropy is that of the nucleus (`entropy`). `head` maps
    hidden states [n, d] to logits [n, V].

    More than CHUNK_ELEMENTS logits are computed in chunks, and again in the backward pass, so the memory does not grow
    with N V. Values and gradients are the same.
    """

    def scores(hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        logp = torch.log_softmax(head(hidden).float() / temperature, -1)
        logprobs = logp.gather(-1, tokens[:, None])[:, 0]
        return logprobs, entropy(logp, top_p) if with_entropy else torch.zeros_like(logprobs)

    chunk_size = max(1, CHUNK_ELEMENTS // vocabulary)
    if len(tokens) <= chunk_size:
        return scores(hidden, tokens)
    chunks = [
        checkpoint(scores, *chunk, use_reentrant=False, preserve_rng_state=False)
        for chunk in zip(hidden.split(chunk_size), tokens.split(chunk_size), strict=True)
    ]
    logprobs, entropies = zip(*chunks, strict=True)
    return torch.cat(logprobs), torch.cat(entropies)


def entropy(logp: Tensor, top_p: float = 1.0) -> Tensor:
    """Entropy in nats of distributions given by their log-probs [..., V]: [...].

    With `top_p` below 1, it is the entropy of the renormalised nucleus: the smallest set of the most likely tokens
    whose probability is at least `top_p`. Which tokens are in the nucleus has no gradient.
    """
    if top_p < 1:
        ordered, order = logp.detach().sort(descending=True, stable=True)
        mass_before = ordered.exp().cumsum(-1) - ordered.exp()
        nucleus = torch.zeros_like(order, dtype=torch.bool).scatter(-1, order, mass_before < top_p)
        logp = torch.log_softmax(logp.masked_fill(~nucleus, -1e4), -1)  # exp gives 0; -inf would give 0 * inf = NaN
    return -(logp.exp() * logp).sum(-1)


@contextmanager
def attention(model: Any, name: str, function: Callable[..., tuple[Tensor, None]]) -> Iterator[None]:
    """Replace the attention of a model by a function that gets no masks, registered in transformers under `name`."""
    config = model.config.get_text_config()
    original = config._attn_implementation
    AttentionInterface.register(name, function)
    config._attn_implementation = name  # transformers makes no masks for a name that it does not know
    try:
        yield
    finally:
        config._attn_implementation = original


def load_policy(settings: Model, checkpoint: Path | None = None, *, inference: bool = False) -> Policy:
    """The policy; with `checkpoint`, its weights and tokenizer come from there.

    For training, weights are in float32, and bfloat16 is the dtype of autocast. For `inference` alone, the weights
    themselves are in bfloat16. This takes a third of the memory of float32 weights and autocast's copy of them.
    """
    path = _locate(settings, checkpoint)
    device = find_device(settings)
    uses_bfloat16 = settings.precision == "bfloat16" or (settings.precision == "auto" and device.type == "cuda")
    weight_dtype = torch.bfloat16 if uses_bfloat16 and inference else torch.float32
    if settings.threads:
        torch.set_num_threads(settings.threads)
    disable_progress_bar()  # a second progress bar would break ours
    options = {"revision": settings.revision} if settings.revision and not checkpoint else {}
    try:
        tokenizer = _tokenizer(path, settings, options)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=weight_dtype,
            attn_implementation=settings.attention,
            trust_remote_code=False,
            output_loading_info=True,
            **options,
        )
        model, loading_info = loaded
        if missing_weights := sorted(loading_info["missing_keys"]):  # transformers draws them at random and only warns
            raise ValueError(f"its files lack {len(missing_weights)} weights, such as {missing_weights[0]}")
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as e:
        name = f"model.path {settings.path!r}"
        advice = (
            "give a folder with config.json, weights and tokenizer, a model's name on the hub, "
            f"or one of {', '.join(POLICIES)}"
        )
        if "attention implementation" in str(e) or "attn_implementation" in str(e):
            advice = "set model.attention, to 'eager' for one"
        elif checkpoint:
            name = f"checkpoint {checkpoint}"
            advice = "if its files are damaged, delete it to resume from the previous one"
        raise DiverError(f"{name}: cannot be loaded ({hub.one_line(e)}); {advice}") from None
    model = model.to(device)
    _check_head(model)
    by_onednn(model)
    if settings.gradient_checkpointing:
        # transformers 5.23 calls it activation checkpointing.
        enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    return Policy(model, tokenizer, torch.bfloat16 if uses_bfloat16 and not inference else None)


def precision_note(settings: Model, model: Any) -> str:
    """A line that suggests bfloat16, for a large model on a CPU that is faster in it; else ""."""
    if settings.precision != "auto" or model.device.type != "cpu" or model.num_parameters() < BF16_PARAMETERS:
        return ""
    if (speedup := bf16_speedup()) < BF16_SPEEDUP:
        return ""
    return f"this CPU multiplies matrices {speedup:.1f} times as fast in bfloat16: --model.precision bfloat16"


def bf16_speedup() -> float:
    """How many times as fast a linear layer of a policy is in bfloat16 as in float32, measured in about 0.1 s.

    It is measured, because the features that a CPU reports do not tell.
    """

    def seconds(dtype: torch.dtype) -> float:
        layer, rows = torch.nn.Linear(1024, 1024, bias=False, dtype=dtype), torch.ones(512, 1024, dtype=dtype)
        by_onednn(layer)
        with torch.inference_mode():
            return min(timeit.repeat(lambda: layer(rows), number=1))

    return seconds(torch.float32) / seconds(torch.bfloat16)


@torch.no_grad()
def _check_head(model: Any) -> None:
    """DiverError if `logits_of` does not give the model's logits, or if these are NaN."""
    inputs = {"input_ids": torch.tensor([[0, 1]], device=model.device), "use_cache": False}
    logits, outputs = model.eval()(**inputs).logits, model.base_model(**inputs)
    hidden = getattr(outputs, "last_hidden_state", None)
    kind = model.config.model_type
    if logits.isnan().any():
        raise Diverged(
            f"model type {kind!r}: its logits are NaN, so some of its weights are no numbers; give another checkpoint"
        )
    # Rounding in float32 stays far below 1e-3. A head that scales or caps its logits differs by more.
    if hidden is None or not torch.allclose(logits_of(model, hidden), logits, 1e-3, 1e-3):
        raise DiverError(f"model type {kind!r}: its output head is not supported; TRL or verl may train it")


def weights_digest(model: Any) -> str:
    """Changes with any weight: a digest of the sum and the norm of every parameter, in float64."""
    with torch.no_grad():
        weights = [p.detach() for p in model.parameters()]
        sums = torch.stack([w.sum(dtype=torch.float64) for w in weights])
        norms = torch.stack([torch.linalg.vector_norm(w, dtype=torch.float64) for w in weights])
    return digest(sums.tolist(), norms.tolist())


def find_device(settings: Model) -> torch.device:
    """The device of the settings. DiverError if this machine or this torch does not support it."""
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(automatic if settings.device == "auto" else settings.device)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as e:
        reason = str(e).splitlines()[0]
        raise DiverError(f"model.device {settings.device!r}: {reason}; choose auto, cpu or cuda") from None
    return device


def load_configuration(settings: Model) -> Configuration:
    """Configuration and tokenizer. DiverError if `path` is no model, or one of the two cannot be loaded."""
    path = _locate(settings)
    options: dict[str, Any] = {"revision": settings.revision} if settings.revision else {}
    try:
        tokenizer = _tokenizer(path, settings, options)
        base, adapters = path, Path(path) / ADAPTERS
        if adapters.exists():  # transformers loads adapters together with their base model
            if find_spec("peft") is None:
                raise DiverError(f"{path}: has LoRA adapters; {missing('peft')}")
            base = str(json.loads(adapters.read_text(encoding="utf-8"))["base_model_name_or_path"])
        config = AutoConfig.from_pretrained(base, trust_remote_code=False, **options)
    except (OSError, ValueError, KeyError, ImportError) as e:
        raise DiverError(f"model.path {settings.path!r}: cannot be loaded ({hub.one_line(e)})") from None
    try:
        generation_config = GenerationConfig.from_pretrained(base, **options)
    except OSError:  # generation_config.json is optional
        generation_config = GenerationConfig.from_model_config(config)
    return Configuration(config, generation_config, tokenizer)


def _tokenizer(path: str, settings: Model, options: Mapping[str, Any]) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False, **options)
    tokenizer.clean_up_tokenization_spaces = False  # else it decodes "[1 , 2] !" as "[1, 2]!"
    return with_chat_template_kwargs(tokenizer, settings.chat_template_kwargs, "model.chat_template_kwargs")


def _locate(settings: Model, checkpoint: Path | None = None) -> str:
    """The folder or the hub name to load from.

    Raises:
        DiverError: The hub lacks the model, or the folder lacks a configuration, weights or a tokenizer.
    """
    folder = checkpoint or policy_folder(settings.path) or Path(settings.path).expanduser()
    name = f"checkpoint {checkpoint}" if checkpoint else f"model.path {settings.path!r}"
    if not folder.is_dir():
        if checkpoint:
            raise DiverError(f"{name}: is no folder; give one of RUN/checkpoints")
        try:
            hub.newest_commit(settings.path, "model", settings.revision)
        except DiverError as e:
            raise type(e)(f"model.path {e}") from None
        return str(folder)
    needed = {
        "config.json": ("config.json", ADAPTERS),
        "tokenizer (tokenizer.json)": ("tokenizer.json", "tokenizer.model", "vocab.json", "tokenizer_config.json"),
        "weights (*.safetensors)": ("*.safetensors", "*.bin"),
    }
    if lacks := [f"no {what}" for what, files in needed.items() if not any(any(folder.glob(file)) for file in files)]:
        advice = "save_pretrained of a model and of its tokenizer writes them"
        raise DiverError(f"{name}: the folder has {', '.join(lacks)}; {advice}")
    return str(folder)


ONEDNN = (
    torch.backends.mkldnn.is_available()
    and torch.backends.mkl.is_available()
    and hasattr(torch.ops.mkldnn, "_linear_pointwise")
)
"""Whether this torch has both oneDNN and MKL. Without MKL, its products are those of the processor's vendor already."""


def by_onednn(model: torch.nn.Module) -> None:
    """On a CPU with AVX-512, let the linear layers of a module, itself included, compute by oneDNN if torch has it.

    ATEN_CPU_CAPABILITY=avx2 keeps the default products of torch.
    """
    on_cpu = next(model.parameters()).device.type == "cpu"
    if on_cpu and ONEDNN and torch.backends.cpu.get_cpu_capability() == "AVX512":
        for module in model.modules():
            if type(module) is torch.nn.Linear:
                module.__class__ = Linear


class Linear(torch.nn.Linear):
    """torch's linear layer with products by oneDNN. Weights are the same, and results are the same up to rounding.

    torch multiplies float32 matrices by MKL. It also has oneDNN, which takes 0.8 of the CPU seconds of a rollout batch
    and its update on an AMD processor with AVX-512. On another processor, and without AVX-512, both take the same time
    (benchmarks/engine.py, "without products by oneDNN"). The two differ by rounding, so a choice by a measurement at
    the start could change the numbers of a run that is resumed. The processor's capability is the same at each start.
    """

    def forward(self, x: Tensor) -> Tensor:
        in_float32 = x.dtype == self.weight.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
        if not in_float32 or not x.numel():  # oneDNN does not multiply an empty matrix
            return super().forward(x)
        product = _Product.apply if torch.is_grad_enabled() else _product
        return product(x, self.weight, self.bias)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., i] times weight [o, i] transposed, plus bias [o]: [..., o]."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _Product(torch.autograd.Function):
    """`_product` with its gradient, which takes two more products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        rows = dy.flatten(0, -2)
        return (
            _product(dy, weight.T) if ctx.needs_input_grad[0] else None,
            _product(rows.T, x.flatten(0, -2).T) if ctx.needs_input_grad[1] else None,
            rows.sum(0) if ctx.needs_input_grad[2] else None,
        )
