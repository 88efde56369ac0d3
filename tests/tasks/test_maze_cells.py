"""The maze cell by cell, by hand: a board of 3 x 3 with one wall in its middle.

a1 b1 c1
a2 ## c2
a3 b3 c3
"""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from diver.core.environment import Step
from diver.core.types import Problem
from diver.grading import get_grader
from diver.recipe.data import MAZES
from diver.tasks import maze, maze_cells
from diver.tasks.templates import render

META = {"size": 3, "start": "a1", "goal": "c3", "walls": ["b2"]}
PROBLEM = Problem("m", "", "c3", verifier="diver.tasks.maze_cells:MazeCells", meta=META)


def walked(*directions, problem=PROBLEM):
    environment, said = get_grader(problem.verifier).start(problem)
    return said, [environment.step(f" {direction} ") for direction in directions]


def test_a_walk_by_hand():
    said, steps = walked("right", "right", "left", "right", "down", "down")
    assert said == render(PROBLEM) == "Goal c3. At a1: right down."
    assert steps == [
        Step("At b1: right left.", False, 0.0, "b1", ["right"]),
        Step("At c1: left down.", False, 0.0, "c1", ["right"]),
        Step("At b1: right left.", False, 0.0, "b1", ["left"]),  # a cell may be entered twice
        Step("At c1: left down.", False, 0.0, "c1", ["right"]),
        Step("At c2: down up.", False, 0.0, "c2", ["down"]),
        Step("At c3: left up.", True, 1.0, "c3", ["down"]),
    ]


@pytest.mark.parametrize("turn", ["left", "up", "east", "", "right down"])
def test_what_is_no_open_direction_ends_the_walk(turn):
    assert walked(turn)[1] == [Step("There is no way.", True, 0.0, None, [turn])]
    assert walked("right", "down")[1][-1].done  # the wall


def test_walls_are_not_told():
    """Two mazes that differ where nobody has been look the same until then."""
    other = replace(PROBLEM, meta={**META, "walls": ["b2", "c2"]})
    assert walked("down")[0] == walked("down", problem=other)[0]
    assert walked("right", "right")[1][-1] != walked("right", "right", problem=other)[1][-1]


def test_every_way_of_the_testbed_can_be_walked():
    rng = random.Random(0)
    for _ in range(20):
        start, goal, cells = maze.draw(MAZES["seven"], rng)
        problem = maze.problem(start, goal, cells, 7, "")[1]
        way = maze.wander(start, goal, cells, rng)
        assert [maze.cell_of(maze.name_of(cell)) for cell in way] == way
        moves = [maze_cells.DIRECTIONS[maze.neighbours(a).index(b)] for a, b in pairwise(way)]
        steps = walked(*moves, problem=replace(problem, verifier=PROBLEM.verifier))[1]
        assert [step.reward for step in steps] == [0.0] * (len(moves) - 1) + [1.0]
        assert [step.state for step in steps] == [maze.name_of(cell) for cell in way[1:]]
