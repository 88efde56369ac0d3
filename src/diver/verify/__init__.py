"""From a response to a grade: see `grading`."""

from diver.config.verification import Bounds, Verification
from diver.verify.graders import GRADERS, VERIFIERS, Grader, grader_of
from diver.verify.grading import DEFAULT, grade, grades, verify

__all__ = [
    "DEFAULT",
    "GRADERS",
    "VERIFIERS",
    "Bounds",
    "Grader",
    "Verification",
    "grade",
    "grader_of",
    "grades",
    "verify",
]
