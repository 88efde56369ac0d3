"""math-verify by itself: what it finds in the whole response, against what it finds in the reference answer.

Its own timeouts are off, since they need the main thread and do not stop SymPy: the worker process is killed instead.
"""

from typing import Any

from diver.core.extras import require
from diver.core.types import Grade, Problem
from diver.tasks.verify.base import PendingCall
from diver.tasks.verify.custom import defer
from diver.tasks.verify.mathematics import Mathematics


class MathVerify(Mathematics):
    """Grader "math-verify", for comparison with ours, whose final answers and solutions it shares."""

    name = "math-verify"
    rules = 1

    def grade(self, response: str, problem: Problem) -> PendingCall:
        require("math_verify")
        return defer(f"{__name__}:judge", response, problem, warm=f"{__name__}:library")


def library() -> Any:
    """math-verify. A worker imports it before its first job: else the import would count as time of an answer."""
    import math_verify

    return math_verify


def judge(response: str, problem: Problem) -> Grade:
    """In a worker: no answer where math-verify finds none; an error where it cannot read the reference answer."""
    math_verify = library()
    known = [problem.answer, f"${problem.answer}$", f"\\boxed{{{problem.answer}}}"]
    golds = [math_verify.parse(text, parsing_timeout=None) for text in known]
    gold = next((g for g in sorted(golds, key=len, reverse=True) if g), None)
    if gold is None:
        return Grade.ERROR
    answer = math_verify.parse(response, parsing_timeout=None)
    if not answer:
        return Grade.NO_ANSWER
    return Grade.CORRECT if math_verify.verify(gold, answer, timeout_seconds=None) else Grade.WRONG
