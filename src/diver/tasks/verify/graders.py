"""Graders by name: `Problem.verifier` and `--grader` name one of `GRADERS`, or a custom function "module:name".

Several graders may grade the same responses. Each grade is stored with `str(grader)`, name and version, so that grades
made by other rules are never mistaken for it. A new grader is a subclass of `Grader` in a file of its own, and a line
below.
"""

from functools import cache

from diver.core.settings import choose
from diver.tasks.verify.base import Grader
from diver.tasks.verify.choice import Choice
from diver.tasks.verify.countdown import CountdownGrader
from diver.tasks.verify.custom import Custom
from diver.tasks.verify.mathematics import GSM8K, Mathematics, MathVerify
from diver.tasks.verify.maze import MazeGrader
from diver.tasks.verify.reasoning_gym import GraphColoring, ReasoningGymGrader

_OURS = (Mathematics, GSM8K, Choice, CountdownGrader, MazeGrader, ReasoningGymGrader, GraphColoring, MathVerify)
GRADERS: dict[str, Grader] = {grader.name: grader() for grader in _OURS}


@cache
def get_grader(name: str, where: str = "grader") -> Grader:
    """The grader of that name, or of a custom function "package.module:name".

    Raises:
        DiverError: No such name, a module that cannot be imported, or a function that does not take (response,
            problem). `where` begins the message.
    """
    if name in GRADERS:
        return GRADERS[name]
    if ":" not in name:
        choose(name, [*GRADERS, "package.module:function"], where)
    return Custom(name, where)
