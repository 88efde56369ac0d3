import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diver.core.types import Progress
from diver.methods.diver import (
    DiversityReward,
    Schedule,
    Shaping,
    diversity_reward,
    intrinsic_reward,
    is_rewarded,
    shape,
)

PAPER = Shaping()
OUTCOMES = np.array([1.0, 1.0, 0.0, 0.0])
D = np.array([0.5, 0.9, 0.3, 0.8])


LENGTHS = np.array([0, 50, 100, 400])


def total(shaping, ratio=0.1, outcomes=OUTCOMES, d=D, lengths=LENGTHS):
    b = diversity_reward(
        {"textual": intrinsic_reward(d, lengths, shaping.discount)}, {"textual": DiversityReward()}, shaping.clip_max
    )
    return [reward.total for reward in shape(outcomes, b, ratio, shaping, lengths)]


# --- r' = r + lambda clip(gamma^T d, 0, sigma) I(r)


def test_the_paper_defaults():
    assert (PAPER.coef, PAPER.clip_max, PAPER.discount) == (0.1, 0.65, 1.0)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("correct", [1.05, 1.065, 0.0, 0.0]),  # 0.9 is clipped to 0.65
        ("all", [1.05, 1.065, 0.03, 0.065]),
        ("wrong", [1.0, 1.0, 0.03, 0.065]),
    ],
)
def test_each_condition_by_hand(condition, expected):
    assert total(Shaping(condition=condition)) == pytest.approx(expected, abs=1e-15)


def test_the_length_penalty_by_hand():
    # 0.1 * 0.65 * min(1, T / 100) for T = 0, 50, 100, 400: 0, 0.0325, 0.065, 0.065, taken from the rewards of "all"
    shaping = Shaping(condition="all-length-penalty", length_limit=100)
    assert total(shaping) == pytest.approx([1.05, 1.0325, -0.035, 0.0], abs=1e-15)
    parts = shape(OUTCOMES, np.array([0.5, 0.65, 0.3, 0.65]), 0.1, shaping, LENGTHS)[1]
    assert (parts.outcome, parts.diversity, parts.length) == pytest.approx((1.0, 0.065, -0.0325))


def test_gamma_to_the_power_of_the_policy_tokens():
    # 0.5 ** [0, 1, 2, 3] * D
    assert intrinsic_reward(D, np.array([0, 1, 2, 3]), 0.5).tolist() == pytest.approx([0.5, 0.45, 0.075, 0.1])
    assert total(Shaping(discount=0.5), lengths=np.array([0, 1, 2, 3])) == pytest.approx([1.05, 1.045, 0, 0])


def test_lengths_are_needed_only_where_they_matter():
    assert intrinsic_reward(D, LENGTHS, 1.0).tolist() == D.tolist()
    assert not PAPER.needs_lengths
    assert Shaping(discount=0.999).needs_lengths
    assert Shaping(condition="all-length-penalty").needs_lengths


def test_a_negative_diversity_is_clipped_at_zero():
    assert total(PAPER, d=np.array([-0.5, 0.2, 0, 0])) == pytest.approx([1.0, 1.02, 0, 0])


def test_correct_is_an_outcome_of_at_least_the_threshold():
    assert is_rewarded(np.array([-1.0, 0.49, 0.5, 2.0]), "correct").tolist() == [False, False, True, True]
    assert is_rewarded(np.array([-1.0, 0.49, 0.5, 2.0]), "wrong").tolist() == [True, True, False, False]
    assert is_rewarded(np.array([0.5, 0.8]), "correct", 0.75).tolist() == [False, True]


# --- several metrics: ours


def test_the_mean_of_two_metrics_each_clipped_at_its_own_bound():
    scores = {"textual": np.array([0.8, 0.2]), "equational": np.array([0.5, 1.0])}
    both = {"textual": DiversityReward(), "equational": DiversityReward(clip_max=0.4)}
    # ((0.65, 0.2) + (0.4, 0.4)) / 2
    assert diversity_reward(scores, both, 0.65).tolist() == pytest.approx([0.525, 0.3])
    assert diversity_reward(scores, both, 0.65, "sum").tolist() == pytest.approx([1.05, 0.6])
    # (3 * (0.65, 0.2) + 1 * (0.4, 0.4)) / 4
    weighted = {"textual": DiversityReward(weight=3), "equational": DiversityReward(clip_max=0.4)}
    assert diversity_reward(scores, weighted, 0.65).tolist() == pytest.approx([0.5875, 0.25])
    assert diversity_reward(scores, weighted, 0.65, "sum").tolist() == pytest.approx([2.35, 1.0])


