import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import zscore

from diver.methods.grpo import group_advantage
from diver.methods.pass_at_k import bootstrap_pass_at_k_advantage, pass_at_k_advantage

rewards = st.lists(st.floats(-2, 2, allow_subnormal=False), min_size=2, max_size=64)


def test_one_correct_of_four():
    # mean 1/4, population variance 3/16: (1 - 1/4) / (sqrt(3)/4) = sqrt(3), (0 - 1/4) / (sqrt(3)/4) = -1/sqrt(3)
    expected = [math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3)]
    np.testing.assert_allclose(group_advantage(np.array([1.0, 0, 0, 0])), expected, rtol=1e-15)


def test_one_correct_of_four_with_the_sample_std():
    # sample variance 1/4: (3/4) / (1/2) and (-1/4) / (1/2)
    np.testing.assert_allclose(group_advantage(np.array([1.0, 0, 0, 0]), divisor="sample-std"), [1.5, -0.5, -0.5, -0.5])


def test_shaped_rewards():
    r = np.array(
        [1.0, 1.2, 0.0, -0.6]
    )  # mean 0.4; deviations 0.6, 0.8, -0.4, -1.0; squares sum to 2.16, std sqrt(0.54)
    np.testing.assert_allclose(group_advantage(r), np.array([0.6, 0.8, -0.4, -1.0]) / math.sqrt(0.54), rtol=1e-14)


@pytest.mark.parametrize("size", range(2, 65))
@pytest.mark.parametrize("value", [0.0, 1.0, 1.065, 0.1, -1 / 3, 1e6 / 7])
def test_equal_rewards_give_exact_zeros(size, value):
    assert not group_advantage(np.full(size, value)).any()


def test_six_rewards_of_1_065_would_give_plus_one_without_the_tolerance():
    r = np.full(6, 1.065)
    naive = (r - np.add.reduce(r) / 6) / np.sqrt(np.mean((r - np.add.reduce(r) / 6) ** 2) or np.nan)
    assert np.allclose(np.abs(naive), 1)  # rounding error of the mean, normalised by itself
    assert not group_advantage(r).any()


def test_the_tolerance_is_where_it_is_stated():
    close, apart = np.array([1.0, 1.0 + 0.9e-6]), np.array([1.0, 1.0 + 1.1e-6])
    assert group_advantage(close).tolist() == [0, 0]
    np.testing.assert_allclose(group_advantage(apart), [-1, 1], rtol=1e-6)
    assert group_advantage(10 * close).tolist() == [0, 0] and group_advantage(10 * apart).all()
    assert group_advantage(np.array([0.9, 1.0]), tolerance=0.11).tolist() == [0, 0]


def test_a_group_of_one_has_no_advantage():
    assert group_advantage(np.array([1.0])).tolist() == [0]
    assert group_advantage(np.array([1.0]), divisor="sample-std").tolist() == [0]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match=f"rewards must be finite, not {bad} at index 2"):
        group_advantage(np.array([0.0, 1.0, bad]))


def test_the_shape_is_one_group():
    for r in (np.zeros((2, 2)), np.zeros(0)):
        with pytest.raises(ValueError, match="one group"):
            group_advantage(r)


@given(rewards)
def test_scipy_agrees(values):
    r = np.array(values)
    if np.ptp(r) > 1e-5:
        np.testing.assert_allclose(group_advantage(r), zscore(r), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(group_advantage(r, divisor="sample-std"), zscore(r, ddof=1), rtol=1e-9, atol=1e-9)


@given(rewards, st.floats(0.1, 10), st.floats(-5, 5))
def test_scale_and_shift_do_not_matter(values, scale, shift):
    r = np.array(values)
    if np.ptp(r) > 1e-3:
        np.testing.assert_allclose(group_advantage(scale * r + shift), group_advantage(r), atol=1e-9)


@given(rewards)
def test_mean_zero_and_mean_square_one(values):
    a = group_advantage(np.array(values))
    assert a.dtype == np.float64
    assert abs(a.mean()) < 1e-6
    assert not a.any() or np.mean(a**2) == pytest.approx(1, abs=1e-6)


# --- Pass@k Training

outcomes = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=9)


@st.composite
def outcomes_and_k(draw):
    r = draw(outcomes)
    return np.array(r), draw(st.integers(1, len(r)))


def over_all_sets(rewards, k):
    """By definition: the mean over the sets with response i of (value - mean) / std, sets listed one by one."""
    sets = list(combinations(range(len(rewards)), k))
    value = np.array([max(rewards[i] for i in s) for s in sets])
    advantage = (value - value.mean()) / value.std() if np.ptp(value) else np.zeros(len(sets))
    return [np.mean([a for a, s in zip(advantage, sets, strict=True) if i in s]) for i in range(len(rewards))]


def squared(rewards, k):
    """sign(A) A^2 by the paper's formulas, in fractions: the root is all that is left to floating point."""
    size, wrong = len(rewards), rewards.count(0)
    share = 1 - Fraction(math.comb(wrong, k), math.comb(size, k))
    variance = share * (1 - share)
    if not variance:
        return [Fraction(0)] * size
    missed = Fraction(math.comb(max(wrong - 1, 0), k - 1), math.comb(size - 1, k - 1))
    raw = [1 - share if r else 1 - share - missed for r in rewards]
    return [a * abs(a) / variance for a in raw]


