"""The grader that a setting names. A setting is `AUTO`, or the name of one grader for all problems."""

from diver.core.seeds import digest
from diver.core.types import Problem
from diver.grading.base import Grader
from diver.grading.grading import get_grader

AUTO = "auto"  # use the verifier that each problem names
MAX_ANSWER = 48  # a longer answer is stored as a digest


def grader_for(problem: Problem, name: str) -> Grader:
    return get_grader(problem.verifier if name == AUTO else name)


def answer(problem: Problem, response: str, grader: str) -> str | None:
    """The vote of a response, None without one; a digest if the vote is long."""
    final = grader_for(problem, grader).final_answer(response, problem)
    return final if final is None or len(final) <= MAX_ANSWER else digest(final)
