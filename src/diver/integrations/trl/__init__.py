"""DIVER in TRL: a reward function for the stock GRPOTrainer, which returns advantages, and `DiverTrainer` for
the methods that a reward function cannot carry."""

from typing import TYPE_CHECKING

from diver.core.extensions import on_first_use

if TYPE_CHECKING:
    from diver.integrations.trl.adapter import GroupAdvantage
    from diver.integrations.trl.objective import config
    from diver.integrations.trl.trainer import DiverTrainer, GroupOutcome

__all__ = ["DiverTrainer", "GroupAdvantage", "GroupOutcome", "config"]

# `diver methods` needs `objective` alone; `adapter` imports the graders, and `trainer` TRL.
__getattr__ = on_first_use(
    __name__,
    {
        "GroupAdvantage": "adapter",
        "config": "objective",
        **dict.fromkeys(("DiverTrainer", "GroupOutcome"), "trainer"),
    },
)
