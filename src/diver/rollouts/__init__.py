"""Rollouts of any origin as groups: files, or the folders that a trainer leaves. docs/measure.md lists the layouts.

In files of any other origin the names of layouts.toml are tried in turn; `Columns` names what has another name.
"""

from diver.rollouts.columns import Columns
from diver.rollouts.reader import Rollouts, read, read_rollouts

__all__ = ["Columns", "Rollouts", "read", "read_rollouts"]
