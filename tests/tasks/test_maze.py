"""The maze: by hand, and against all ways that exhaustive search finds in the text of the prompt."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diver.core.types import Grade, Problem
from diver.recipe.data import MAZES, Maze
from diver.tasks import maze

# a3 b3 c3      b2 is a wall
# a2    c2
# a1 b1 c1
RING = {(x, y) for x in range(3) for y in range(3)} - {(1, 1)}
GRADER = maze.MazeGrader()
_, PROBLEM = maze.problem((0, 0), (2, 2), RING, 3, "ring")


@pytest.mark.parametrize(
    ("text", "grade", "key"),
    [
        (r"\boxed{ a1 a2 a3 b3 c3 }", Grade.CORRECT, "a1 a2 a3 b3 c3"),
        (r"first \boxed{a1}, no: \boxed{a1, b1, c1, c2, c3}.", Grade.CORRECT, "a1 b1 c1 c2 c3"),
        (r"\boxed{ a1 a2 a3 b3 }", Grade.WRONG, "b3"),  # stops before the goal
        (r"\boxed{ a1 a2 b2 b3 c3 }", Grade.WRONG, "a2"),  # through the wall
        (r"\boxed{ a1 b1 c1 d1 }", Grade.WRONG, "c1"),  # leaves the board
        (r"\boxed{ a1 a2 a1 b1 c1 c2 c3 }", Grade.WRONG, "a2"),  # enters a cell twice
        (r"\boxed{ a1 a2 a3 b3 c3 c2 }", Grade.WRONG, "c2"),  # goes on from the goal
        (r"\boxed{ a1 c3 }", Grade.WRONG, "a1"),  # jumps
        (r"\boxed{ a2 a3 b3 c3 }", Grade.WRONG, ""),  # starts elsewhere
        (r"\boxed{ up up right right }", Grade.WRONG, ""),
        (r"\boxed{ }", Grade.NO_ANSWER, ""),
        # The last box counts, whatever stands in it.
        (r"\boxed{ a1 a2 a3 b3 c3 } \boxed{ }", Grade.NO_ANSWER, ""),
        (r"\boxed{ a1 a2 a3 b3 c3 } or \boxed{\text{a1 c3}}", Grade.WRONG, ""),
        (r"\boxed{ a1 a2 a3 b3 c3 } or \boxed{ " + "a1 " * 400 + "}", Grade.WRONG, "a1"),
        (r"\boxed{ a1 a2 a3 b3 c3 } or \boxed{ a1 c3", Grade.CORRECT, "a1 a2 a3 b3 c3"),  # does not close
        (r"\boxed{ a1 \boxed{ a1 a2 a3 b3 c3 } c2 }", Grade.CORRECT, "a1 a2 a3 b3 c3"),
        ("a1 a2 a3 b3 c3", Grade.NO_ANSWER, ""),
        (r"<think>\boxed{ a1 a2 a3 b3 c3 }</think> no way", Grade.NO_ANSWER, ""),
        ("x " * 4000 + r"\boxed{ a1 a2 a3 b3 c3 }", Grade.CORRECT, "a1 a2 a3 b3 c3"),
        (r"\boxed{ a1 a2 a3 b3 c3 }" + " x" * 4000 + r"\boxed{ a1 c3 }", Grade.WRONG, "a1"),
    ],
)
def test_by_hand(text, grade, key):
    assert GRADER.grade(text, PROBLEM) is grade
    assert (GRADER.solution(text, PROBLEM) or GRADER.reached(text, PROBLEM)) == key


def all_ways(prompt, size):
    """Every way from start to goal as the words of the prompt tell, by exhaustion."""
    start, goal, *walls = re.findall(r"\b[a-i][1-9]\b", prompt)
    board = {c + r for c in "abcdefghi"[:size] for r in "123456789"[:size]} - {*walls}
    found, edge = [], [[start]]
    while edge:
        way = edge.pop()
        if way[-1] == goal:
            found.append(" ".join(way))
            continue
        for cell in board - {*way}:
            if abs(ord(cell[0]) - ord(way[-1][0])) + abs(int(cell[1]) - int(way[-1][1])) == 1:
                edge.append([*way, cell])
    return found


@given(st.sets(st.sampled_from([(x, y) for x in range(4) for y in range(4)]), max_size=6), st.randoms(), st.data())
def test_the_verifier_agrees_with_exhaustive_search(walls, rng, data):
    """Of random walks, of true ways, and of those with one word changed, the same are correct."""
    cells = {(x, y) for x in range(4) for y in range(4)} - walls
    start, goal = rng.sample(sorted(cells), 2)
    _, problem = maze.problem(start, goal, cells, 4, "")
    ways = all_ways(problem.prompt, 4)
    if ways and data.draw(st.booleans()):
        words = rng.choice(ways).split()
        if data.draw(st.booleans()):
            words[rng.randrange(len(words))] = rng.choice("abcde") + rng.choice("12345")
    else:
        way = [start]
        while len(way) < 6 and way[-1] != goal:
            way.append(rng.choice(maze.neighbours(way[-1])))
        words = [maze.name_of(cell) if min(cell) >= 0 else "out" for cell in way]
    text = " ".join(words)
    assert (GRADER.grade(rf"\boxed{{ {text} }}", problem) is Grade.CORRECT) == (text in ways)
    assert GRADER.solution(rf"\boxed{{{text}}}", problem) in ("", text)


def test_every_maze_has_several_ways_and_a_walk_is_one():
    rng = random.Random(0)
    for name in ("five", "seven"):
        for _ in range(10):
            start, goal, cells = maze.draw(MAZES[name], rng)
            _, problem = maze.problem(start, goal, cells, MAZES[name].size, name)
            assert len(cells) == MAZES[name].size ** 2 - MAZES[name].walls
            assert GRADER.grade(maze.response(maze.wander(start, goal, cells, rng)), problem) is Grade.CORRECT
            if name == "five":
                assert len(all_ways(problem.prompt, 5)) > 1


def test_the_same_maze_from_the_other_end_is_held_out_with_it():
    there, back = maze.problem((0, 0), (2, 2), RING, 3, ""), maze.problem((2, 2), (0, 0), RING, 3, "")
    assert there[0] == back[0] and there[1].id != back[1].id


def test_settings():
    with pytest.raises(ValueError, match="maze.mix: no level 'ten'; there are five, seven, nine"):
        Maze(mix={"ten": 1})
    drawn = maze.problems(Maze(mix={"nine": 1}), 5, held_out=False)
    assert drawn == maze.problems(Maze(mix={"nine": 1}), 5, held_out=False)
    assert isinstance(drawn[0], Problem) and drawn[0].prompt.startswith("Go from ")