def test_pass_at_2_of_four_with_one_correct():
    # Of 6 pairs 3 have the correct one: R = 1/2, s = 1/2. Correct: (1/2) / (1/2) = 1.
    # Wrong: of its 3 pairs 1 is worth 1, so R_i = 1/3 and (1/3 - 1/2) / (1/2) = -1/3.
    np.testing.assert_allclose(pass_at_k_advantage(np.array([0, 1.0, 0, 0]), 2), [-1 / 3, 1, -1 / 3, -1 / 3])


def test_pass_at_4_of_eight_with_two_correct():
    # C(6, 4) = 15 of C(8, 4) = 70 sets fail: R = 55/70, s = sqrt(55 * 15) / 70. Correct: 15 / sqrt(825).
    # Wrong: C(5, 3) / C(7, 3) = 10/35 = 20/70 of its sets fail: (15 - 20) / sqrt(825).
    expected = np.array([15, 15, -5, -5, -5, -5, -5, -5]) / math.sqrt(825)
    np.testing.assert_allclose(pass_at_k_advantage(np.array([1.0, 1, 0, 0, 0, 0, 0, 0]), 4), expected)


@pytest.mark.parametrize("correct", range(9))
def test_at_8_and_4_five_correct_teach_nothing(correct):
    r = np.array([1.0] * correct + [0.0] * (8 - correct))
    assert pass_at_k_advantage(r, 4).any() == (1 <= correct <= 4)
    assert not pass_at_k_advantage(r, 8).any()


@given(outcomes_and_k())
def test_every_set_listed_agrees(case):
    r, k = case
    np.testing.assert_allclose(pass_at_k_advantage(r, k), over_all_sets(r, k), atol=1e-12)


@given(st.integers(1, 1100), st.data())
def test_exact_fractions_agree_in_large_groups_too(size, data):
    r = [1.0] * data.draw(st.integers(0, size))
    r += [0.0] * (size - len(r))
    k = data.draw(st.integers(1, size))
    a = pass_at_k_advantage(np.array(r), k)
    np.testing.assert_allclose(a * np.abs(a), [float(x) for x in squared(r, k)], rtol=1e-12, atol=1e-290)


@given(outcomes_and_k())
def test_pass_at_k_has_mean_zero_and_k_of_1_is_grpo(case):
    r, k = case
    a = pass_at_k_advantage(r, k)
    assert a.dtype == np.float64 and a.sum() == pytest.approx(0, abs=1e-9)
    assert (a[r == 1] >= 0).all() and (a[r == 0] <= 0).all()
    np.testing.assert_allclose(pass_at_k_advantage(r, 1), group_advantage(r), atol=1e-12)


def test_only_the_threshold_counts_for_pass_at_k():
    r = np.array([1.065, 0.5, 0.49, -1])
    assert pass_at_k_advantage(r, 2).tolist() == pass_at_k_advantage(np.array([1.0, 1, 0, 0]), 2).tolist()
    assert (
        pass_at_k_advantage(r, 2, threshold=0.6).tolist() == pass_at_k_advantage(np.array([1.0, 0, 0, 0]), 2).tolist()
    )


@pytest.mark.parametrize("estimate", [pass_at_k_advantage, lambda r, k: bootstrap_pass_at_k_advantage(r, k, 3, None)])
def test_pass_at_k_refuses_what_it_cannot_use(estimate):
    for k in (0, 4):
        with pytest.raises(ValueError, match=f"k must be from 1 to the 3 responses of the group, not {k}"):
            estimate(np.zeros(3), k)
    with pytest.raises(ValueError, match="rewards must be finite, not nan at index 1"):
        estimate(np.array([0, math.nan, 1]), 2)


class Given:
    """A generator whose numbers are given: a set is the responses of the smallest numbers of a row."""

    def __init__(self, rows):
        self.rows = np.array(rows)

    def random(self, shape):
        assert shape == self.rows.shape
        return self.rows


def test_bootstrap_by_hand():
    # The sets {0, 1}, {1, 2}, {2, 3}, {0, 1} are worth 1, 0, 0, 1: normalised 1, -1, -1, 1.
    # Response 0 is in sets 0 and 3: 2; response 1 in 0, 1, 3: 1; 2 in 1, 2: -2; 3 in 2: -1. Times G / (k sets) = 4/8.
    sets = Given([[0.1, 0.2, 0.8, 0.9], [0.9, 0.1, 0.2, 0.8], [0.8, 0.9, 0.1, 0.2], [0.1, 0.2, 0.8, 0.9]])
    a = bootstrap_pass_at_k_advantage(np.array([1.0, 0, 0, 0]), 2, 4, sets)
    assert a.tolist() == [1.0, 0.5, -1.0, -0.5]


@given(outcomes_and_k(), st.integers(1, 20), st.integers(0, 2**32))
def test_the_bootstrap_has_mean_zero(case, sets, seed):
    r, k = case
    a = bootstrap_pass_at_k_advantage(r, k, sets, np.random.default_rng(seed))
    assert a.sum() == pytest.approx(0, abs=1e-9)
    if r.all() or not r.any() or (r == 0).sum() < k:
        assert not a.any()


def test_the_bootstrap_tends_to_the_analytic_form():
    r = np.array([1.0, 0, 0, 1, 0, 0, 0, 0])
    a = bootstrap_pass_at_k_advantage(r, 4, 200_000, np.random.default_rng(0))
    np.testing.assert_allclose(a, pass_at_k_advantage(r, 4), atol=0.02)
