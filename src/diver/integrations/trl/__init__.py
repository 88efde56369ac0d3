"""DIVER in TRL: a reward function for the stock GRPOTrainer, which returns the group's advantage, and a trainer of our
own for the methods that a reward function cannot carry."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diver.integrations.trl.adapter import GroupAdvantage
    from diver.integrations.trl.objective import config
    from diver.integrations.trl.trainer import DiverTrainer, GroupOutcome

__all__ = ["DiverTrainer", "GroupAdvantage", "GroupOutcome", "config"]

# `diver methods` needs `objective` alone; `adapter` imports the graders, and `trainer` TRL.
_DEFINED_IN = {
    "GroupAdvantage": "adapter",
    "config": "objective",
    **dict.fromkeys(("DiverTrainer", "GroupOutcome"), "trainer"),
}


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"diver.integrations.trl.{_DEFINED_IN[name]}"), name)
