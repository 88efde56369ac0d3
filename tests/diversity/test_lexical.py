from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diver.diversity import distinct_n, self_bleu_diversity

words = st.lists(st.sampled_from("abcde"), max_size=12).map(" ".join)
groups = st.lists(words, min_size=1, max_size=6)


def ngrams(response, n):
    tokens = response.split()
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def test_distinct_n_by_hand():
    # words: a 3 times, b twice, c and d once; pairs: "a b" twice, "b a" and "c d" once
    d = distinct_n(["a b a", "a b", "c d"], orders=2)
    assert d.tolist() == pytest.approx(
        [((1 / 3 + 1 / 2 + 1 / 3) / 3 + (1 / 2 + 1) / 2) / 2, ((1 / 3 + 1 / 2) / 2 + 1 / 2) / 2, 1.0]
    )
    assert distinct_n(["a b a", "a b", "c d"], orders=2, weights=(0, 3)).tolist() == [0.75, 0.5, 1]  # scaled to (0, 1)


@given(st.lists(words, min_size=1, max_size=6), st.integers(1, 4))
def test_the_weighted_mean_is_the_distinct_n_of_the_group(responses, n):
    found = [ngrams(r, n) for r in responses]
    sizes = np.array([len(f) for f in found])
    if not sizes.sum():
        return
    only = tuple(float(order == n) for order in range(1, n + 1))
    d = distinct_n(responses, orders=n, weights=only)
    distinct = len({g for f in found for g in f})
    assert (d * sizes).sum() / sizes.sum() == pytest.approx(distinct / sizes.sum())


def test_distinct_n_of_degenerate_groups():
    assert distinct_n([""]).tolist() == [0]
    assert distinct_n(["a b c d e"]).tolist() == [1]
    assert distinct_n(["a", "a", ""]).tolist() == [0.5, 0.5, 0]  # one word: judged by order 1 alone


def test_self_bleu_by_hand():
    # "a a b" has a in common with "a c" once, b with "b d e": 2 of 3 words, no pair;
    # the closest length is 3, of "b d e"
    d = self_bleu_diversity(["a a b", "a c", "b d e"], orders=1)
    assert d.tolist() == pytest.approx([1 - 2 / 3, 1 - np.exp(1 - 3 / 2) / 2, 1 - 1 / 3])
    assert self_bleu_diversity(["a b c d"] * 2 + ["e f g h"]).tolist() == [0, 0, 1]


@given(st.lists(st.lists(st.sampled_from("abc"), min_size=4, max_size=12).map(" ".join), min_size=2, max_size=6))
def test_self_bleu_is_nltk_with_the_others_as_references(responses):
    from nltk.translate.bleu_score import sentence_bleu  # a second, in each process that collects the tests

    tokens = [r.split() for r in responses]
    for i, d in enumerate(self_bleu_diversity(responses)):
        others = tokens[:i] + tokens[i + 1 :]
        matches = [
            sum(min(c, max(Counter(ngrams(" ".join(o), n))[g] for o in others)) for g, c in count.items())
            for n in (1, 2, 3, 4)
            if (count := Counter(ngrams(responses[i], n)))
        ]
        expected = sentence_bleu(others, tokens[i]) if all(matches) else 0.0  # NLTK takes 1e-308 for 0
        assert d == pytest.approx(1 - expected, abs=1e-12)


def test_self_bleu_of_degenerate_groups():
    assert self_bleu_diversity(["a b"]).tolist() == [0]
    assert self_bleu_diversity(["", "", "a"]).tolist() == [0, 0, 1]
    assert self_bleu_diversity(["", "a"]).tolist() == [1, 1]
    assert self_bleu_diversity(["a b", "a b"]).tolist() == [0, 0]


@pytest.mark.parametrize("metric", [distinct_n, self_bleu_diversity])
@given(responses=groups)
def test_values_lie_between_0_and_1_and_follow_the_order_of_the_group(metric, responses):
    d = metric(responses)
    assert d.shape == (len(responses),) and (d >= -1e-12).all() and (d <= 1 + 1e-12).all()
    np.testing.assert_allclose(metric(responses[::-1]), d[::-1], atol=1e-12)


@pytest.mark.parametrize("metric", [distinct_n, self_bleu_diversity])
def test_token_ids_do_as_well(metric):
    assert (metric([[7, 8, 9, 7, 8], [7, 8, 8, 9]]) == metric(["a b c a b", "a b b c"])).all()
    with pytest.raises(ValueError, match="at least one response"):
        metric([])
    with pytest.raises(ValueError, match="orders = 0"):
        metric(["a"], orders=0)
