"""From a response to a grade: see `grading`."""

from diver.grading.base import Grader, Verdict
from diver.grading.environment import EnvironmentGrader
from diver.grading.extraction import in_thought, opens_thought
from diver.grading.grading import DEFAULT, GRADERS, get_grader, grade, verdicts, verify, with_keys
from diver.grading.settings import Verification

__all__ = [
    "DEFAULT",
    "GRADERS",
    "EnvironmentGrader",
    "Grader",
    "Verdict",
    "Verification",
    "get_grader",
    "grade",
    "in_thought",
    "opens_thought",
    "verdicts",
    "verify",
    "with_keys",
]
