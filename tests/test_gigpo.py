"""GiGPO by hand: returns, states that trajectories share, and advantages of turns and of tokens."""

import numpy as np
import pytest

import diver
from diver.core.turns import Turn
from diver.core.types import DiverError, Group, Problem, Reward, Rollout
from diver.methods import method_named
from diver.methods.gigpo import discounted_returns, turn_advantages, turn_rewards


def acts(tokens=()):
    return Turn("assistant", "a", tokens=tokens)


def leads_to(state, reward=None):
    return Turn("tool", "seen", state=state, reward=reward, tokens=[0])


def group(*trajectories):
    rollouts = [Rollout.of_turns(turns, reward=Reward(outcome)) for turns, outcome in trajectories]
    return Group(Problem("p", "", ""), tuple(rollouts))


# Four trajectories from one start. x is visited by two, and by the first twice; y and z by one each.
GROUP = group(
    ([acts([1]), leads_to("x"), acts([2, 3]), leads_to("x"), acts([4])], 1.0),
    ([acts([1]), leads_to("x"), acts([5])], 0.0),
    ([acts([1]), leads_to("y"), acts([6])], 1.0),
    ([acts([1, 1]), leads_to("z")], 0.0),
)


def test_returns_by_hand():
    """1 + 0.5 (0 + 0.5 * 4) = 2, 0 + 0.5 * 4 = 2, 4."""
    assert discounted_returns([1, 0, 4], 0.5).tolist() == [2, 2, 4]
    assert discounted_returns([], 0.5).tolist() == [] and discounted_returns([3, 1], 0).tolist() == [3, 1]


def test_turn_advantages_by_hand():
    """gamma = 1/2: the returns are (1/4, 1/2, 1), (0, 0), (1/2, 1), (0). The mean outcome is 1/2.

    Start: 1/4, 0, 1/2, 0 with mean 3/16. x: 1/2, 1 and 0 with mean 1/2. y occurs once, and nobody acts in z.
    """
    first, second, third, fourth = turn_advantages(GROUP, discount=0.5)
    assert first.tolist() == [1 / 2 + 1 / 16, 1 / 2 + 0, 1 / 2 + 1 / 2]
    assert second.tolist() == [-1 / 2 - 3 / 16, -1 / 2 - 1 / 2]
    assert third.tolist() == [1 / 2 + 5 / 16, 1 / 2]
    assert fourth.tolist() == [-1 / 2 - 3 / 16]
    halved = turn_advantages(GROUP, discount=0.5, weight=0.5)
    assert halved[0].tolist() == [1 / 2 + 1 / 32, 1 / 2, 3 / 4]
    assert [a.tolist() for a in turn_advantages(GROUP, weight=0)] == [[0.5] * 3, [-0.5] * 2, [0.5] * 2, [-0.5]]


def test_turn_advantages_over_the_standard_deviation():
    """x with gamma = 1/2: 1/2, 1, 0, deviation sqrt(1/6). The outcomes have the deviation 1/2."""
    first, second, *_ = turn_advantages(GROUP, discount=0.5, divisor="std")
    deviation = np.sqrt(1 / 6)
    assert first[1:].tolist() == pytest.approx([1, 1 + 0.5 / deviation])
    assert second[1] == pytest.approx(-1 - 0.5 / deviation)


def test_rewards_of_turns_are_those_of_the_environment():
    """What is paid up to the next turn of the policy belongs to the turn before; with none, the end has the outcome."""
    paid = Rollout.of_turns(
        [leads_to("s", 9.0), acts(), leads_to("x", 0.25), leads_to("x", 0.5), acts(), leads_to("y")], reward=Reward(1.0)
    )
    assert turn_rewards(paid) == [0.75, 0] and turn_rewards(GROUP.rollouts[0]) == [0, 0, 1]
    assert turn_rewards(Rollout("a", reward=Reward(0.5, diversity=0.25))) == [0.75]


