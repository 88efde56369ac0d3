import json
import logging
import math
import os
import warnings
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diver.diversity import bleu_matrix, textual, textual_dissimilarity, textual_diversity

DATA = Path(os.environ.get("DIVER_DATA", Path(__file__).parents[2] / "../shared/data"))
RELEASE_WEIGHTS = (0.02, 0.1, 0.15, 0.25, 0.38)


@cache
def ngram_counts(text, n):
    t = text.split()
    return Counter(tuple(t[i : i + n]) for i in range(len(t) - n + 1))


def brute_force(candidate, reference, weights):
    """BLEU by the definition, for candidates of at least N tokens."""
    log_bleu = min(0.0, 1 - len(reference.split()) / len(candidate.split()))
    for n, w in enumerate(weights, start=1):
        c, r = ngram_counts(candidate, n), ngram_counts(reference, n)
        overlap = sum(min(k, r[g]) for g, k in c.items())
        if w and not overlap:
            return 0.0
        log_bleu += w * math.log(overlap / c.total()) if w else 0.0
    return math.exp(log_bleu)


def random_group(seed, size=6, vocabulary=6, shortest=4, longest=30):
    r = np.random.default_rng(seed)
    return [" ".join(map(str, r.zipf(1.5, r.integers(shortest, longest)) % vocabulary)) for _ in range(size)]


# --- values by hand


def test_four_precisions_by_hand():
    # p = 4/5, 3/4, 2/3, 1/2; their product is 1/5; equal lengths, so no penalty
    b = bleu_matrix(["a b c d e", "a b c d f"])
    assert b[0, 1] == pytest.approx(0.2**0.25, abs=1e-15) == pytest.approx(0.668740304976422, abs=1e-15)


def test_brevity_penalty_by_hand():
    b = bleu_matrix(["a b c d", "a b c d e f"])
    assert b[0, 1] == pytest.approx(0.6065306597126334, abs=1e-15)  # every p is 1; exp(1 - 6/4)
    assert b[1, 0] == pytest.approx(0.5081327481546147, abs=1e-15)  # (4/6 * 3/5 * 2/4 * 1/3)^(1/4)


def test_clipping_by_hand():
    b = bleu_matrix(["the the the the the the the", "the cat is on the mat"], orders=1)
    assert b[0, 1] == pytest.approx(2 / 7, abs=1e-15)
    assert b[1, 0] == pytest.approx(2 / 6 * math.exp(1 - 7 / 6), abs=1e-15)


def test_zero_precision_gives_zero():
    assert bleu_matrix(["a b c d e", "e d c b a"]).tolist() == [[1, 0], [0, 1]]  # common words, no common pair


def test_weights_by_hand():
    pair = ["a b c d e", "a b c d f"]
    assert bleu_matrix(pair, weights=(0.5, 0.5, 0, 0))[0, 1] == pytest.approx(0.7745966692414834, abs=1e-15)
    assert bleu_matrix(pair, weights=(2, 0, 0, 0))[0, 1] == pytest.approx(0.64, abs=1e-15)  # as given: p_1^2
    # an order of weight 0 may have precision 0
    assert bleu_matrix(["a b c d", "b a d c"], weights=(1, 0, 0, 0))[0, 1] == 1


def test_short_candidates_use_the_orders_they_have():
    b = bleu_matrix(["a b", "a b c", "a", "a c"])
    assert b[0, 1] == pytest.approx(math.exp(1 - 3 / 2), abs=1e-15)  # p_1 = p_2 = 1
    assert b[1, 0] == 0  # a b c is no 3-gram of the reference
    assert b[2, 0] == pytest.approx(math.exp(1 - 2 / 1), abs=1e-15)
    assert b[0, 3] == 0  # p_2 = 0
    b = bleu_matrix(["a b", "a c"], orders=2, weights=(0.2, 0.6))
    assert b[0, 1] == 0
    b = bleu_matrix(["a", "b a"], orders=2, weights=(0.2, 0.6))  # weight 0.8 for order 1: exp(1 - 2) * 1^0.8
    assert b[0, 1] == pytest.approx(math.exp(-1), abs=1e-15)
    b = bleu_matrix(["a b", "a c b b"], orders=3, weights=(0, 0, 1))  # both its orders have weight 0: 1/2 each
    assert b[0, 1] == 0
    b = bleu_matrix(["b b", "a b b b"], orders=3, weights=(0, 0, 1))
    assert b[0, 1] == pytest.approx(math.exp(-1), abs=1e-15)


