"""A maze cell by cell: the policy sees the open directions of its current cell, and names one of them.

    question      Goal d3. At b2: right down.
    policy        down
    environment   At b3: up right.

The mazes are those of `diver.tasks.maze`, whose walls the policy is not shown. A trajectory is correct if it
reaches the goal. It may enter a cell twice, but not a wall. Its actions are the path, so that two correct trajectories
have the same key where they take the same path.
"""

from collections.abc import Collection

from diver.core.environment import Environment, Step
from diver.core.types import Problem
from diver.tasks.maze import Cell, cell_of, name_of, neighbours

DIRECTIONS = ("right", "left", "down", "up")
"""In the order of `neighbours`: a row further down has a higher number."""


def view(cell: Cell, open_cells: Collection[Cell]) -> str:
    """The observation at a cell: its name, and the directions of its open neighbours."""
    around = zip(DIRECTIONS, neighbours(cell), strict=True)
    return f"At {name_of(cell)}: {' '.join(direction for direction, new in around if new in open_cells)}."


def question(cell: Cell, goal: Cell, open_cells: Collection[Cell]) -> str:
    return f"Goal {name_of(goal)}. {view(cell, open_cells)}"


class MazeCells(Environment):
    """The reward is 1 at the goal. A turn that names no open direction ends the trajectory."""

    max_turns = 24
    max_observation_tokens = 16

    def reset(self, problem: Problem) -> str:
        size, walls = problem.meta["size"], {*problem.meta["walls"]}
        self.cell, self.goal = cell_of(problem.meta["start"]), cell_of(problem.meta["goal"])
        board = [(x, y) for x in range(size) for y in range(size)]
        self.open = {cell for cell in board if name_of(cell) not in walls}
        return question(self.cell, self.goal, self.open)

    def step(self, text: str) -> Step:
        direction = text.strip()
        new = dict(zip(DIRECTIONS, neighbours(self.cell), strict=True)).get(direction)
        if new not in self.open:
            return Step("There is no way.", done=True, actions=[direction])
        self.cell = new
        at_goal, observation = new == self.goal, view(new, self.open)
        return Step(observation, done=at_goal, reward=float(at_goal), state=name_of(new), actions=[direction])
