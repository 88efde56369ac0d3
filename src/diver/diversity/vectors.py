"""Diversity by a model: the distances between the vectors of the responses (paper's appendix, metric validity).

The paper names the models and the layer of hidden states. It does not say what is averaged, nor what precedes the
response. Ours: the mean of the last layer's states, after the final norm, over the tokens of the bare response. A model
is loaded at the first call and cached. DiverError if it cannot be loaded.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import numpy as np

from diver.core.extras import install
from diver.core.settings import PositiveInt, settings
from diver.core.types import DiverError


@settings
class Embedding:
    """Which sentence encoder; the default is the paper's."""

    model: str = "google/embeddinggemma-300m"
    """A sentence-transformers model: a folder, or a hub name. Longer responses are truncated to its maximum length."""
    prompt: str = ""
    """Put before every response, for encoders that were trained with one."""
    device: str = "auto"
    """auto (a GPU if there is one), cpu, cuda or cuda:1."""
    batch: PositiveInt = 32
    """Responses at a time."""


@settings
class HiddenState:
    """Which language model; the default is the paper's."""

    model: str = "Qwen/Qwen2.5-7B-Instruct"
    """A causal model: a folder in Hugging Face layout, or a hub name. Weights are float32, on a GPU bfloat16."""
    device: str = "auto"
    """auto (a GPU if there is one), cpu, cuda or cuda:1."""
    max_tokens: PositiveInt | None = None
    """The maximum number of tokens read from a response; none: as many as the model has positions."""


def embedding_diversity(responses: Sequence[str], settings: Embedding | None = None) -> np.ndarray:
    """Mean over j != i of 1 - cos(e_i, e_j) of the responses' embeddings e, float64 [G] in [0, 2]; one alone has 0."""
    return cosine_diversity(embeddings(responses, settings or Embedding()))


def hidden_state_diversity(responses: Sequence[str], settings: HiddenState | None = None) -> np.ndarray:
    """Mean over j != i of 1 - cos(h_i, h_j) of the responses' hidden states h, float64 [G] in [0, 2]; one alone: 0."""
    return cosine_diversity(hidden_states(responses, settings or HiddenState()))


def embeddings(responses: Sequence[str], settings: Embedding) -> np.ndarray:
    """e [G, H], float32."""
    encoder = _encoder(settings.model, settings.device)
    encode = partial(encoder.encode, prompt=settings.prompt, batch_size=settings.batch, show_progress_bar=False)
    return encode_once(responses, encode)


def hidden_states(responses: Sequence[str], settings: HiddenState, prompt: str = "") -> np.ndarray:
    """h [G, H], float32: the mean over the tokens of each response; zeros for a response without a token.

    The model reads a rendered `prompt` before each response. The first token is then the beginning-of-sequence token,
    if its tokenizer begins texts with one.
    """
    model, tokenizer = _language_model(settings.model, settings.device)
    import torch

    text_config = model.config.get_text_config()
    positions = getattr(text_config, "max_position_embeddings", None) or 1 << 30
    longest = min(settings.max_tokens or positions, positions)

    def encode(texts: list[str]) -> np.ndarray:
        states = np.zeros((len(texts), text_config.hidden_size), np.float32)
        prefix = tokenizer(prompt, add_special_tokens=False)["input_ids"] if prompt else []
        bos = [token for token in tokenizer("")["input_ids"] if token == tokenizer.bos_token_id]
        # A rendered prompt may begin with the beginning-of-sequence token already.
        prefix = prefix if prefix[:1] == bos[:1] else bos + prefix
        for i, ids in enumerate(tokenizer(texts, add_special_tokens=False)["input_ids"]):
            if ids:
                tokens = torch.tensor([[*prefix, *ids[:longest]][-positions:]], device=model.device)
                with torch.inference_mode():
                    last = model(input_ids=tokens, use_cache=False).last_hidden_state[0, -len(ids[:longest]) :]
                states[i] = last.float().mean(0).cpu().numpy()
        return states

    return encode_once(responses, encode)


def cosine_diversity(vectors: np.ndarray) -> np.ndarray:
    """d(o_i) = mean over j != i of 1 - cos(v_i, v_j), float64 [G] in [0, 2], of vectors [G, H]; one alone has 0.

    1 - mean d is the mean cosine similarity of the pairs, as in the paper's appendix. ValueError: see `cosines`.
    """
    return (1.0 - cosines(vectors)).sum(axis=1) / max(len(vectors) - 1, 1)


def cosines(vectors: np.ndarray) -> np.ndarray:
    """cos(v_i, v_j), float64 [G, G], of vectors [G, H]; 1 on the diagonal.

    A vector of zeros is a response without a token. Its cosine is 1 with another such response, else 0.

    Raises:
        ValueError: no vector is given, or a vector is not finite.
    """
    v = np.asarray(vectors, dtype=np.float64)
    if v.ndim != 2 or not len(v):
        raise ValueError(f"vectors must be [G, H] with at least one response: got shape {v.shape}")
    if not np.isfinite(v).all():
        raise ValueError(f"the vector of response {int(np.isfinite(v).all(axis=1).argmin())} is not finite")
    norm = np.linalg.norm(v, axis=1, keepdims=True)
    unit = v / np.where(norm > 0, norm, 1.0)
    cosine = np.clip(unit @ unit.T, -1.0, 1.0)
    empty = norm[:, 0] == 0
    cosine[np.ix_(empty, empty)] = 1.0
    np.fill_diagonal(cosine, 1.0)
    return cosine


def encode_once(texts: Sequence[str], encode: Callable[[list[str]], np.ndarray]) -> np.ndarray:
    """The vectors of the texts, [G, H]; equal texts are encoded once."""
    if len(texts) == 0:
        raise ValueError("a group needs at least one response")
    encodable = [text.encode("utf-8", "replace").decode() for text in texts]  # tokenizers refuse half a surrogate pair
    index = {text: i for i, text in enumerate(dict.fromkeys(encodable))}
    return encode(list(index))[[index[text] for text in encodable]]


@lru_cache(maxsize=1)
def _encoder(model: str, device: str) -> Any:
    with _loading(f"diversity.embedding.model {model!r}", "a sentence-transformers model", "embedding"):
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(model, device=None if device == "auto" else device, trust_remote_code=False)


@lru_cache(maxsize=1)
def _language_model(model: str, device: str) -> tuple[Any, Any]:
    with _loading(f"diversity.hidden_state.model {model!r}", "a causal language model", "train"):
        import torch
        from transformers import AutoModel, AutoTokenizer

        target = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        dtype = torch.bfloat16 if target.startswith("cuda") else torch.float32
        tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        loaded: Any = AutoModel.from_pretrained(model, dtype=dtype, trust_remote_code=False)
        return loaded.to(target).eval(), tokenizer


@contextmanager
def _loading(model: str, kind: str, extra: str) -> Iterator[None]:
    """Turn an error of the block into a DiverError."""
    try:
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # hides the progress bar of loading weights
        yield
    except ImportError as error:
        raise DiverError(f"{model}: {error}: {install(extra)}") from None
    except Exception as error:  # the hub, the file system and torch raise dozens of exception types
        reason = " ".join(str(error).split())
        raise DiverError(f"{model}: cannot be loaded ({reason:.200}); give the folder or hub name of {kind}") from None
