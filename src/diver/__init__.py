"""DIVER: reinforcement learning of reasoning that rewards correct answers for being different."""

from typing import TYPE_CHECKING, Any

from diver.core.types import Grade, Group, Problem, Rollout
from diver.diversity import equational_diversity, textual_diversity
from diver.integrations.api import advantages
from diver.methods import Method

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """`read`, which takes longer to import than all the others, when it is first used."""
    if name == "read":
        from diver.rollouts import read

        return read
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
