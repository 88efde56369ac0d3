"""The common part of methods whose signal is the value of sets of k responses of a group."""

from diver.core.settings import PositiveInt, settings
from diver.core.types import DiverError
from diver.methods.base import Method


@settings
class OfSets(Method):
    """A method that compares sets of k responses of a group."""

    any_size = False  # a set of k says more of a small group

    k: PositiveInt = 4
    """The size of a set."""

    def __post_init__(self) -> None:
        if self.selection.outcomes != "all":
            raise ValueError("selection.outcomes leaves groups of fewer than k responses; it must be all")

    def check_group_size(self, size: int, key: str) -> None:
        if self.k >= size:
            raise DiverError(f"method.k is {self.k} with {key} = {size}: k must be below G, or no group has a signal")
