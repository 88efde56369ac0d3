"""DIVER: reinforcement learning of reasoning that rewards correct answers for being different.

A name is imported when it is first used, so that each room of the package can be used without the others.
"""

from typing import TYPE_CHECKING

from diver.core.extensions import GRADERS, on_first_use

if TYPE_CHECKING:
    from diver.core.types import Grade, Group, Problem, Rollout
    from diver.diversity import equational_diversity, textual_diversity
    from diver.integrations.api import advantages
    from diver.methods import Method
    from diver.rollouts import read

__version__ = "0.2.0"

__all__ = [
    "Grade",
    "Group",
    "Method",
    "Problem",
    "Rollout",
    "__version__",
    "advantages",
    "equational_diversity",
    "read",
    "textual_diversity",
]

__getattr__ = on_first_use(
    __name__,
    {
        **dict.fromkeys(("Grade", "Group", "Problem", "Rollout"), "core.types"),
        **dict.fromkeys(("equational_diversity", "textual_diversity"), "diversity"),
        "Method": "methods",
        "advantages": "integrations.api",
        "read": "rollouts",
    },
)

GRADERS |= {
    "countdown": "diver.tasks.countdown:CountdownGrader",
    "maze": "diver.tasks.maze:MazeGrader",
    "reasoning-gym": "diver.tasks.reasoning_gym:ReasoningGymGrader",
    "graph-coloring": "diver.tasks.reasoning_gym:GraphColoring",
}
