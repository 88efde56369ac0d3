"""DIVER: reinforcement learning of reasoning that rewards correct answers for being different.

A name is imported when it is first used, so that each room of the package can be used without the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from diver.core.extensions import GRADERS

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

_DEFINED_IN = {
    **dict.fromkeys(("Grade", "Group", "Problem", "Rollout"), "core.types"),
    **dict.fromkeys(("equational_diversity", "textual_diversity"), "diversity"),
    "Method": "methods",
    "advantages": "integrations.api",
    "read": "rollouts",
}

GRADERS |= {
    "countdown": "diver.tasks.countdown:CountdownGrader",
    "maze": "diver.tasks.maze:MazeGrader",
    "reasoning-gym": "diver.tasks.reasoning_gym:ReasoningGymGrader",
    "graph-coloring": "diver.tasks.reasoning_gym:GraphColoring",
}


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"diver.{_DEFINED_IN[name]}"), name)