def test_tokens_of_two_trajectories_by_hand():
    """The method, from graded groups: returns at 1/2 are (1/2, 1) and (0, 0), and both act at the start and in x.

    The trajectories have 1/2 and -1/2 by their outcomes, their first turns 1/4 and -1/4, their second turns 1/2 and
    -1/2. The environment's tokens, 0 and 9, have none.
    """
    pair = group(
        ([acts([1, 2]), leads_to("x", 0.0), acts([3]), leads_to("goal", 1.0)], 1.0),
        ([acts([4]), Turn("tool", "other words", state="x", reward=0.0, tokens=[9, 9]), acts([5, 6, 7])], 0.0),
    )
    (done,) = method_named("gigpo", discount=0.5).apply([pair], 0.0)
    solved, failed = done.rollouts
    assert solved.token_advantages.tolist() == [1 / 2 + 1 / 4, 1 / 2 + 1 / 4, 1 / 2 + 1 / 2]
    assert failed.token_advantages.tolist() == [-1 / 2 - 1 / 4, *[-1 / 2 - 1 / 2] * 3]
    means = [(3 / 4 + 3 / 4 + 1) / 3, -(3 / 4 + 3) / 4]  # over their tokens; they do not sum to 0
    assert done.advantages.tolist() == pytest.approx(means)
    (halved,) = method_named("gigpo", discount=0.5, turn_weight=0.5).apply([pair], 0.0)
    assert halved.rollouts[0].token_advantages.tolist() == [5 / 8, 5 / 8, 3 / 4]
    (over,) = method_named("gigpo", divisor="std").apply([pair], 0.0)
    assert [set(r.token_advantages.tolist()) for r in over.rollouts] == [{2.0}, {-2.0}]  # 1 and 1, at both levels


def test_a_response_of_one_turn_has_twice_the_advantage_of_grpo():
    texts = Group(Problem("p", "", ""), tuple(Rollout("a", [1], reward=Reward(r)) for r in (1.0, 0.0, 0.0, 0.0)))
    assert [a.tolist() for a in turn_advantages(texts)] == [[1.5], [-0.5], [-0.5], [-0.5]]
    given = diver.advantages(list("abcd"), [1, 0, 0, 0], [0] * 4, method_named("gigpo"), tokens=[[1, 2], [3], [4], []])
    assert [a.tolist() for a in given] == [[1.5, 1.5], [-0.5], [-0.5], []]


def test_tokens_of_the_environment_have_no_advantage():
    chats = [
        [{"role": "assistant"}, {"role": "tool", "content": "n", "state": s}, {"role": "assistant"}] for s in "xxyx"
    ]
    tokens, masks = [[1, 0, 0, 2, 3]] * 4, [[1, 0, 0, 1, 1]] * 4
    method = method_named("gigpo", discount=1.0)
    found = diver.advantages(chats, [1, 0, 1, 1], [0] * 4, method, tokens=tokens, masks=masks)
    # start: 1, 0, 1, 1 with mean 3/4; x: 1, 0, 1 with mean 2/3; y: 0; the trajectory as the start
    good = [1 / 2, 0, 0, 1 / 4 + 1 / 3, 1 / 4 + 1 / 3]
    expected = [good, [-3 / 2, 0, 0, -3 / 4 - 2 / 3, -3 / 4 - 2 / 3], [1 / 2, 0, 0, 1 / 4, 1 / 4], good]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="the tokens of its turns are not known: give `tokens` with `masks`"):
        diver.advantages(chats, [1, 0, 1, 1], [0] * 4, method, tokens=[[1, 2, 3]] * 4)
    with pytest.raises(DiverError, match="needs tokens, which diver.advantages without `tokens` does not provide"):
        diver.advantages(chats, [1, 0, 1, 1], [0] * 4, method)


def test_settings_of_gigpo_are_checked():
    for setting, said in [({"discount": 1.5}, "discount"), ({"turn_weight": -1.0}, "turn_weight")]:
        with pytest.raises(DiverError, match=said):
            method_named("gigpo", **setting)
