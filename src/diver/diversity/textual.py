"""Diversity by n-grams that the responses of a group do not share: TD (section 3.3), Distinct-n and Self-BLEU.

TD is 1 - BLEU of all pairs of a group (Papineni et al., 2002; appendix A of the paper), without smoothing:

    BLEU(c, r) = BP * prod_n p_n^w_n,   BP = min(1, exp(1 - |r| / |c|))

p_n is the fraction of the candidate's n-grams that the reference has too, each counted at most as often as there.
The pairs of a group share their work: its n-grams are numbered once, order by order. Because
`min(a, b) = sum_k [a > k][b > k]`, the clipped overlaps of all pairs are one product B B^T. B is a 0/1 matrix with a
column for every n-gram and k. An n-gram seen once overlaps nothing, and neither does any longer one that begins with
it.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Literal

import numpy as np

Response = str | Sequence[int] | np.ndarray
Tokenize = Literal["whitespace", "zh", "char", "policy"]
LONG = 20  # characters per word; a text with more is taken as written without spaces

# Chinese characters, their radicals, strokes, punctuation and full-width forms, as in sacrebleu's zh, without kana and
# Thai. Departure: sacrebleu's range for plane 2 in fact selects U+2001 to U+2A6D; here it selects planes 2 and 3.
_CJK = (
    "\u2e80-\u303f\u3100-\u312f\u31a0-\u31ef\u3200-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef"
)
_PLANE_2 = "\U00020000-\U0003ffff"
_SYMBOL = r"!-&(-+:-@\[-`{-~/"
# Applied in order, as in sacrebleu. In "..0" the second point stays with the 0: the first match takes its neighbour.
_ZH = [
    (re.compile(rf"([{_CJK}{_PLANE_2}{_SYMBOL}])"), r" \1 "),
    (re.compile("([^0-9])([.,])"), r"\1 \2 "),
    (re.compile("([.,])([^0-9])"), r" \1 \2"),
    (re.compile("([0-9])(-)"), r"\1 \2 "),
]


def spaced(text: str, tokenize: str) -> str:
    """The text with white space between its tokens.

    zh: every Chinese character and symbol is a token, point, comma and dash unless in a number (sacrebleu's zh). char:
    every character is one (sacrebleu's char). Otherwise the text is unchanged.
    """
    if tokenize == "char":
        return " ".join(text)
    if tokenize == "zh":
        text = text.strip()
        for pattern, replacement in _ZH:
            text = pattern.sub(replacement, text)
    return text


def unspaced_note(texts: Sequence[str], tokenize: str) -> str:
    """A warning if tokens are separated by white space and most texts have no spaces; else ""."""
    unspaced = sum(len(text) > LONG * max(1, len(text.split())) for text in texts)
    if tokenize != "whitespace" or 2 * unspaced <= len(texts):
        return ""
    return (
        f"{unspaced} of {len(texts)} responses have less than one space in {LONG} characters: their words are hardly "
        "ever equal, so textual diversity is near 1 for all; "
        'set diversity.tokenize to "zh" for Chinese, to "char" for Japanese or Thai'
    )


def number_tokens(responses: Sequence[Response]) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of all responses as numbers 0..V-1, int64 [T], and the lengths of the responses, int64 [G].

    Args:
        responses ([G]): strings, whose tokens are what white space separates, or sequences of token ids.

    Raises:
        ValueError: no response, strings mixed with ids, ids that are no flat sequence of integers.
    """
    if len(responses) == 0:
        raise ValueError("a group needs at least one response")
    if all(isinstance(r, str) for r in responses):
        number = defaultdict[str, int](count().__next__).__getitem__  # a new word gets the next number
        words = (r.split() for r in responses if isinstance(r, str))
        numbered = [np.fromiter(map(number, word_list), np.int64, len(word_list)) for word_list in words]
        return np.concatenate(numbered), np.array([len(r) for r in numbered])
    tokens = [np.asarray(r) for r in responses]
    for i, ids in enumerate(tokens):
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise ValueError(f"response {i} is no flat sequence of token ids (int), and not all are strings")
    _, numbers = np.unique(np.concatenate([ids.astype(np.int64) for ids in tokens]), return_inverse=True)
    return numbers, np.array([len(ids) for ids in tokens])


def repeated_ngrams(tokens: np.ndarray, length: np.ndarray, orders: int) -> Iterator[tuple[np.ndarray, ...]]:
    """The n-grams that occur more than once in a group, for n = 1..N; arguments as `number_tokens` gives them.

    N-grams that occur once are dropped, since a longer n-gram that contains one occurs only once, too.

    Yields:
        The number and the response of each occurrence, [occurrences] each, and how often each number occurs in the
        group, [n-grams], with those that occur once.
    """
    # A unique token follows every response, so an n-gram across a border occurs once and is dropped.
    size, vocabulary = len(length), int(tokens.max(initial=-1)) + 1
    tokens = np.insert(tokens, np.cumsum(length), vocabulary + np.arange(size))
    doc = np.repeat(np.arange(size), length + 1)
    base = vocabulary + size
    start, gram = np.arange(len(tokens)), tokens
    for n in range(orders):
        if n:
            _, gram = np.unique(gram * base + tokens[start + n], return_inverse=True)
        seen = np.bincount(gram)
        repeats = np.flatnonzero((seen > 1)[gram])
        start, gram = start[repeats], gram[repeats]
        yield gram, doc[start], seen


def order_weights(orders: int, weights: Sequence[float] | None) -> np.ndarray:
    """The weight of each order, float64 [N]. ValueError if a metric cannot use the orders or the weights."""
    if orders < 1:
        raise ValueError(f"orders = {orders}: n-grams need at least order 1")
    if weights is None:
        return np.full(orders, 1.0 / orders)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (orders,):
        raise ValueError(f"{orders} orders need {orders} weights, got {w.size}")
    if not (np.isfinite(w).all() and (w >= 0).all() and w.any()):
        raise ValueError(f"weights {w.tolist()}: they must be finite, at least 0, and not all 0")
    return w


def weights_by_length(weight: np.ndarray, length: np.ndarray) -> np.ndarray:
    """The weights of each response, [G, N]. A response shorter than N has all the weight on the orders that it has."""
    has = np.arange(1, len(weight) + 1) <= length[:, None]
    used = np.where(has, weight, 0.0)
    used = np.where(used.any(axis=1, keepdims=True), used, has)
    return used * (weight.sum() / np.maximum(used.sum(axis=1, keepdims=True), np.finfo(float).tiny))


DENSE_FRACTION = 16  # n-grams seen more than G / 16 times are counted by a matrix product, rarer ones by pairs
DENSE_CELLS = 1 << 22  # cells of B, or pairs, per chunk


def textual_diversity(
    responses: Sequence[Response], *, orders: int = 4, weights: Sequence[float] | None = None, symmetric: bool = False
) -> np.ndarray:
    """Textual diversity of each response: TD(o_i) = mean over j != i of 1 - BLEU(o_i, o_j) (paper, section 3.3).

    Args:
        responses ([G]): texts, split at white space, or sequences of token ids.
        orders: the longest n-gram that BLEU counts.
        weights ([orders]): the weight of each order of n-grams. Defaults to equal weights.
        symmetric: whether to take the mean of BLEU(o_i, o_j) and BLEU(o_j, o_i).

    Returns:
        float64 [G] in [0, 1]. A group of one response has 0.
    """
    d = textual_dissimilarity(responses, orders=orders, weights=weights, symmetric=symmetric)
    return d.sum(axis=1) / max(len(d) - 1, 1)


def textual_dissimilarity(
    responses: Sequence[Response], *, orders: int = 4, weights: Sequence[float] | None = None, symmetric: bool = False
) -> np.ndarray:
    """D[i, j] = 1 - BLEU(o_i, o_j), float64 [G, G] in [0, 1], with a diagonal of 0.

    BLEU is not symmetric (the brevity penalty falls on the shorter response). With `symmetric`, D is the mean of both
    directions. Other arguments and errors: `bleu_matrix`.
    """
    d = 1.0 - bleu_matrix(responses, orders, weights)
    return (d + d.T) / 2 if symmetric else d


def bleu_matrix(responses: Sequence[Response], orders: int = 4, weights: Sequence[float] | None = None) -> np.ndarray:
    """BLEU of every ordered pair of a group, float64 [G, G]: the row is the candidate, the column the reference.

    A zero precision gives 0. A candidate shorter than N = `orders` is judged by the orders it has, with the weights
    scaled to the same sum (uniform, if they are all 0). A response thus has 1 with its equal, whatever its length. Two
    empty responses are equal; an empty one and another have 0. From length N on this is NLTK's sentence BLEU.

    Args:
        responses ([G]): strings, whose tokens are what white space separates, or sequences of token ids.
        orders: N, the length of the longest n-grams.
        weights ([N]): one per order, None = 1/N each. They are used as given (NLTK's convention), also if their sum is
            not 1.

    Raises:
        ValueError: no response, strings mixed with ids, `orders` < 1, weights of another length, negative or all 0.
    """
    weight = order_weights(orders, weights)
    tokens, length = number_tokens(responses)
    weight = weights_by_length(weight, length)
    bleu = np.exp(np.minimum(0.0, 1.0 - length[None, :] / np.maximum(length, 1)[:, None]))
    for n, (gram, doc, seen) in enumerate(repeated_ngrams(tokens, length, orders)):
        overlap = _overlaps(gram, doc, seen, len(length))  # the diagonal stays 0
        bleu *= (overlap / np.maximum(length - n, 1)[:, None]) ** weight[:, n, None]
    bleu[length == 0] = length == 0
    np.fill_diagonal(bleu, 1.0)
    return bleu


def _overlaps(gram: np.ndarray, doc: np.ndarray, seen: np.ndarray, size: int) -> np.ndarray:
    """Sum over n-grams g of min(count_i(g), count_j(g)), float64 [G, G], from each occurrence's n-gram and response."""
    common = seen > max(1, size // DENSE_FRACTION)
    column = (np.cumsum(common) - 1)[gram]  # n-gram -> its column, if it is common
    c, r = np.flatnonzero(common[gram]), np.flatnonzero(~common[gram])
    overlap = _dense(column[c], doc[c], int(common.sum()), size)
    return overlap + _pairs(gram[r], doc[r], size) if len(r) else overlap


def _dense(gram: np.ndarray, doc: np.ndarray, columns: int, size: int) -> np.ndarray:
    counts = np.bincount(doc * columns + gram, minlength=size * columns).reshape(size, columns)
    first = second = np.zeros(columns, np.int64)
    for c in counts:
        first, second = np.maximum(first, c), np.maximum(second, np.minimum(first, c))
    # From the second largest count on, [a > k][b > k] is 0 for every pair. Without this limit, a response that repeats
    # one token would add a column per repetition.
    column = np.repeat(np.arange(columns), second)
    k = np.arange(len(column)) - np.repeat(np.cumsum(second) - second, second)
    out = np.zeros((size, size))
    step = max(1, DENSE_CELLS // size)
    for s in range(0, len(column), step):
        b = (counts.take(column[s : s + step], axis=1) > k[s : s + step]).astype(np.float32)  # exact: sums below 2^24
        out += b @ b.T
    return out


def _pairs(gram: np.ndarray, doc: np.ndarray, size: int) -> np.ndarray:
    """The overlaps of rare n-grams, by the pairs of responses that have them, float64 [G, G]."""
    cell, count = np.unique(gram * size + doc, return_counts=True)
    gram, doc = np.divmod(cell, size)
    overlap, where, shared = np.zeros(size * size), list[np.ndarray](), list[np.ndarray]()
    left, distance = np.arange(len(cell)), 0
    while len(left):
        distance += 1  # pair entries of one n-gram at this distance
        left = left[: np.searchsorted(left, len(cell) - distance)]
        left = left[gram[left] == gram[left + distance]]
        where.append(doc[left] * size + doc[left + distance])
        shared.append(np.minimum(count[left], count[left + distance]))
        if not len(left) or sum(map(len, where)) > DENSE_CELLS:
            overlap += np.bincount(np.concatenate(where), np.concatenate(shared), size * size)
            where, shared = [], []
    return (square := overlap.reshape(size, size)) + square.T


def distinct_n(responses: Sequence[Response], *, orders: int = 4, weights: Sequence[float] | None = None) -> np.ndarray:
    """d(o_i) = mean over n of the mean over the n-grams g of o_i of 1 / count(g) in the group, float64 [G] in [0, 1].

    Its mean over the responses, weighted by their numbers of n-grams, is Distinct-n of the group (arXiv 1510.03055):
    its distinct n-grams, divided by all of them. `weights` are scaled to the sum 1. A response shorter than n is judged
    by the orders it has; an empty one has 0. Errors: as `bleu_matrix`.
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

    1 - mean d is the Self-BLEU of the group (arXiv 1802.01886), without smoothing. An n-gram counts at most as often as
    in the reference that has most of it. The brevity penalty is that of the closest length; of two equally close
    lengths, the shorter counts. One response alone has 0. Short and empty responses, errors: as in `bleu_matrix`.
    """
    weight = order_weights(orders, weights)
    tokens, length = number_tokens(responses)
    if len(length) == 1:
        return np.zeros(1)
    weight = weights_by_length(weight, length)
    bleu = np.exp(np.minimum(0.0, 1.0 - _closest(length) / np.maximum(length, 1)))
    for n, (gram, doc, _) in enumerate(repeated_ngrams(tokens, length, orders)):
        bleu *= (_matched(gram, doc, len(length)) / np.maximum(length - n, 1)) ** weight[:, n]
    empty = length == 0
    bleu[empty] = empty.sum() > 1
    return 1.0 - bleu


def _closest(length: np.ndarray) -> np.ndarray:
    """The closest length among the other responses, for each response, [G]. The shorter of two equally close ones."""
    distance = 2 * np.abs(length[:, None] - length) + (length > length[:, None])
    np.fill_diagonal(distance, distance.max(initial=0) + 1)
    return length[distance.argmin(axis=1)]


def _matched(gram: np.ndarray, doc: np.ndarray, size: int) -> np.ndarray:
    """Sum over n-grams g of min(count_i(g), the most that another response has of g), float64 [G]."""
    pair, count = np.unique(gram * size + doc, return_counts=True)
    gram, doc = np.divmod(pair, size)
    order = np.lexsort((count, gram))
    gram, doc, count = gram[order], doc[order], count[order]
    last = np.append(gram[1:] != gram[:-1], True)[: len(gram)]  # the highest count of each n-gram
    ends = np.flatnonzero(last)
    most = count[ends]
    second = np.where(np.diff(ends, prepend=-1) > 1, count[np.maximum(ends - 1, 0)], 0)
    number = np.cumsum(last) - last
    other_most = np.where(last, second[number], most[number])
    return np.bincount(doc, np.minimum(count, other_most), minlength=size)
