"""Textual diversity: how little the responses of a group share their n-grams (section 3.3, "TD")."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diver.diversity.bleu import bleu_matrix
from diver.diversity.ngrams import Response


def textual_dissimilarity(
    responses: Sequence[Response], *, orders: int = 4, weights: Sequence[float] | None = None, symmetric: bool = False
) -> np.ndarray:
    """D[i, j] = 1 - BLEU(o_i, o_j), float64 [G, G] in [0, 1], with a diagonal of 0.

    BLEU is not symmetric (the brevity penalty falls on the shorter response); `symmetric` takes the mean of both
    directions. Arguments, errors and short or empty responses: see `diver.diversity.bleu.bleu_matrix`.
    """
    d = 1.0 - bleu_matrix(responses, orders, weights)
    return (d + d.T) / 2 if symmetric else d


def textual_diversity(
    responses: Sequence[Response], *, orders: int = 4, weights: Sequence[float] | None = None, symmetric: bool = False
) -> np.ndarray:
    """TD(o_i) = mean over j != i of 1 - BLEU(o_i, o_j), float64 [G] in [0, 1]; one response alone has 0."""
    d = textual_dissimilarity(responses, orders=orders, weights=weights, symmetric=symmetric)
    return d.sum(axis=1) / max(len(d) - 1, 1)
