"""Rollouts of any origin as groups: files, or the folders that a trainer leaves. docs/measure.md has a table of the layouts.

Of files of any other origin `columns.PROBLEMS` and its like are tried in turn, and `Columns` names what is called otherwise.
"""

from diver.rollouts.columns import Columns
from diver.rollouts.reader import Rollouts, read, read_rollouts

__all__ = ["Columns", "Rollouts", "read", "read_rollouts"]
