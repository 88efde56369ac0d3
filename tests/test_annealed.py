"""DIVER with a floor under the divisor, A = (r' - mean) / max(std, sqrt(G-1)/G), by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import diver
from diver.core.types import DiverError, Group, Problem, Reward, Rollout
from diver.methods import method_named
from diver.methods.grpo import group_advantage

# TD 1/2, 1/2, 1 and ED 0, 0, 1; clipped at 0.65 their means are b = 0.25, 0.25, 0.65.
TEXTS = [r"we add \( a + b = c \)", r"we add \( a + b = c \)", r"rather multiply $ d * e = f $ now"]


def annealed(outcomes, progress=0.0, **settings):
    return diver.advantages(TEXTS, outcomes, [0, 0, 0], method_named("diver-annealed", **settings), progress)


def shaped(outcomes, bonus):
    """A group with rewards already shaped."""
    return Group(
        Problem("p", "?", ""), tuple(Rollout("", reward=Reward(r, b)) for r, b in zip(outcomes, bonus, strict=True))
    )


def test_in_a_group_all_correct_the_advantage_goes_to_zero_with_lambda():
    # b - mean = -2/15, -2/15, 4/15; s = sqrt(2)/3; lambda is 0.5, 0.25, 0: A = lambda (b - mean) / s
    expected = np.array([-0.1, -0.1, 0.2]) * math.sqrt(2)
    np.testing.assert_allclose(annealed([1, 1, 1]), expected, rtol=1e-12)
    np.testing.assert_allclose(annealed([1, 1, 1], 0.5), expected / 2, rtol=1e-12)
    assert annealed([1, 1, 1], 1.0).tolist() == [0, 0, 0]
    np.testing.assert_allclose(annealed([1, 1, 1], shaping={"coef": 1e-3}), expected * 2e-3, rtol=1e-9)
    # the paper's divisor gives the same at every lambda
    paper = [diver.advantages(TEXTS, [1, 1, 1], [0] * 3, "diver-mix", t) for t in (0.0, 0.5, 0.9)]
    np.testing.assert_allclose(paper, [[-math.sqrt(0.5)] * 2 + [math.sqrt(2)]] * 3, rtol=1e-9)


def test_in_a_mixed_group_it_is_grpos():
    # r' = 1 + 0.5 * 0.25, 0, 1 + 0.5 * 0.65
    np.testing.assert_array_equal(annealed([1, 0, 1]), group_advantage(np.array([1.125, 0, 1.325])))
    np.testing.assert_array_equal(
        annealed([1, 0, 1]),
        diver.advantages(TEXTS, [1, 0, 1], [0] * 3, method_named("diver-mix", shaping={"coef": 0.5})),
    )


@given(
    st.lists(st.tuples(st.booleans(), st.floats(0, 0.65)), min_size=2, max_size=16).filter(
        lambda rows: len({correct for correct, _ in rows}) == 2
    ),
    st.floats(0, 5),
    st.sampled_from(["std", "sample-std"]),
)
def test_the_std_of_a_mixed_group_is_never_below_the_floor(rows, coef, divisor):
    """Var = within + p (1 - p) m^2, m >= 1 the mean reward of the correct: at least p (1 - p),
    so at least (G - 1) / G^2."""
    outcomes = np.array([float(correct) for correct, _ in rows])
    rewards = outcomes * [1 + coef * b for _, b in rows]
    method = method_named("diver-annealed", divisor=divisor)
    found = method.advantages(shaped(outcomes, rewards - outcomes), 0.0)
    np.testing.assert_allclose(found, group_advantage(rewards, divisor), rtol=1e-12)


def test_where_wrong_responses_are_rewarded_the_floor_may_hold_in_a_mixed_group():
    # r' = 1, 0.325: mean 0.6625, std 0.3375 below sqrt(1)/2
    group = shaped([1.0, 0.0], [0.0, 0.325])
    np.testing.assert_allclose(method_named("diver-annealed").advantages(group, 0.0), [0.675, -0.675])


def test_g_is_that_of_the_advantage():
    """With a selection the kept half, with the sample's std 1/sqrt(G)."""
    group = shaped([1.0] * 4, [0.0, 0.0, 0.1, 0.1])  # r' - mean = -0.05, -0.05, 0.05, 0.05
    expected = np.array([-1, -1, 1, 1]) * 0.05
    np.testing.assert_allclose(method_named("diver-annealed").advantages(group, 0.0), expected / (math.sqrt(3) / 4))
    np.testing.assert_allclose(
        method_named("diver-annealed", divisor="sample-std").advantages(group, 0.0), expected / 0.5
    )
    # kept are the last two, ED 1/2 and 1: r' = 1.25, 1.5, mean 1.375, and s = sqrt(1)/2
    method = method_named(
        "diver-annealed",
        selection={"keep": "most"},
        diversity_rewards={"textual": {"weight": 0}},
        shaping={"clip_max": 1},
    )
    texts = ["$ a $", "$ a $", "$ c $ $ a $", "$ d $"]
    group = Group(Problem("p", "?", ""), tuple(Rollout(text, reward=Reward(1.0)) for text in texts))
    (done,) = method.apply([group], 0.0)
    assert done.responses == texts[2:]
    np.testing.assert_allclose(done.advantages, [-0.25, 0.25])


def test_outcomes_other_than_0_and_1_are_refused():
    with pytest.raises(DiverError, match=r"problem '0': rollout 1 has the outcome 0.5; method.std_floor needs 0 or 1"):
        annealed([1, 0.5, 1])
    assert diver.advantages(TEXTS, [1, 0.5, 1], [0] * 3, method_named("diver-annealed", std_floor=False)).any()


def test_its_settings():
    method = method_named("diver-annealed")
    assert (method.shaping.coef, method.std_floor, method.zero_mean) == (0.5, True, True)
    assert not method_named("diver-mix").std_floor
    assert method_named("diver-td", std_floor=True).std_floor
