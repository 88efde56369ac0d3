"""DIVER in TRL: a reward function for the stock GRPOTrainer, which returns the group's advantage, and a trainer of our
own for the methods that a reward function cannot carry."""

from typing import Any

from diver.integrations.trl.adapter import GroupAdvantage
from diver.integrations.trl.objective import config

__all__ = ["DiverTrainer", "GroupAdvantage", "GroupOutcome", "config"]


def __getattr__(name: str) -> Any:
    if name not in ("DiverTrainer", "GroupOutcome"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from diver.integrations.trl import trainer  # imports TRL

    return getattr(trainer, name)
