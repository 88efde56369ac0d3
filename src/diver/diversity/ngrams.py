"""Tokens and n-grams: the tokens of a response, and the n-grams of a group, numbered once for all metrics."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Literal

import numpy as np

Response = str | Sequence[int] | np.ndarray
Tokenize = Literal["whitespace", "zh", "char", "policy"]
LONG = 20  # a text with more characters than this for each of its words is written without spaces

# Chinese characters, their radicals, strokes, punctuation and full-width forms, as in sacrebleu's zh; neither kana nor
# Thai. Departure: its range for the characters of plane 2 in fact selects U+2001 to U+2A6D; here it is plane 2 and 3.
_CJK = (
    "\u2e80-\u303f\u3100-\u312f\u31a0-\u31ef\u3200-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef"
)
_PLANE_2 = "\U00020000-\U0003ffff"
_SYMBOL = r"!-&(-+:-@\[-`{-~/"
# One after the other, as there: of "..0" the second point stays with the 0, since its neighbour is taken by the first.
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
    """A warning, where most texts are written without spaces and white space is what separates their
    tokens; else ""."""
    unspaced = sum(len(text) > LONG * max(1, len(text.split())) for text in texts)
    if tokenize != "whitespace" or 2 * unspaced <= len(texts):
        return ""
    return (
        f"{unspaced} of {len(texts)} responses have less than one space in {LONG} characters: their words are hardly "
        "ever equal, so textual diversity is near 1 for all; "
        'set diversity.tokenize to "zh" for Chinese, to "char" for Japanese or Thai'
    )


def number_tokens(responses: Sequence[Response]) -> tuple[np.ndarray, np.ndarray]:
    """All tokens of a group as numbers 0..V-1, one response after the other, int64 [T]; the lengths, int64 [G].

    Args:
        responses ([G]): strings, whose tokens are what white space separates, or sequences of token ids.

    Raises:
        ValueError: no response, strings mixed with ids, ids that are no flat sequence of integers.
    """
    if len(responses) == 0:
        raise ValueError("a group needs at least one response")
    strings = sum(isinstance(r, str) for r in responses)
    if 0 < strings < len(responses):
        raise ValueError(f"{strings} of {len(responses)} responses are strings, the others token ids: give one kind")

    if strings:
        number = defaultdict[str, int](count().__next__).__getitem__  # the next number for a word that is new
        words = (r.split() for r in responses if isinstance(r, str))
        numbered = [np.fromiter(map(number, of_response), np.int64, len(of_response)) for of_response in words]
        return np.concatenate(numbered), np.array([len(r) for r in numbered])
    tokens = [np.asarray(r) for r in responses]
    for i, ids in enumerate(tokens):
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise ValueError(f"response {i} is neither a string nor a flat sequence of integer token ids")
    _, numbers = np.unique(np.concatenate([ids.astype(np.int64) for ids in tokens]), return_inverse=True)
    return numbers, np.array([len(ids) for ids in tokens])


def repeated_ngrams(tokens: np.ndarray, length: np.ndarray, orders: int) -> Iterator[tuple[np.ndarray, ...]]:
    """For n = 1..N the n-grams that a group has more than once; arguments as `number_tokens` gives them.

    Yields number and response of each occurrence, [occurrences], and how often each number occurs in the whole group,
    [n-grams], those that occur once included. These are dropped at their order: no longer one is seen twice.
    """
    # Every response is followed by a token of its own, so that an n-gram across a border is seen once and dropped.
    size, vocabulary = len(length), int(tokens.max(initial=-1)) + 1
    tokens = np.insert(tokens, np.cumsum(length), vocabulary + np.arange(size))
    doc = np.repeat(np.arange(size), length + 1)
    base = vocabulary + size
    if len(tokens) >= 1 << 31:  # then gram * base, both at most that long, could leave int64
        raise ValueError(f"a group of {len(tokens)} tokens is too large: at most 2^31")

    start, gram = np.arange(len(tokens)), tokens
    for n in range(orders):
        if n:
            _, gram = np.unique(gram * base + tokens[start + n], return_inverse=True)
        seen = np.bincount(gram)
        again = np.flatnonzero((seen > 1)[gram])
        start, gram = start[again], gram[again]
        yield gram, doc[start], seen


def order_weights(orders: int, weights: Sequence[float] | None) -> np.ndarray:
    """The weight of each order, float64 [N]. ValueError for orders or weights that no metric can use."""
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
    """[G, N]: for a response shorter than N, the weights of the orders it lacks move to those it has."""
    has = np.arange(1, len(weight) + 1) <= length[:, None]
    used = np.where(has, weight, 0.0)
    used = np.where(used.any(axis=1, keepdims=True), used, has)
    return used * (weight.sum() / np.maximum(used.sum(axis=1, keepdims=True), np.finfo(float).tiny))