@given(st.lists(st.floats(-1, 2), min_size=2, max_size=8), st.floats(0.01, 2), st.floats(0.01, 5))
def test_one_metric_is_the_equation_whatever_its_weight_in_a_mean(d, bound, weight):
    expected = np.clip(d, 0, bound)
    np.testing.assert_allclose(
        diversity_reward({"x": np.array(d)}, {"x": DiversityReward(weight=weight)}, bound), expected, 1e-12, 1e-300
    )
    np.testing.assert_array_equal(
        diversity_reward({"x": np.array(d)}, {"x": DiversityReward()}, bound, "sum"), expected
    )


# --- lambda over a run


@pytest.mark.parametrize(
    ("schedule", "expected"),  # at t/T = 0, 1/4, 1/2, 3/4, 1
    [
        (Schedule(), [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2, 0]),
        (Schedule(kind="linear"), [1, 0.75, 0.5, 0.25, 0]),
        (Schedule(kind="constant"), [1, 1, 1, 1, 1]),
        (Schedule(kind="step", end=0.5), [1, 1, 0, 0, 0]),
        (Schedule(kind="linear", start=0.25, end=0.75, final=0.2), [1, 1, 0.6, 0.2, 0.2]),
        (Schedule(kind="cosine", start=0.5, final=0.5), [1, 1, 1, 0.75, 0.5]),
    ],
)
def test_schedules_by_hand(schedule, expected):
    assert [schedule.factor(t) for t in (0, 0.25, 0.5, 0.75, 1)] == pytest.approx(expected, abs=1e-15)
    assert [schedule.factor(Progress(t, 4)) for t in range(5)] == pytest.approx(expected, abs=1e-15)


def test_a_schedule_in_steps():
    schedule = Schedule(kind="linear", unit="steps", start=10, end=20)
    assert [schedule.factor(Progress(step, 1000)) for step in (0, 10, 15, 20, 999)] == [1, 1, 0.5, 0, 0]
    with pytest.raises(ValueError, match=r"Progress\(step, steps\)"):
        schedule.factor(0.5)


def test_a_constant_schedule_needs_no_end():
    assert Schedule(kind="constant", unit="steps").factor(Progress(7, 10)) == 1


def test_an_extended_run_keeps_the_value_of_its_end():
    assert Schedule().factor(Progress(150, 100)) == 0
    assert Schedule(kind="linear", final=0.3).factor(Progress(150, 100)) == 0.3
    assert Schedule(kind="linear", unit="steps", end=50, final=0.3).factor(Progress(150, 100)) == 0.3


@pytest.mark.parametrize("progress", [-0.1, 1.1, math.nan])
def test_a_fraction_outside_of_the_run_is_refused(progress):
    with pytest.raises(ValueError, match="fraction t/T"):
        Schedule().factor(progress)


@given(
    st.sampled_from(["linear", "cosine", "step"]),
    st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
    st.floats(0, 1),
    st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
)
def test_schedules_never_rise(kind, ends, final, moments):
    schedule = Schedule(kind=kind, start=ends[0], end=ends[1], final=final)
    early, late = (schedule.factor(t) for t in moments)
    assert 1 >= early >= late - 1e-12 and late >= final - 1e-12


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Shaping(coef=-0.1), "coef"),
        (lambda: Shaping(clip_max=0.0), "clip_max"),
        (lambda: Shaping(discount=0.0), "discount"),
        (lambda: Shaping(discount=1.1), "discount"),
        (lambda: Shaping(length_limit=0), "length_limit"),
        (lambda: Schedule(start=0.6, end=0.5), "start <= end"),
        (lambda: Schedule(end=50), 'unit = "run"'),
        (lambda: Schedule(unit="steps"), "end = 1.0: .*rollout step above 1"),
        (lambda: Schedule(unit="steps", start=10), "start = 10, .*rollout step above 1"),
        (lambda: Schedule(final=-1), "final"),
        (lambda: DiversityReward(weight=-1), "weight"),
        (lambda: DiversityReward(clip_max=0), "clip_max"),
    ],
)
def test_settings_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()
