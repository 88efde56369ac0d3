"""The mazes of the study, 7 x 7 cells, with at most 12 turns, and the problems of each stage.

A stage names its problems: `data.path = "agents.maze:tuning"`. All come from the streams of the testbed with seed 0. No
maze is repeated, not even with start and goal swapped.
"""

from __future__ import annotations

from functools import partial

from diver.core.types import Problem
from diver.recipe.data import Maze
from diver.tasks.maze import problems
from diver.tasks.maze_cells import MazeCells

TRAINED, HELD_OUT = 512, 128
"""Numbers of problems of a stage."""
TURN = {"tuning": 0, "final": 1}


class ShortWalk(MazeCells):
    """The maze, cell by cell, with half of its turns, so that a policy with detours is late."""

    max_turns = 12


def part(stage: str, size: int, held_out: bool) -> list[Problem]:
    first = TURN[stage] * size
    return problems(Maze(mix={"seven": 1.0}), first + size, held_out=held_out)[first:]


tuning = partial(part, "tuning", TRAINED, False)
tuning_held_out = partial(part, "tuning", HELD_OUT, True)
final = partial(part, "final", TRAINED, False)
final_held_out = partial(part, "final", HELD_OUT, True)
