r"""Mazes with loops, a synthetic task: a way from one cell to another that enters no cell twice.

    prompt    Go from b2 to d3. Walls: a3 c2 d1.
    response  \boxed{ b2 b3 c3 d3 }

Cells are named as squares of a chess board. Every maze has several ways, and any of them is right, also a long one, so
that a policy has something to explore. It is the task of MaxRL (arXiv 2602.02710), on a smaller grid and judged by the
cells themselves. A way is written as the cells that it enters, so that two ways have n-grams in common where they
overlap.
"""

import random
import re
from collections.abc import Iterator

from diver.core.seeds import distinct
from diver.core.types import Grade, Problem
from diver.grading.base import Grader
from diver.grading.extraction import after_thought, boxed_answer, last_box
from diver.recipe.data import MAZES, STANDARD_MAZES, Maze, MazeLevel

Cell = tuple[int, int]
"""Column and row, from 0."""


def name_of(cell: Cell) -> str:
    return f"{chr(ord('a') + cell[0])}{cell[1] + 1}"


def cell_of(name: str) -> Cell:
    """The cell that `name_of` named."""
    return ord(name[0]) - ord("a"), int(name[1:]) - 1


def neighbours(cell: Cell) -> list[Cell]:
    x, y = cell
    return [(x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)]


def shortest(start: Cell, goal: Cell, cells: set[Cell]) -> list[Cell]:
    """One of the shortest ways through `cells`; empty without any."""
    came_from, frontier = {start: start}, [start]
    while frontier and goal not in came_from:
        steps = [(new, cell) for cell in frontier for new in neighbours(cell) if new in cells and new not in came_from]
        came_from |= dict(steps)
        frontier = list(dict.fromkeys(new for new, _ in steps))
    if goal not in came_from:
        return []
    way = [goal]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def draw(level: MazeLevel, rng: random.Random) -> tuple[Cell, Cell, set[Cell]]:
    """Start, goal and open cells of a maze that has a way around some cell of its shortest way."""
    board = [(x, y) for x in range(level.size) for y in range(level.size)]
    while True:
        walls = set(rng.sample(board, level.walls))
        start, goal = rng.sample([cell for cell in board if cell not in walls], 2)
        if abs(start[0] - goal[0]) + abs(start[1] - goal[1]) < level.distance:
            continue
        cells = {*board} - walls
        way = shortest(start, goal, cells)
        if way and any(shortest(start, goal, cells - {cell}) for cell in way[1:-1]):
            return start, goal, cells


def wander(start: Cell, goal: Cell, cells: set[Cell], rng: random.Random) -> list[Cell]:
    """A random walk from start to goal with its loops left out: a random way, seldom a shortest one."""
    way = [start]
    while way[-1] != goal:
        new = rng.choice([cell for cell in neighbours(way[-1]) if cell in cells])
        way = way[: way.index(new) + 1] if new in way else [*way, new]
    return way


def response(way: list[Cell]) -> str:
    """The way in a box, as the policy writes it."""
    return rf"\boxed{{ {' '.join(map(name_of, way))} }}"


def problem(start: Cell, goal: Cell, cells: set[Cell], size: int, source: str) -> tuple[str, Problem]:
    """The maze as a problem, and its key, which is the same from either end."""
    walls = [name_of(cell) for cell in sorted({(x, y) for x in range(size) for y in range(size)} - cells)]
    first, last = name_of(start), name_of(goal)
    maze = Problem(
        id=f"maze-{size}-{first}-{last}-{''.join(walls)}",
        prompt=f"Go from {first} to {last}. Walls: {' '.join(walls)}.",
        answer=last,
        source=source,
        verifier="maze",
        meta={"size": size, "start": first, "goal": last, "walls": walls},
    )
    return f"{size} {' '.join(map(name_of, sorted([start, goal])))} {' '.join(walls)}", maze


def candidates(settings: Maze, rng: random.Random) -> Iterator[tuple[str, Problem]]:
    """Random problems without end, each with its key."""
    mix = settings.mix or STANDARD_MAZES
    while True:
        name = rng.choices(list(mix), list(mix.values()))[0]
        yield problem(*draw(MAZES[name], rng), MAZES[name].size, f"maze/{name}")


def problems(settings: Maze, count: int, *, held_out: bool) -> list[Problem]:
    """The first `count` problems of the stream."""
    rng = random.Random(f"maze {settings.seed} {'held out' if held_out else 'train'}")
    return distinct(candidates(settings, rng), count, held_out=held_out, name="maze")


_CELL = re.compile(r"[a-z][1-9]", re.ASCII)


def parse(text: str) -> list[Cell | None] | None:
    """The cells in the last box after the thought, with None for a word that names no cell.

    None without a box or with an empty one.
    """
    # The path stands at the end, so the search for boxes is bounded.
    words = (last_box(after_thought(text)[-4096:]) or "").replace(",", " ").split()
    return [cell_of(word) if _CELL.fullmatch(word) else None for word in words] or None


def valid(way: list[Cell | None], problem: Problem) -> list[Cell]:
    """The longest beginning of the way that leads from the start through adjacent open cells and enters none twice."""
    size, walls = problem.meta["size"], {*problem.meta["walls"]}
    prefix: list[Cell] = []
    for cell in way:
        if cell is None or cell in prefix or max(cell) >= size or name_of(cell) in walls:
            break
        if cell not in neighbours(prefix[-1]) if prefix else name_of(cell) != problem.meta["start"]:
            break
        prefix.append(cell)
    return prefix


class MazeGrader(Grader):
    """Grader "maze": linear in the bounded end of the text. No box, or an empty one, is no answer."""

    name = testbed = "maze"
    rules = 3
    meta = ("size", "start", "goal", "walls")
    votes = False
    exact_solutions = True

    def grade(self, response: str, problem: Problem) -> Grade:
        if parse(response) is None:
            return Grade.NO_ANSWER
        return Grade.CORRECT if self.solution(response, problem) else Grade.WRONG

    def reached(self, response: str, problem: Problem) -> str:
        """The cell that a wrong way reached before its first mistake; empty if it reached none."""
        return " ".join(name_of(cell) for cell in valid(parse(response) or [], problem)[-1:])

    def solution(self, response: str, problem: Problem) -> str:
        """The way, cell by cell; empty if it is wrong."""
        way = parse(response) or []
        prefix = valid(way, problem)
        right = len(prefix) == len(way) > 0 and name_of(prefix[-1]) == problem.meta["goal"]
        return " ".join(map(name_of, prefix)) if right else ""

    def answer_end(self, response: str, problem: Problem, correct: bool) -> int | None:
        return boxed_answer(response)