def test_short_weights_keep_their_sum():
    b = bleu_matrix(["a x c", "a b c"], orders=5, weights=(0.1, 0, 0, 0, 0.5))
    assert b[0, 1] == pytest.approx((2 / 3) ** 0.6, abs=1e-15)  # order 1 takes the whole 0.6


def test_textual_diversity_by_hand():
    pair = ["a b c d", "a b c d e f"]
    assert textual_diversity(pair) == pytest.approx([0.3934693402873666, 0.4918672518453853], abs=1e-15)
    mean = (0.3934693402873666 + 0.4918672518453853) / 2
    assert textual_diversity(pair, symmetric=True) == pytest.approx([mean, mean], abs=1e-15)
    three = [*pair, "x y z w"]
    assert textual_diversity(three) == pytest.approx([(1 + 0.3934693402873666) / 2, (1 + 0.4918672518453853) / 2, 1])


# --- degenerate groups


def test_degenerate_groups():
    assert textual_diversity(["a b c"]).tolist() == [0.0]
    assert textual_dissimilarity([""]).tolist() == [[0.0]]
    assert textual_dissimilarity(["", " \n", "a"]).tolist() == [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    assert textual_diversity(["42"] * 3).tolist() == [0, 0, 0]
    assert textual_diversity([[], []]).tolist() == [0, 0]
    assert bleu_matrix(["a b"] * 2, orders=40).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    "responses, options, message",
    [
        ([], {}, "at least one response"),
        (["a", [1]], {}, "response 0 is no flat .*, and not all are strings"),
        ([[1.5]], {}, "response 0 is no flat"),
        ([[1], [[2]]], {}, "response 1 is no flat"),
        (["a"], {"orders": 0}, "at least order 1"),
        (["a"], {"weights": (0.5, 0.5)}, "4 orders need 4 weights, got 2"),
        (["a"], {"weights": (1, 0, 0, -1)}, "at least 0"),
        (["a"], {"weights": (0, 0, 0, 0)}, "not all 0"),
        (["a"], {"weights": (1, 0, 0, math.nan)}, "finite"),
    ],
)
def test_bad_arguments(responses, options, message):
    with pytest.raises(ValueError, match=message):
        bleu_matrix(responses, **options)


# --- oracles


@pytest.mark.parametrize("orders, weights", [(4, None), (1, None), (2, (0.3, 0.7)), (5, RELEASE_WEIGHTS)])
@pytest.mark.parametrize("size", [2, 8, 70])  # 70: rare n-grams take the sparse product
def test_equals_the_definition(orders, weights, size):
    for seed in range(3):
        group = random_group(seed, size, vocabulary=40 if size > 8 else 6, shortest=orders)
        expected = [[brute_force(c, r, weights or [1 / orders] * orders) for r in group] for c in group]
        np.testing.assert_allclose(bleu_matrix(group, orders, weights), expected, rtol=0, atol=1e-12)


def nltk_bleu(group, weights):
    from nltk.translate.bleu_score import sentence_bleu

    words = [r.split() for r in group]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about precisions of 0
        return np.array([[sentence_bleu([r], c, weights) if c else float(not r) for r in words] for c in words])


def sacre_bleu(group):
    from sacrebleu.metrics import BLEU

    logging.getLogger("sacrebleu").setLevel(logging.ERROR)
    metric = BLEU(tokenize="none", smooth_method="none", effective_order=False)
    return np.array([[metric.sentence_score(c, [r]).score / 100 for r in group] for c in group])


def test_equals_nltk_and_sacrebleu():
    for seed in range(20):
        group = random_group(seed, shortest=5)
        np.testing.assert_allclose(bleu_matrix(group), nltk_bleu(group, (0.25,) * 4), rtol=0, atol=1e-12)
        np.testing.assert_allclose(bleu_matrix(group), sacre_bleu(group), rtol=0, atol=1e-12)
        release = bleu_matrix(group, 5, RELEASE_WEIGHTS)
        np.testing.assert_allclose(release, nltk_bleu(group, RELEASE_WEIGHTS), rtol=0, atol=1e-12)


