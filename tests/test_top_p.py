"""`method.selection.top_p`: the groups of the largest standard deviation are trained on (RAGEN-2's filter)."""

import math
from statistics import stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

import diver
from diver.core.types import DiverError, Group, Problem, Reward, Rollout
from diver.integrations.engines import refusals
from diver.methods import method_named


def groups_of(outcomes):
    return [
        Group(Problem(str(i), "", ""), tuple(Rollout("a", reward=Reward(float(r))) for r in of_group))
        for i, of_group in enumerate(outcomes)
    ]


def kept(outcomes, top_p):
    """The numbers of the groups that are trained on, and of those that are returned as sampled."""
    method = method_named("clip-higher", selection={"top_p": top_p})
    trained = [int(group.problem.id) for group in method.apply(groups_of(outcomes), 0.0)]
    shaped = method.shaped(groups_of(outcomes), 0.0)
    assert [group.outcomes.tolist() for group in shaped] == [[*map(float, o)] for o in outcomes]
    assert trained == [i for i, group in enumerate(shaped) if all(r.trained for r in group.rollouts)]
    assert all(math.isnan(a) for i, group in enumerate(shaped) if i not in trained for a in group.advantages)
    return trained


ONE, TWO, ALL, NONE = [0, 0, 0, 1], [0, 1, 1, 0], [1] * 4, [0] * 4
"""Sample standard deviations: 1/2, 1/sqrt(3) = .577, 0 and 0."""


@pytest.mark.parametrize(
    ("outcomes", "top_p", "trained"),
    [
        # the sum is 1.077 + .5 = 1.577; .577 >= .3 * 1.577 - .01 = .463
        ([ONE, TWO, ALL, ONE], 0.3, [1]),
        # .9 * 1.577 - .01 = 1.409 is more than .577 + .5
        ([ONE, TWO, ALL, ONE], 0.9, [0, 1, 3]),
        # .6 * 1.577 - .01 = .936: of two groups with the same deviation, the earlier
        ([ONE, TWO, NONE, ONE], 0.6, [0, 1]),
        # .01 short of the sum is enough: .577 >= .54 * 1.077 - .01 = .5717, but not .55 * 1.077 - .01 = .5825
        ([ONE, TWO], 0.54, [1]),
        ([ONE, TWO], 0.55, [0, 1]),
        ([ALL, NONE], 0.9, []),
        ([ALL, [1], [0]], 0.9, []),
        ([[1], TWO], 0.9, [1]),
        # at 1 nothing is left out, as if there were no filter
        ([ALL, TWO, NONE], 1, [0, 1, 2]),
    ],
)
def test_by_hand(outcomes, top_p, trained):
    assert kept(outcomes, top_p) == trained


@given(
    st.lists(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=4, max_size=4), min_size=1, max_size=9),
    st.sampled_from([0.1, 0.5, 0.8, 0.9, 0.99]),
)
def test_agrees_with_the_rule_of_the_release(outcomes, top_p):
    """RAGEN's linear rule with its defaults: groups in the order of their deviation, until their sum is enough or the
    next one is 0."""
    deviations = [stdev(of_group) for of_group in outcomes]
    enough, total, chosen = top_p * sum(deviations) - 0.01, 0.0, []
    for i in sorted(range(len(outcomes)), key=lambda i: -deviations[i]):
        # a sum at the limit may fall on either side of it by rounding
        if abs(total - enough) < 1e-9:
            return
        if total >= enough or deviations[i] <= 0:
            break
        total, chosen = total + deviations[i], [*chosen, i]
    assert kept(outcomes, top_p) == sorted(chosen)


def test_the_engines_and_what_is_refused():
    """Those that train on every response refuse it, in one line."""
    method = method_named("clip-higher", selection={"top_p": 0.9})
    assert {"built-in", "DiverTrainer", "verl"}.isdisjoint(refusals(method))
    assert "a selection drops rollouts, and TRL trains on every one" in refusals(method)["TRL"]
    with pytest.raises(DiverError, match="a selection drops responses"):
        diver.advantages(["a", "b"], [1, 0], [0, 0], method)
    with pytest.raises(DiverError, match="filter_groups samples other problems .* top_p does not: choose one"):
        method_named("dapo", selection={"top_p": 0.9})
    with pytest.raises(DiverError, match="method.selection.top_p: must be above 0 and at most 1, not 0"):
        method_named("grpo", selection={"top_p": 0})
