"""DIVER: reinforcement learning of reasoning that rewards correct answers for being different."""

from diver.api import advantages
from diver.diversity import equational_diversity, textual_diversity
from diver.methods import Method
from diver.types import Grade, Group, Problem, Rollout

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
    "textual_diversity",
]