@pytest.mark.skipif(not (DATA / "rollouts_math_qwen_100x8.jsonl").exists(), reason=f"no rollouts in {DATA}")
@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_equals_nltk_and_sacrebleu_on_real_rollouts(every):
    groups: dict[str, list[str]] = {}
    with open(DATA / "rollouts_math_qwen_100x8.jsonl", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            groups.setdefault(row["problem"], []).append(row["response"])
    assert len(groups) == 100
    for i, group in list(enumerate(groups.values()))[::every]:
        ours = bleu_matrix(group)
        np.testing.assert_allclose(ours, nltk_bleu(group, (0.25,) * 4), rtol=0, atol=1e-12)
        if i % 10 == 0:
            np.testing.assert_allclose(ours, sacre_bleu(group), rtol=0, atol=1e-12)


def test_ids_and_words_are_the_same_tokens():
    group = random_group(0)
    ids = [[int(t) - 3 for t in r.split()] for r in group]
    assert (bleu_matrix(ids) == bleu_matrix(group)).all()
    assert (bleu_matrix([np.array(r, np.int32) for r in ids]) == bleu_matrix(group)).all()
    assert (bleu_matrix([[t + 2**62 for t in r] for r in ids]) == bleu_matrix(group)).all()


def test_hostile_words_stay_apart():
    assert bleu_matrix(["a\0b", "a\0c", "\ud83d", "nan"], orders=1).tolist() == np.eye(4).tolist()


# --- properties

WORDS = st.lists(st.sampled_from("abc"), max_size=12)
GROUPS = st.lists(WORDS, min_size=1, max_size=6)


@given(GROUPS, st.booleans(), st.integers(1, 6), st.randoms(use_true_random=False))
@settings(max_examples=3 * settings().max_examples // 2)
def test_properties(words, symmetric, orders, random):
    group = [" ".join(w) for w in words]
    d = textual_dissimilarity(group, orders=orders, symmetric=symmetric)
    td = textual_diversity(group, orders=orders, symmetric=symmetric)
    assert d.dtype == td.dtype == np.float64
    assert ((d >= 0) & (d <= 1)).all() and ((td >= 0) & (td <= 1)).all()
    assert all(d[i, j] == 0 for i, a in enumerate(words) for j, b in enumerate(words) if a == b)
    if symmetric:
        assert (d == d.T).all()
    renamed = [" ".join(w).translate(str.maketrans("abc", "zxy")) for w in words]
    assert (textual_dissimilarity(renamed, orders=orders, symmetric=symmetric) == d).all()
    order = random.sample(range(len(group)), len(group))
    shuffled = textual_dissimilarity([group[i] for i in order], orders=orders, symmetric=symmetric)
    np.testing.assert_allclose(shuffled, d[np.ix_(order, order)], rtol=0, atol=1e-15)


@pytest.mark.parametrize("share, cells", [(1, 1), (1, 1 << 22), (2, 200), (40, 1 << 22)])
def test_every_split_of_the_work_gives_the_same(monkeypatch, share, cells):
    """All n-grams dense or nearly all sparse, whole or a few columns at a time."""
    group = random_group(7, size=40, vocabulary=30, longest=60)
    expected = bleu_matrix(group)
    monkeypatch.setattr(textual, "DENSE_FRACTION", share)
    monkeypatch.setattr(textual, "DENSE_CELLS", cells)
    assert (bleu_matrix(group) == expected).all()


# --- rollouts that loop


@pytest.mark.parametrize("size", [8, 40])
def test_loops_of_one_token(size):
    """`x` L_i times: p_n = (min(L_i, L_j) - n + 1) / (L_i - n + 1)."""
    length = np.random.default_rng(0).integers(4, 8193, size)
    least, n = np.minimum.outer(length, length), np.arange(4)[:, None, None]
    expected = ((least - n) / (length[:, None] - n)).prod(0) ** 0.25
    expected *= np.exp(np.minimum(0, 1 - length[None, :] / length[:, None]))
    np.testing.assert_allclose(bleu_matrix(["x " * k for k in length]), expected, rtol=0, atol=1e-12)


def test_one_loop_adds_no_column_per_repetition(monkeypatch):
    """The product's width is set by the second largest count, not by the response that loops."""
    widths = []
    monkeypatch.setattr(textual.np, "repeat", lambda a, k, r=np.repeat: widths.append(len(out := r(a, k))) or out)
    group = ["x " * 8192, "x x y z", "y x x z"]
    assert bleu_matrix(group)[1, 2] == 0
    assert sorted(widths)[-1] == 8192 + 4 + 4 + 3  # the tokens with a border each; products stay far below
    assert sorted(widths)[-2] <= 8


def test_two_token_loops_and_equal_responses():
    assert textual_diversity(["x y " * 4096] * 8).tolist() == [0] * 8
    distinct = " ".join(map(str, range(600)))
    assert textual_diversity([distinct] * 256).tolist() == [0] * 256
