"""Pass@k against subsets counted one by one; intervals against SciPy and against what theory says of them."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import sem
from scipy.stats import t as student

from diver.stats import (
    Estimate,
    bootstrap_interval,
    distinct_at_k,
    maj_at_k,
    paired_interval,
    pass_at_k,
    two_level_interval,
)


def test_pass_at_k_by_hand():
    # n = 4, c = 1: k = 2 draws miss it in C(3,2)/C(4,2) = 3/6 of the cases; k = 3 in 1/4; k = 4 never.
    assert pass_at_k(4, 1, 1) == 0.25
    assert pass_at_k(4, 1, 2) == 0.5
    assert pass_at_k(4, 1, 3) == pytest.approx(0.75, abs=1e-15)
    assert pass_at_k(4, 1, 4) == 1.0
    np.testing.assert_array_equal(pass_at_k([8, 8, 8], [0, 8, 4], 1), [0.0, 1.0, 0.5])
    # n = 8, c = 2, k = 4: 1 - C(6,4)/C(8,4) = 1 - 15/70
    assert pass_at_k(8, 2, 4) == pytest.approx(55 / 70, abs=1e-15)


@pytest.mark.parametrize("n", range(1, 13))
def test_pass_at_k_equals_the_share_of_subsets_with_a_correct_sample(n):
    for c in range(n + 1):
        correct = [i < c for i in range(n)]
        for k in range(1, n + 1):
            subsets = list(combinations(correct, k))
            assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets), abs=1e-14)


@pytest.mark.parametrize("k", [1, 2, 64, 1024, 2048])
def test_pass_at_k_stays_exact_where_binomials_overflow(k):
    n, c = 2048, np.array([0, 1, 2, 7, 100, 1024, 2047, 2048])
    with pytest.raises(OverflowError):
        float(comb(2048, 1024))
    exact = [1 - comb(n - int(x), k) / comb(n, k) for x in c]  # Python's integers do not overflow
    np.testing.assert_allclose(pass_at_k(n, c, k), exact, rtol=1e-10, atol=1e-12)


def test_too_few_samples_are_nan_and_never_a_lucky_one():
    np.testing.assert_array_equal(pass_at_k([3, 4, 0], [3, 4, 0], 4), [np.nan, 1.0, np.nan])


def test_pass_at_k_of_no_problems_is_empty():
    assert pass_at_k(np.zeros(0, int), np.zeros(0, int), 4).shape == (0,)


@given(st.integers(1, 300), st.data())
def test_pass_at_k_grows_with_k_and_c(n, data):
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    now = float(pass_at_k(n, c, k))
    assert 0.0 <= now <= 1.0
    assert c == n or pass_at_k(n, c + 1, k) >= now
    assert k == n or pass_at_k(n, c, k + 1) >= now
    assert pass_at_k(n, c, 1) == pytest.approx(c / n, abs=1e-12)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 0), (4.0, 1, 1), (4, 0.5, 1)])
def test_pass_at_k_refuses_what_is_not_a_count(n, c, k):
    with pytest.raises(ValueError):
        pass_at_k(n, c, k)


def test_distinct_at_k_by_hand():
    # n = 4: solution a twice, b once, one wrong. k = 2 of the six pairs: aa 1, ab 2 (twice), aw 1 (twice), bw 1.
    assert distinct_at_k(4, [2, 1], 2) == pytest.approx((1 + 2 * 2 + 2 * 1 + 1) / 6)
    assert distinct_at_k(4, [2, 1], 4) == 2.0 and distinct_at_k(4, [2, 1], 1) == 0.75
    assert distinct_at_k(4, [], 2) == 0.0 and np.isnan(distinct_at_k(4, [2, 1], 5))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 8))
def test_distinct_at_k_equals_the_mean_over_all_subsets(solutions, k):
    n, counts = len(solutions), [solutions.count(s) for s in {1, 2, 3} if s in solutions]  # 0 stands for wrong
    subsets = [len(set(subset) - {0}) for subset in combinations(solutions, k)]
    expected = np.mean(subsets) if k <= n else np.nan
    np.testing.assert_allclose(distinct_at_k(n, counts, k), expected, atol=1e-12)


def test_maj_at_k_by_hand():
    # Runs of three: (0 0 1) right, (1 1 0) wrong, (0 1 2) a tie of three, (-1 -1 0) one vote, and it is right.
    votes = [0, 0, 1, 1, 1, 0, 0, 1, 2, -1, -1, 0]
    assert maj_at_k(votes, 3) == pytest.approx((1 + 0 + 1 / 3 + 1) / 4)
    assert maj_at_k(votes, 5) == (0 + 1) / 2  # (0 0 1 1 1) wrong, (0 0 1 2 -1) right; the last two are no whole run
    assert maj_at_k([0, 1], 2) == 0.5 and maj_at_k([0, 0, 1, 1], 4) == 0.5
    assert maj_at_k([1, 1, 1], 3) == 0.0 and maj_at_k([-1, -1], 2) == 0.0
    assert np.isnan(maj_at_k([0, 0], 3))


def test_maj_at_1_is_the_accuracy():
    votes = np.random.default_rng(0).integers(-1, 4, size=101)
    assert maj_at_k(votes, 1) == pytest.approx(float((votes == 0).mean()))


@pytest.mark.parametrize(
    "call",
    [
        lambda: distinct_at_k(3, [2, 2], 1),
        lambda: maj_at_k([0.0, 1.0], 1),
        lambda: maj_at_k([0, 1], 0),
    ],
)
def test_reductions_refuse_wrong_arguments(call):
    with pytest.raises(ValueError):
        call()


def test_interval_of_two_problems_by_hand():
    # Means of two draws from {0, 1}: 0, 1/2, 1 with chances 1/4, 1/2, 1/4. The middle 95 % is all of it,
    # the middle 40 % (quantiles .3 and .7) is 1/2 alone.
    assert bootstrap_interval([0, 1]) == (0.5, 0.0, 1.0)
    assert bootstrap_interval([0, 1], level=0.4) == (0.5, 0.5, 0.5)


def test_interval_agrees_with_scipy_and_with_the_standard_error():
    from scipy.stats import bootstrap, norm

    values = np.random.default_rng(1).beta(0.5, 1.0, size=256)
    ours = bootstrap_interval(values, resamples=20_000)
    scipy = bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2))
    normal = values.mean() + norm.ppf([0.025, 0.975]) * values.std() / 16
    assert ours.mean == values.mean()
    np.testing.assert_allclose(ours[1:], scipy.confidence_interval, atol=2e-3)
    np.testing.assert_allclose(ours[1:], normal, atol=2e-3)


def test_interval_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(3)
    held = 0
    for trial in range(400):
        estimate = bootstrap_interval(rng.random(100), level=0.8, resamples=300, seed=trial)
        held += estimate.low <= 0.5 <= estimate.high
    assert 0.74 <= held / 400 <= 0.86  # three standard errors about .8


def test_interval_is_the_same_for_the_same_seed_and_however_it_is_cut(monkeypatch):
    values = np.random.default_rng(4).random(50)
    whole = bootstrap_interval(values, seed=5)
    assert whole == bootstrap_interval(values, seed=5) != bootstrap_interval(values, seed=6)
    monkeypatch.setattr("diver.stats._DRAWS_AT_ONCE", 333)
    assert bootstrap_interval(values, seed=5) == whole


def test_problems_without_a_value_are_left_out():
    assert bootstrap_interval([0.2, np.nan, 0.6, 0.4]) == bootstrap_interval([0.2, 0.6, 0.4])
    assert np.isnan(bootstrap_interval([])).all() and np.isnan(bootstrap_interval([np.nan])).all()
    np.testing.assert_array_equal(bootstrap_interval([0.25, np.nan]), Estimate(0.25, np.nan, np.nan))
    assert bootstrap_interval([0.25, 0.25, 0.25]) == (0.25, 0.25, 0.25)


def test_pairs_cancel_what_is_hard_for_both():
    a = np.random.default_rng(7).random(200)
    assert paired_interval(a, a + 0.125) == pytest.approx((0.125, 0.125, 0.125))
    assert paired_interval(a, a - 0.125) == pytest.approx((-0.125, -0.125, -0.125))
    assert paired_interval([0.0, np.nan, 1.0], [1.0, 0.0, np.nan]).mean == 1.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: bootstrap_interval([[1.0, 2.0]]),
        lambda: bootstrap_interval([1.0, 2.0], level=95),
        lambda: bootstrap_interval([1.0, 2.0], resamples=0),
        lambda: paired_interval([1.0, 2.0], [1.0]),
    ],
)
def test_intervals_refuse_wrong_arguments(call):
    with pytest.raises(ValueError):
        call()


def test_two_levels_give_the_standard_error_of_both():
    """Seeds and problems that add up: the variance of the mean is s_a^2 / S + s_b^2 / P."""
    rng = np.random.default_rng(8)
    a, b = rng.normal(0, 0.3, 40), rng.normal(0, 1.0, 200)
    estimate = two_level_interval(a[:, None] + b[None, :] + 2.0, resamples=20_000)
    error = np.sqrt(a.var(ddof=1) / 40 + b.var(ddof=1) / 200)
    assert estimate.mean == pytest.approx(a.mean() + b.mean() + 2.0)
    assert (estimate.high - estimate.low) / (2 * 1.96 * error) == pytest.approx(1.0, abs=0.03)


def test_five_seeds_are_not_taken_for_more_than_they_are():
    """The drawn means of 5 values have the variance s^2 / 5, divided by 4 and not by 5."""
    values = np.array([1.0, 2.0, 4.0, 7.0, 11.0])
    estimate = two_level_interval(np.tile(values[:, None], (1, 8)), level=0.6826, resamples=40_000)
    assert (estimate.high - estimate.low) / 2 == pytest.approx(values.std(ddof=1) / np.sqrt(5), rel=0.1)


def test_two_levels_hold_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(9)
    held = 0
    for trial in range(300):
        values = rng.normal(0, 0.2, (6, 1)) + rng.normal(0, 1, (1, 60)) + rng.normal(0, 0.5, (6, 60))
        estimate = two_level_interval(values, level=0.9, resamples=300, seed=trial)
        held += estimate.low <= 0 <= estimate.high
    assert 0.84 <= held / 300 <= 0.96


def test_a_value_a_seed_has_students_interval():
    # 1, 2, 3: mean 2, deviation 1, error 1 / sqrt(3); t of 2 degrees of freedom is 4.3027 at 97.5 %
    estimate = two_level_interval([[1.0], [2.0], [3.0]])
    assert estimate == pytest.approx((2.0, 2.0 - 4.3027 / 3**0.5, 2.0 + 4.3027 / 3**0.5), abs=1e-4)
    found = student.interval(0.9, 4, *(f([2.0, 3, 5, 7, 11]) for f in (np.mean, sem)))
    assert two_level_interval([[2.0], [3], [5], [7], [11]], level=0.9)[1:] == pytest.approx(found)
    held = [two_level_interval(np.random.default_rng(i).normal(size=(3, 1))) for i in range(400)]
    assert 0.92 <= np.mean([e.low <= 0 <= e.high for e in held]) <= 0.98


def test_a_level_of_one_is_kept_and_one_number_has_no_interval():
    values = np.random.default_rng(10).random(50)
    along, across = two_level_interval(values[None, :]), two_level_interval(values[:, None])
    plain = bootstrap_interval(values)
    np.testing.assert_allclose(along, plain, atol=0.01)
    np.testing.assert_allclose(across, plain, atol=0.015)
    np.testing.assert_array_equal(two_level_interval([[0.25]]), Estimate(0.25, np.nan, np.nan))
    assert two_level_interval(np.full((3, 4), 0.5)) == pytest.approx((0.5, 0.5, 0.5))
    for wrong in ([1.0, 2.0], np.empty((0, 3)), [[1.0, np.nan]]):
        with pytest.raises(ValueError):
            two_level_interval(wrong)
