"""Diversity of the trajectories of one group: by the actions of the policy, and by the states that it visited.

Only actions and named states count. The texts of the policy and of the environment do not.
"""

from collections.abc import Sequence

import numpy as np

from diver.core.turns import Action
from diver.core.types import Group
from diver.diversity.equational import unique_fractions
from diver.diversity.textual import textual_diversity


def action_diversity(
    group: Group, *, orders: int = 4, weights: Sequence[float] | None = None, symmetric: bool = False
) -> np.ndarray:
    """The textual diversity of the sequences of actions, each action a token: mean over j != i of 1 - BLEU(a_i, a_j).

    Args:
        group: G trajectories.
        orders: the longest n-gram of actions.
        weights ([orders]): the weight of each order of n-grams. Defaults to equal weights.
        symmetric: whether to take the mean of both directions of a pair.

    Returns:
        float64 [G] in [0, 1]. Trajectories without an action are equal to each other, and a group of one has 0.
    """
    return textual_diversity(_numbered(group), orders=orders, weights=weights, symmetric=symmetric)


def action_edits(group: Group) -> np.ndarray:
    """The mean over j != i of the Levenshtein distance of the sequences of actions, divided by the longer length.

    Returns:
        float64 [G] in [0, 1]. Trajectories without an action are equal to each other, and a group of one has 0.
    """
    sequences = _numbered(group)
    size = len(sequences)
    distance = np.zeros((size, size))
    for i, a in enumerate(sequences):
        for j, b in enumerate(sequences[:i]):
            distance[i, j] = distance[j, i] = edit_distance(a, b) / max(len(a), len(b), 1)
    return distance.sum(axis=1) / max(size - 1, 1)


def edit_distance(a: Sequence[int], b: Sequence[int]) -> int:
    """The Levenshtein distance: the fewest insertions, deletions and replacements that make `a` into `b`."""
    target, place = np.asarray(b), np.arange(len(b) + 1)
    row = place.copy()
    for item in a:
        below = row + 1  # a deletion
        below[1:] = np.minimum(below[1:], row[:-1] + (target != item))
        row = np.minimum.accumulate(below - place) + place  # then any number of insertions
    return int(row[-1])


def state_diversity(group: Group) -> np.ndarray:
    """The fraction of a trajectory's states that no other trajectory of the group visits.

    Returns:
        float64 [G] in [0, 1]. A trajectory without a named state, and a group of one, have 0.
    """
    if len(group) == 1:
        return np.zeros(1)
    states = [frozenset(turn.state for turn in r.turns if turn.state is not None) for r in group.rollouts]
    return unique_fractions(states)


def _numbered(group: Group) -> list[list[int]]:
    """The actions of each trajectory as numbers, equal where the actions are."""
    number: dict[Action, int] = {}
    return [[number.setdefault(action, len(number)) for action in rollout.actions] for rollout in group.rollouts]
