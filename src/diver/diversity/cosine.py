"""From one vector a response to how far the responses of a group are apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def cosine_dissimilarity(vectors: np.ndarray) -> np.ndarray:
    """D[i, j] = 1 - cos(v_i, v_j), float64 [G, G] in [0, 2], symmetric with a diagonal of 0, for vectors [G, H].

    A vector of zeros stands for a response without a token: it has 0 to another such, 1 to any other.
    ValueError: no vector, or one that is not finite.
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
    return 1.0 - cosine


def cosine_diversity(vectors: np.ndarray) -> np.ndarray:
    """d(o_i) = mean over j != i of 1 - cos(v_i, v_j), float64 [G] in [0, 2]; one response alone has 0.

    1 - mean d is the mean cosine similarity of the pairs, which is what the paper's appendix tabulates.
    """
    d = cosine_dissimilarity(vectors)
    return d.sum(axis=1) / max(len(d) - 1, 1)


def encode_once(texts: Sequence[str], encode: Callable[[list[str]], np.ndarray]) -> np.ndarray:
    """The vectors of the texts, [G, H]; equal texts are encoded once."""
    if len(texts) == 0:
        raise ValueError("a group needs at least one response")
    encodable = [text.encode("utf-8", "replace").decode() for text in texts]  # tokenizers refuse half a surrogate pair
    index = {text: i for i, text in enumerate(dict.fromkeys(encodable))}
    return encode(list(index))[[index[text] for text in encodable]]
