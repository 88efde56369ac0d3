"""From a response to a grade: see `grading`."""

from diver.config.verification import Verification
from diver.verify.graders import GRADERS, Grader, get_grader, solution
from diver.verify.grading import DEFAULT, grade, verify
from diver.verify.keys import with_keys
from diver.verify.thought import in_thought

__all__ = [
    "DEFAULT",
    "GRADERS",
    "Grader",
    "Verification",
    "get_grader",
    "grade",
    "in_thought",
    "solution",
    "verify",
    "with_keys",
]
