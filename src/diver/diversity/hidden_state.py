"""Hidden-state diversity: how far apart a language model's own states of the responses are (appendix, metric validity).

The paper names the model and the layer, and neither what is averaged nor what stands before the response. Ours: the mean
of the last layer's states, after the final norm, over the tokens of the bare response.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from diver.diversity.cosine import cosine_diversity, encode_once
from diver.settings import settings
from diver.types import DiverError


@settings
class HiddenState:
    """Which language model; the default is the paper's."""

    model: str = "Qwen/Qwen2.5-7B-Instruct"
    """A causal model: a folder in Hugging Face layout, or a hub name. Weights are float32, on a GPU bfloat16."""
    device: str = "auto"
    """auto takes a GPU where there is one; or cpu, cuda, cuda:1."""
    max_tokens: int | None = None
    """Only the first so many tokens of a response; none: as many as the model has positions."""
    batch_tokens: int = 16384
    """Tokens at a time, padding included."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("model must name a causal language model")
        for name in ("max_tokens", "batch_tokens"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")


PAPER = HiddenState()


def hidden_state_diversity(responses: Sequence[str], settings: HiddenState = PAPER) -> np.ndarray:
    """Mean over j != i of 1 - cos(h_i, h_j) of the responses' mean last states h, float64 [G] in [0, 2].

    DiverError where the model cannot be loaded; one response alone has 0.
    """
    return cosine_diversity(hidden_states(responses, settings))


def hidden_states(responses: Sequence[str], settings: HiddenState = PAPER) -> np.ndarray:
    """h [G, H], float32; zeros for a response without a token. The model is loaded at the first call and kept."""
    model, tokenizer = _load(settings.model, settings.device)
    import torch

    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    longest = min([n for n in (settings.max_tokens, positions) if n] or [1 << 30])

    def encode(texts: list[str]) -> np.ndarray:
        ids = [row[:longest] for row in tokenizer(texts)["input_ids"]]
        states = np.zeros((len(texts), model.config.get_text_config().hidden_size), np.float32)
        with torch.inference_mode():
            for index in _batches([len(row) for row in ids], settings.batch_tokens):
                states[index] = _mean_states(model, [ids[i] for i in index])
        return states

    return encode_once(responses, encode)


def _mean_states(model: Any, ids: list[list[int]]) -> np.ndarray:
    """[rows, H]: padded on the right, where the causal mask hides the padding from every token."""
    import torch

    width = max(map(len, ids))
    length = torch.tensor([len(row) for row in ids], device=model.device)
    tokens = torch.tensor([row + [0] * (width - len(row)) for row in ids], device=model.device)
    mask = torch.arange(width, device=model.device) < length[:, None]
    states = model(input_ids=tokens, attention_mask=mask.long(), use_cache=False).last_hidden_state.float()
    return ((states * mask[..., None]).sum(1) / length[:, None]).cpu().numpy()


def _batches(length: list[int], batch_tokens: int) -> Iterator[list[int]]:
    """The rows that have a token, the longest first, as many at a time as fit when padded; at least one."""
    batch: list[int] = []
    for i in sorted((i for i, n in enumerate(length) if n), key=lambda i: -length[i]):
        if batch and (len(batch) + 1) * length[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


@lru_cache(maxsize=1)
def _load(model: str, device: str) -> tuple[Any, Any]:
    try:
        import torch
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise DiverError(f"hidden-state diversity: {error}: pip install 'diver-rl[train]'") from None
    disable_progress_bar()  # of reading the weights
    target = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    dtype = torch.bfloat16 if target.startswith("cuda") else torch.float32
    try:
        tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        loaded: Any = AutoModel.from_pretrained(model, dtype=dtype, trust_remote_code=False)
        return loaded.to(target).eval(), tokenizer
    except Exception as error:  # the hub, the files and torch raise some dozens of kinds
        raise DiverError(
            f"diversity.hidden_state.model {model!r}: cannot be loaded ({' '.join(str(error).split()):.200}); give the folder or the hub name of "
            "a causal language model"
        ) from None
