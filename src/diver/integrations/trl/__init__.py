"""DIVER in TRL's GRPOTrainer, through its public seam only: a reward function that returns the group's advantage."""

from diver.integrations.trl.adapter import GroupAdvantage
from diver.integrations.trl.objective import config

__all__ = ["GroupAdvantage", "config"]
