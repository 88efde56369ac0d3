"""Methods: one file each. See `base` for what a method is, `registry` for their names."""

from diver.methods.base import NEEDS, OBSERVED, Decode, Method, check_needs
from diver.methods.clip_higher import ClipHigher
from diver.methods.diver import Diver
from diver.methods.grpo import Grpo
from diver.methods.registry import METHODS, method_class, method_named
from diver.methods.selection import Selection
from diver.settings import settings

__all__ = [
    "METHODS",
    "NEEDS",
    "OBSERVED",
    "ClipHigher",
    "Decode",
    "Diver",
    "Grpo",
    "Method",
    "Selection",
    "check_needs",
    "method_class",
    "method_named",
    "settings",
]
