"""Embedding diversity: how far apart a sentence encoder puts the responses of a group (appendix, metric validity)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from diver.diversity.cosine import cosine_diversity, encode_once
from diver.settings import settings
from diver.types import DiverError


@settings
class Embedding:
    """Which sentence encoder; the default is the paper's."""

    model: str = "google/embeddinggemma-300m"
    """A sentence-transformers model: a folder, or a hub name. Of a response it reads as much as it was made for."""
    prompt: str = ""
    """Put before every response, for encoders that were trained with one."""
    device: str = "auto"
    """auto takes a GPU where there is one; or cpu, cuda, cuda:1."""
    batch: int = 32
    """Responses at a time."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("model must name a sentence-transformers model")
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1, not {self.batch}")


PAPER = Embedding()


def embedding_diversity(responses: Sequence[str], settings: Embedding = PAPER) -> np.ndarray:
    """Mean over j != i of 1 - cos(e_i, e_j) of the responses' embeddings e, float64 [G] in [0, 2].

    DiverError where the model cannot be loaded; one response alone has 0.
    """
    return cosine_diversity(embeddings(responses, settings))


def embeddings(responses: Sequence[str], settings: Embedding = PAPER) -> np.ndarray:
    """e [G, H], float32, as the model gives them. The model is loaded at the first call and kept."""
    encoder = _load(settings.model, settings.device)

    def encode(texts: list[str]) -> np.ndarray:
        return encoder.encode(texts, prompt=settings.prompt, batch_size=settings.batch, show_progress_bar=False)

    return encode_once(responses, encode)


@lru_cache(maxsize=1)
def _load(model: str, device: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise DiverError(f"embedding diversity: {error}: pip install 'diver-rl[embedding]'") from None
    disable_progress_bar()  # of reading the weights
    try:
        return SentenceTransformer(model, device=None if device == "auto" else device, trust_remote_code=False)
    except Exception as error:  # the hub, the files and torch raise some dozens of kinds
        raise DiverError(
            f"diversity.embedding.model {model!r}: cannot be loaded ({' '.join(str(error).split()):.200}); give the folder or the hub name of a "
            "sentence-transformers model"
        ) from None
