"""Which responses to a problem are the same: `Rollout.key`, for methods that ask for `keys`."""

import hashlib
from collections.abc import Sequence

from diver.types import UNANSWERED, Grade, Group, Problem, Rollout
from diver.verify.graders import Grader, get_grader, solution

LONGEST = 64
"""Of a key, in characters; a longer one is replaced by a digest."""


def with_keys(groups: Sequence[Group]) -> list[Group]:
    """The graded groups with the `key` of every rollout, by the verifier that the problem names."""
    keyed = []
    for group in groups:
        by = get_grader(group.problem.verifier, f"problem {group.problem.id!r}: verifier")
        keyed.append(group.with_each(key=[key(by, group.problem, rollout) for rollout in group.rollouts]))
    return keyed


def key(grader: Grader, problem: Problem, rollout: Rollout) -> str:
    """Of a correct response the solution, where the verifier knows when two are the same, else the reference answer; of
    another the answer that it gives; "" for none, also of one that was cut or ends inside its thought."""
    if rollout.grade in UNANSWERED:
        return ""
    correct = rollout.grade is Grade.CORRECT
    if correct and not grader.exact_solutions:
        text = problem.answer
    elif correct:
        text = solution(grader, problem, rollout.response)
    else:
        text = grader.reached(rollout.response, problem)
    return text if len(text) <= LONGEST else hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
