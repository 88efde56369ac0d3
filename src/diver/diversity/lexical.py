"""Two older measures of n-gram diversity, response by response: Distinct-n and Self-BLEU, in time linear in the text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diver.diversity.ngrams import Ngrams, Response, number_tokens, order_weights, repeated_ngrams, weights_by_length


def distinct_n(responses: Sequence[Response], *, orders: int = 4, weights: Sequence[float] | None = None) -> np.ndarray:
    """d(o_i) = mean over n of the mean over the n-grams g of o_i of 1 / count(g) in the group, float64 [G] in [0, 1].

    For each n, the mean of these over the responses, weighted by their numbers of n-grams, is the Distinct-n of the group
    (arXiv 1510.03055): its distinct n-grams, divided by all of them. So d(o_i) is what o_i contributes. `weights` of
    the orders are scaled to the sum 1. A response shorter than n is judged by the orders it has; an empty one has 0.
    Errors: as `diver.diversity.bleu.bleu_matrix`.
    """
    weight = order_weights(orders, weights)
    tokens, length = number_tokens(responses)
    weight = weights_by_length(weight / weight.sum(), length)
    distinct = np.zeros(len(length))
    for n, (gram, doc, seen) in enumerate(repeated_ngrams(tokens, length, orders)):
        total = np.maximum(length - n, 0)
        repeated = np.bincount(doc, 1 - 1 / seen[gram], minlength=len(length))
        distinct += weight[:, n] * (total - repeated) / np.maximum(total, 1)
    return distinct


def self_bleu_diversity(
    responses: Sequence[Response], *, orders: int = 4, weights: Sequence[float] | None = None
) -> np.ndarray:
    """d(o_i) = 1 - BLEU of o_i with all other responses as its references, float64 [G] in [0, 1].

    1 - mean d is the Self-BLEU of the group (arXiv 1802.01886), without smoothing: an n-gram counts at most as often as in the
    reference that has most of it, the brevity penalty looks at the reference of the closest length, of two the shorter. Short
    and empty responses: as in `diver.diversity.bleu.bleu_matrix`; one response alone has 0. Errors: as there.
    """
    weight = order_weights(orders, weights)
    tokens, length = number_tokens(responses)
    if len(length) == 1:
        return np.zeros(1)
    weight = weights_by_length(weight, length)
    bleu = np.exp(np.minimum(0.0, 1.0 - _closest(length) / np.maximum(length, 1)))
    for n, ngrams in enumerate(repeated_ngrams(tokens, length, orders)):
        bleu *= (_matched(ngrams, len(length)) / np.maximum(length - n, 1)) ** weight[:, n]
    empty = length == 0
    bleu[empty] = empty.sum() > 1
    return 1.0 - bleu


def _closest(length: np.ndarray) -> np.ndarray:
    """For each response the length nearest to its own among the others, of two the shorter, [G]."""
    others = np.sort(length)
    nearest = np.searchsorted(others, length)  # the first of those as long as itself
    alone = np.searchsorted(others, length, side="right") - nearest == 1
    below = others[np.maximum(nearest - 1, 0)]
    above = others[np.minimum(nearest + 1, len(length) - 1)]
    shorter = (nearest > 0) & ((nearest == len(length) - 1) | (length - below <= above - length))
    return np.where(alone, np.where(shorter, below, above), length)


def _matched(ngrams: Ngrams, size: int) -> np.ndarray:
    """Sum over n-grams g of min(count_i(g), the most that another response has of g), float64 [G]."""
    pair, count = np.unique(ngrams.gram * size + ngrams.doc, return_counts=True)
    gram, doc = np.divmod(pair, size)
    order = np.lexsort((count, gram))
    gram, doc, count = gram[order], doc[order], count[order]
    last = np.append(gram[1:] != gram[:-1], True)[: len(gram)]  # of an n-gram's responses, the one that has most of it
    ends = np.flatnonzero(last)
    most = count[ends]
    second = np.where(np.diff(ends, prepend=-1) > 1, count[np.maximum(ends - 1, 0)], 0)
    number = np.cumsum(last) - last
    others = np.where(last, second[number], most[number])
    return np.bincount(doc, np.minimum(count, others), minlength=size)
