"""From a response to a grade: see `grading`."""

from diver.recipe.verification import Verification
from diver.tasks.verify.base import Grader, Verdict
from diver.tasks.verify.environment import EnvironmentGrader
from diver.tasks.verify.extraction import in_thought, opens_thought
from diver.tasks.verify.grading import DEFAULT, GRADERS, get_grader, grade, verdicts, verify, with_keys

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
