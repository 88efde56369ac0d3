"""Pass@k against subsets counted one by one; intervals against SciPy and against what theory says of them."""

import math
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import hypergeom, sem
from scipy.stats import t as student

from diver.core.statistics import (
    Estimate,
    bounds_of,
    by_problem,
    distinct_at_k,
    effective_number,
    ends,
    interval,
    maj_at_k,
    pair_diversity,
    paired_interval,
    pass_at_k,
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


def test_pass_at_k_of_more_samples_than_there_are_is_unknown_at_once():
    assert np.isnan(pass_at_k([3, 8], [1, 0], 10**12)).all()


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


def test_pair_diversity_by_hand():
    """Of 3 pairs of a a b one is alike, of 6 pairs of a a b b two; fewer than two responses are no pair."""
    assert pair_diversity([2, 1]) == pytest.approx(2 / 3) and pair_diversity([2, 2]) == pytest.approx(4 / 6)
    assert pair_diversity([5]) == 0 and pair_diversity([1, 1]) == 1
    assert np.isnan([pair_diversity([]), pair_diversity([1]), pair_diversity([0, 1])]).all()
    assert effective_number(0.0) == 1 and effective_number(0.75) == 4
    assert np.isnan([effective_number(1.0), effective_number(np.nan)]).all()
    assert bounds_of("pair_diversity") == (0, 1)


@pytest.mark.parametrize("counts", [[2], [3, 1], [1, 1, 1], [4, 2, 2, 1], [7, 7]])
def test_pair_diversity_is_the_share_of_all_pairs_and_the_hypergeometric_distinct_at_2(counts):
    solutions = [i for i, count in enumerate(counts) for _ in range(count)]
    pairs = [a != b for a, b in combinations(solutions, 2)]
    assert pair_diversity(counts) == pytest.approx(np.mean(pairs))
    found = [1 - hypergeom(sum(counts), count, 2).pmf(0) for count in counts]
    assert 1 + pair_diversity(counts) == pytest.approx(sum(found))


def test_the_pair_diversity_of_the_walkthrough_of_modebench():
    """modebench 0.4.0, walkthrough.json: four responses to each of five tasks, of which two are correct and of two
    modes; expected.json states PCMD 1. Its README: counts {A: 2, B: 1} give 2/3, one repeated mode 0, one success
    null."""
    modes_of_each_task = [[1, 1]] * 5
    assert np.mean([pair_diversity(modes) for modes in modes_of_each_task]) == 1.0
    assert pair_diversity([2, 1]) == pytest.approx(2 / 3)
    assert pair_diversity([3]) == 0 and np.isnan(pair_diversity([1]))


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


def test_students_interval_by_hand():
    # 1, 2, 3: mean 2, deviation 1, error 1 / sqrt(3); t of 2 degrees of freedom is 4.3027 at 97.5 %
    by_hand = (2.0, 2.0 - 4.3027 / 3**0.5, 2.0 + 4.3027 / 3**0.5)
    assert interval([1.0, 2.0, 3.0]) == pytest.approx(by_hand, abs=1e-4)
    assert interval([[1.0], [2.0], [3.0]]) == pytest.approx(by_hand, abs=1e-4)  # a value a seed
    found = student.interval(0.9, 4, *(f([2.0, 3, 5, 7, 11]) for f in (np.mean, sem)))
    assert interval([2.0, 3, 5, 7, 11], level=0.9)[1:] == pytest.approx(found)


def test_all_problems_solved_leave_open_what_so_many_coins_do():
    # mid-p: half the chance of 64 of 64 is .025 where p^64 = .05
    low = 0.05 ** (1 / 64)
    assert interval([1.0] * 64, (0, 1)) == pytest.approx((1.0, low, 1.0), abs=1e-6)
    assert interval(np.ones((5, 64)), (0, 1)) == pytest.approx(
        (1.0, low, 1.0), abs=1e-6
    )  # seeds do not multiply problems
    assert interval([0.0] * 64, (0, 8)) == pytest.approx((0.0, 0.0, 8 * (1 - low)), abs=1e-5)
    assert paired_interval([1.0] * 64, [1.0] * 64, (0, 1)) == pytest.approx((0.0, low - 1, 1 - low), abs=1e-6)


def test_a_share_of_many_problems_agrees_with_wilson_and_within_its_bounds_only():
    from scipy.stats import binomtest

    for correct in (40, 200, 372):
        values = np.repeat([1.0, 0.0], [correct, 400 - correct])
        wilson = binomtest(correct, 400).proportion_ci(method="wilson")
        np.testing.assert_allclose(interval(values, (0, 1))[1:], wilson, atol=3e-3)
    low, high = interval([1.0] * 28 + [0.0, 0.5], (0, 1))[1:]
    assert low < 0.9 < high < 1
    assert interval([1.0] * 28 + [0.0, 0.5])[2] > 1  # Student's interval does not know of the bound


def test_seeds_and_problems_by_hand():
    """y = a + b without a residual: the variance of the mean is var(a) / 5 + var(b) / 3 = 2.5 / 5 + 9 / 3."""
    values = np.arange(5.0)[:, None] + np.array([0.0, 3.0, 6.0])
    # Satterthwaite: 3.5^2 / (.5^2 / 4 + 3^2 / 2) = 2.7 degrees of freedom, at least 4:
    # half width 2.7764 sqrt(3.5) = 5.194.
    # Both quantiles combined: sqrt(2.7764^2 .5 + 4.3027^2 3) = 7.706, which is more.
    assert interval(values) == pytest.approx((5.0, 5.0 - 7.706, 5.0 + 7.706), abs=2e-3)
    # Of 60 problems, problems vary by 9.15 / 60 and seeds by .5: .6525^2 / (.5^2 / 4 + .1525^2 / 59) = 6.77 degrees.
    many = np.arange(5.0)[:, None] + np.repeat([0.0, 3.0, 6.0], 20)
    error = np.sqrt(0.5 + np.var(many[0], ddof=1) / 60)
    combined = np.sqrt(2.7764**2 * 0.5 + student.ppf(0.975, 59) ** 2 * (error**2 - 0.5))
    assert (interval(many).high - 5.0) == pytest.approx(max(student.ppf(0.975, 6.77) * error, combined), rel=1e-3)


def test_seeds_that_do_not_vary_beyond_the_residual_count_as_one():
    problems = np.random.default_rng(0).normal(size=40)
    np.testing.assert_allclose(interval(np.tile(problems, (5, 1))), interval(problems))
    np.testing.assert_allclose(interval(problems[None, :]), interval(problems))
    # fewer than five: the variance is at least that of the seeds, however the residual hides it
    values = np.random.default_rng(1).normal(size=(3, 40))
    of_seeds = values.mean(axis=1).std(ddof=1) / np.sqrt(3)
    assert (interval(values).high - values.mean()) >= student.ppf(0.975, 40) * of_seeds


@pytest.mark.parametrize(
    ("mean", "seeds", "bounds"),
    [(0.5, 1, (0, 1)), (0.97, 1, (0, 1)), (0.97, 3, (0, 1)), (0.5, 5, None), (0.97, 5, (-1, 1))],
)
def test_intervals_hold_the_truth_about_as_often_as_they_say(mean, seeds, bounds):
    """600 sets of 64 problems with a Beta chance, 16 samples each; three standard errors are 3 points."""
    random = np.random.default_rng(3)

    def policy() -> np.ndarray:
        return random.binomial(16, np.broadcast_to(chance, (600, seeds, 64))) / 16

    chance = random.beta(2 * mean, 2 * (1 - mean), (600, 1, 64))
    values, truth = (policy() - policy(), 0.0) if bounds == (-1, 1) else (policy(), mean)
    low, high = ends(values, bounds)
    assert np.mean((low <= truth) & (truth <= high)) >= 0.91
    if bounds != (-1, 1):
        assert np.mean((low <= truth) & (truth <= high)) <= 0.985


@pytest.mark.parametrize("problems", [30, 256])
def test_intervals_of_counts_hold_the_truth_about_as_often_as_they_say_however_far_their_bound(problems):
    """600 sets of problems, of which .4 have 1 + Poisson(3) distinct solutions, the others none: the mean is 1.6."""
    random = np.random.default_rng(4)
    shape = (600, 1, problems)
    values = (random.random(shape) < 0.4) * (1.0 + random.poisson(3, shape))
    low, high = ends(values, (0, 1024))
    assert 0.93 <= np.mean((low <= 1.6) & (high >= 1.6)) <= 0.995
    np.testing.assert_array_equal((low, high), ends(values, (0, 64)))
    # Student's half width of 256 problems: 1.97 times the root of (.4 x (16 + 3) - 1.6^2) / 256 = .277
    assert np.median(high - low) == pytest.approx(2 * 0.277, rel=0.06) or problems < 256


def test_of_counts_all_0_so_much_is_left_open_as_of_problems_with_8():
    # mid-p: half the chance of no head of 30 coins is .025 where (1 - p)^30 = .05
    assert interval([0.0] * 30, (0, 1024)) == pytest.approx((0.0, 0.0, 8 * (1 - 0.05 ** (1 / 30))), abs=1e-5)


def test_of_differences_of_counts_that_are_all_0_so_much_is_left_open_as_of_problems_with_8():
    """A bound of 1,024 is no more than 8 where nothing differs:
    the upper end of gains that are 0 of 64, and of losses."""
    end = 8 * (1 - 0.05 ** (1 / 64))
    assert interval([0.0] * 64, (-1024, 1024)) == pytest.approx((0.0, -end, end), abs=1e-5)
    few = [1.0] + [0.0] * 255
    assert interval(few, (-1024, 1024)) == interval(few, (-64, 64)) and interval(few, (-1024, 1024)).low > -0.2


@given(
    arrays(float, st.tuples(st.integers(1, 6), st.integers(2, 8)), elements=st.sampled_from([0.0, 0.25, 0.5, 1.0])),
    st.sampled_from([1.0, 4.0]),
)
def test_a_share_holds_its_mean_stays_within_and_mirrors(values, scale):
    estimate = interval(scale * values, (0, scale))
    assert 0 <= estimate.low <= estimate.mean + 1e-9 and estimate.mean - 1e-9 <= estimate.high <= scale
    mirrored = interval(scale * (1 - values), (0, scale))
    np.testing.assert_allclose((mirrored.low, mirrored.high), (scale - estimate.high, scale - estimate.low), atol=1e-6)
    difference = interval(values - values[:, ::-1], (-1, 1))
    assert difference.mean == pytest.approx(0, abs=1e-12) and difference.low <= 0 <= difference.high


def test_problems_without_a_value_are_left_out():
    assert interval([0.2, np.nan, 0.6, 0.4]) == interval([0.2, 0.6, 0.4])
    assert np.isnan(interval([])).all() and np.isnan(interval([np.nan])).all()
    np.testing.assert_array_equal(interval([0.25, np.nan]), Estimate(0.25, np.nan, np.nan))
    np.testing.assert_array_equal(interval([[0.25]], (0, 1)), Estimate(0.25, np.nan, np.nan))
    assert interval([0.25, 0.25, 0.25]) == (0.25, 0.25, 0.25)


def test_pairs_cancel_what_is_hard_for_both():
    a = np.random.default_rng(7).random(200)
    assert paired_interval(a, a + 0.125) == pytest.approx((0.125, 0.125, 0.125))
    assert paired_interval(a, a - 0.125) == pytest.approx((-0.125, -0.125, -0.125))
    assert paired_interval([0.0, np.nan, 1.0, 0.0], [1.0, 0.0, np.nan, 1.0]).mean == 1.0


def test_small_differences_leave_room_for_a_problem_that_was_not_drawn():
    """Pass@64 near 1: 29 of 30 problems differ by nothing and one by -1/1000. None of 60 coins, two a problem, is
    lost. The mid-p limit of 0 of 60 is p with (1 - p)^60 / 2 = 0.025. Student's interval would end at -0.0001."""
    limit = 1 - 0.05 ** (1 / 60)
    assert interval([0.0] * 29 + [-0.001], (-1, 1)).low == pytest.approx(-limit, abs=0.001)
    # 30 problems that differ alike are no such case.
    assert interval([-0.01, -0.012] * 15, (-1, 1)).low > -0.013


def test_a_gain_of_few_problems_excludes_less_than_students_interval():
    """3 of 64 gained: mid-p of 3 of 64, the losses (none) leave .0457 open; Student's low end is above 0."""
    gained = np.repeat([1.0, 0.0], [3, 61])
    low, high = interval(gained, (0, 1))[1:]
    estimate = interval(gained, (-1, 1))
    assert low > 0 > estimate.low and estimate.high >= high - 0.02
    assert estimate.low <= interval(gained).low + 1e-9


def test_bounds_follow_from_the_name():
    assert bounds_of("pass@64") == bounds_of("avg@16") == bounds_of("maj@4") == (0, 1)
    assert bounds_of("distinct@16") == (0, 16) and bounds_of("policy/entropy") is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: interval([[[1.0, 2.0]]]),
        lambda: interval([1.0, 2.0], level=95),
        lambda: interval([0.5, 1.5], (0, 1)),
        lambda: interval([2.0, 3.0], (1, 5)),
        lambda: interval(np.empty((0, 3))),
        lambda: interval([[1.0, np.nan]]),
        lambda: paired_interval([1.0, 2.0], [1.0]),
    ],
)
def test_intervals_refuse_wrong_arguments(call):
    with pytest.raises(ValueError):
        call()


def test_groups_of_one_problem_are_one_value():
    """Of a the mean of 1 and 0; b has one group with a value, c none."""
    found = by_problem(["a", "b", "a", "b", "c"], [1.0, np.nan, 0.0, 0.25, np.nan])
    assert found.tolist() == pytest.approx([0.5, 0.25, np.nan], nan_ok=True)


def test_an_interval_within_a_range_keeps_its_mean_and_an_unknown_end():
    assert Estimate(0.5, -2.0, 3.0).within(0, 1) == (0.5, 0, 1)
    assert Estimate(0.5, 0.25, 3.0).within(0, math.inf) == (0.5, 0.25, 3)
    assert np.isnan(Estimate(0.5, math.nan, math.nan).within(0, 1)[1:]).all()
