"""Which responses to a problem are the same: `Rollout.key`, for methods that ask for `keys`."""

import hashlib
from collections.abc import Sequence

from diver.core.types import UNANSWERED, Grade, Group, Problem, Rollout
from diver.tasks.verify.base import Grader
from diver.tasks.verify.graders import get_grader

LONGEST = 64
"""Longest key in characters; a longer one is replaced by a digest."""


def with_keys(groups: Sequence[Group]) -> list[Group]:
    """The graded groups with the `key` and the `solution` of every rollout, by the verifier that the problem names."""
    keyed = []
    for group in groups:
        by = get_grader(group.problem.verifier, f"problem {group.problem.id!r}: verifier")
        keys = [key(by, group.problem, rollout) for rollout in group.rollouts]
        known = [by.exact_solutions and rollout.grade is Grade.CORRECT for rollout in group.rollouts]
        keyed.append(group.with_each(key=keys, solution=[k if of else None for k, of in zip(keys, known, strict=True)]))
    return keyed


def key(grader: Grader, problem: Problem, rollout: Rollout) -> str:
    """The key of a correct response is its solution where the verifier knows when two are the same, else the reference
    answer. The key of another response is its answer: "" without one, also if it was cut or ends inside its thought."""
    if rollout.grade in UNANSWERED:
        return ""
    correct = rollout.grade is Grade.CORRECT
    if correct and not grader.exact_solutions:
        text = problem.answer
    elif correct:
        text = grader.solution(rollout.response, problem)
    else:
        text = grader.reached(rollout.response, problem)
    return text if len(text) <= LONGEST else hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
