"""Methods: see `base` for what a method is, `registry` for their names."""

from diver.core.settings import settings
from diver.methods.base import (
    NEEDS,
    OBSERVED,
    Context,
    Decode,
    Method,
    Selection,
    check_needs,
    check_outcomes,
    check_replayed,
)
from diver.methods.diver import Diver
from diver.methods.grpo import ClipHigher, Grpo
from diver.methods.registry import METHODS, method_named
