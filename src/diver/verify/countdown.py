"""The judge of Countdown: exact, linear in a bounded prefix of the text, so it needs no process of its own."""

from __future__ import annotations

from diver.data import countdown
from diver.types import Grade, Problem


def judge(response: str, problem: Problem) -> Grade:
    """Correct if the steps use each number once and lead to the boxed target; no box is no answer."""
    if countdown.parse(response)[1] is None:
        return Grade.NO_ANSWER
    numbers, target = list(problem.meta["numbers"]), int(problem.meta["target"])
    return Grade.CORRECT if countdown.solution(response, numbers, target) else Grade.WRONG
