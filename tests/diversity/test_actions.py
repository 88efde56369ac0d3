"""Diversity of trajectories: worked out by hand, and against NLTK."""

import numpy as np
import pytest

from diver.core.turns import Action, Turn
from diver.core.types import Group, Problem, Rollout
from diver.diversity import (
    METRICS,
    Diversity,
    action_diversity,
    action_edits,
    action_key,
    measure,
    state_diversity,
    textual_diversity,
)
from diver.diversity.actions import edit_distance
from diver.diversity.metrics import needs_of

LETTERS = ["abcd", "abce", "", "ab", "dcba", "a" * 12, "abcabcabc", ""]


def trajectory(letters, states=(), said="the environment's own words"):
    """One action a turn, each answered by the environment."""
    turns = []
    for letter in letters:
        turns += [Turn("assistant", f"I do {letter}.", (Action(letter),)), Turn("tool", said)]
    turns += [Turn("user", "you are there", state=state) for state in states]
    return Rollout.of_turns([*turns, Turn("assistant", "Done.")])


def group(*rollouts):
    return Group(Problem("p", "", ""), rollouts)


def test_edit_distances_of_actions_by_hand():
    """abcd to abce: 1 of 4. To ab: 2 of 4. To nothing: 4 of 4. abce to ab: 2 of 4, ab to nothing: 2 of 2."""
    d = action_edits(group(*map(trajectory, ("abcd", "abce", "ab", ""))))
    assert d.tolist() == pytest.approx([(1 / 4 + 2 / 4 + 1) / 3] * 2 + [(2 / 4 + 2 / 4 + 1) / 3, 1])
    assert action_edits(group(trajectory(""), trajectory(""))).tolist() == [0, 0]
    assert action_edits(group(trajectory("abc"))).tolist() == [0]


def test_edit_distances_are_nltks():
    from nltk.metrics.distance import edit_distance as nltks

    rng = np.random.default_rng(3)
    pairs = [(a, b) for a in LETTERS for b in LETTERS]
    pairs += [tuple("".join(rng.choice(list("abc"), rng.integers(0, 15))) for _ in range(2)) for _ in range(100)]
    for a, b in pairs:
        assert edit_distance([*map(ord, a)], [*map(ord, b)]) == nltks(a, b)


def test_actions_are_the_tokens_of_bleu():
    """The same numbers as TD of texts with a word for each action, which is NLTK's."""
    trajectories = group(*map(trajectory, LETTERS))
    assert action_diversity(trajectories).tolist() == textual_diversity([" ".join(a) for a in LETTERS]).tolist()
    one = measure(trajectories, ["actions"], Diversity(orders=1, symmetric=True))["actions"]
    assert one.tolist() == textual_diversity([" ".join(a) for a in LETTERS], orders=1, symmetric=True).tolist()
    pair = group(trajectory("ab"), trajectory("ac"))
    assert measure(pair, ["actions"], Diversity(orders=1))["actions"].tolist() == pytest.approx([0.5, 0.5])


def test_states_that_nobody_else_visits_by_hand():
    visits = group(trajectory("a", "xyy"), trajectory("a", "yz"), trajectory("a", "x"), trajectory("a"))
    assert state_diversity(visits).tolist() == [0, 0.5, 0, 0]  # z alone is of one trajectory
    assert state_diversity(group(trajectory("a", "xy"))).tolist() == [0]


def test_what_the_environment_says_changes_no_diversity():
    plain = group(*map(trajectory, ("ab", "ac", "b")))
    loud = group(*(trajectory(a, said=f"noise {i} " * 50) for i, a in enumerate(("ab", "ac", "b"))))
    names = [name for name in METRICS if name not in ("hidden-state", "embedding")]
    before, after = measure(plain, names), measure(loud, names)
    assert {name: d.tolist() for name, d in before.items()} == {name: d.tolist() for name, d in after.items()}
    assert plain.responses == loud.responses and before["actions"].any() and before["textual"].any()


def test_one_key_for_each_sequence_of_actions():
    keys = [action_key(trajectory(a, said=said)) for a, said in [("ab", "x"), ("ab", "y"), ("ba", "x"), ("", "x")]]
    assert keys[0] == keys[1] and len({*keys}) == 3
    assert action_key(Rollout("<action>a</action>")) != action_key(Rollout("a")) == keys[3]


def test_metrics_of_turns_say_that_they_need_them():
    assert {name for name in METRICS if "turns" in needs_of(name)} == {"actions", "action-edits", "states"}
