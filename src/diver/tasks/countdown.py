r"""Countdown, a synthetic task: combine given numbers, each exactly once, to reach a target.

    prompt    Use 3, 5 and 9 to make 24.
    response  \( 5 \times 3 = 15 \) \( 15 + 9 = 24 \) \boxed{ 24 }

A response is steps written as LaTeX formulas and a boxed answer, so that textual and equational diversity work as on
real mathematics, and every solution can be checked exactly. The symbols are spaced: unspaced, a step is ONE
whitespace token and any two different solutions have a textual diversity of 1.

Problems are seeded and endless; see `diver.core.seeds.is_held_out` for which of them are held out.
"""

import random
import re
from collections.abc import Iterator
from typing import NamedTuple

from diver.core.seeds import distinct
from diver.core.types import Grade, Problem
from diver.grading.base import Grader
from diver.grading.extraction import after_thought, boxed_answer, last_box
from diver.recipe.data import LEVELS, STANDARD_MIX, Countdown, Level

OPERATIONS = ("+", "-", r"\times", r"\div")
LARGEST_RESULT = 400  # limit of every step; the bundled policy's vocabulary ends here


class Step(NamedTuple):
    a: int
    operation: str
    b: int
    result: int

    def __str__(self) -> str:
        return rf"\( {self.a} {self.operation} {self.b} = {self.result} \)"


def calculate(a: int, operation: str, b: int) -> int | None:
    """a op b; None if the step is not allowed: its result is below 1, a fraction, or above the largest result."""
    quotient = a // b if b and a % b == 0 else 0
    result = {"+": a + b, "-": a - b, r"\times": a * b, r"\div": quotient}[operation]
    return result if 1 <= result <= LARGEST_RESULT else None


def derive(numbers: list[int], rng: random.Random) -> list[Step]:
    """A random derivation that uses each number once: len(numbers) - 1 steps."""
    pool, steps = list(numbers), []
    while len(pool) > 1:
        a, b = rng.sample(range(len(pool)), 2)
        operation = rng.choice(OPERATIONS)
        result = calculate(pool[a], operation, pool[b])
        if result is None:
            continue  # redundant: larger - smaller, or x / x, covers it
        steps.append(Step(pool[a], operation, pool[b], result))
        pool = [n for i, n in enumerate(pool) if i not in (a, b)] + [result]
    return steps


def question(numbers: list[int], target: int) -> str:
    """Use 3, 5 and 9 to make 24."""
    return f"Use {', '.join(map(str, numbers[:-1]))} and {numbers[-1]} to make {target}."


def response(steps: list[Step]) -> str:
    """The steps and the boxed result, as the policy writes them."""
    return " ".join([*map(str, steps), rf"\boxed{{ {steps[-1].result} }}"])


def key(numbers: list[int], target: int) -> str:
    """A key that is equal for problems that differ only in the order of their numbers."""
    return " ".join(map(str, [*sorted(numbers), target]))


def draw(level: Level, rng: random.Random) -> tuple[list[int], list[Step]]:
    """Numbers and a derivation whose result may be a target of this level."""
    while True:
        numbers = [rng.randint(1, level.largest) for _ in range(level.numbers)]
        steps = derive(numbers, rng)
        if level.smallest <= steps[-1].result <= level.target:
            return numbers, steps


def candidates(settings: Countdown, rng: random.Random) -> Iterator[tuple[str, Problem]]:
    """Random problems without end, each with its key."""
    mix = settings.mix or STANDARD_MIX
    while True:
        name = rng.choices(list(mix), list(mix.values()))[0]
        numbers, steps = draw(LEVELS[name], rng)
        target = steps[-1].result
        identity = key(numbers, target)
        problem = Problem(
            id=f"countdown-{identity.replace(' ', '-')}",
            prompt=question(numbers, target),
            answer=str(target),
            source=f"countdown/{name}",
            verifier="countdown",
            meta={"numbers": numbers, "target": target},
        )
        yield identity, problem


def problems(settings: Countdown, count: int, *, held_out: bool) -> list[Problem]:
    """The first `count` different problems of the stream, either all held out or all for training."""
    rng = random.Random(f"countdown {settings.seed} {'held out' if held_out else 'train'}")
    return distinct(candidates(settings, rng), count, held_out=held_out, name="countdown")


_FORMULA = re.compile(r"\\\((.{0,60}?)\\\)", re.DOTALL)
_STEP = re.compile(r"\s*([0-9]{1,6}) (\+|-|\\times|\\div) ([0-9]{1,6}) = ([0-9]{1,6})\s*")
_NUMBER = re.compile(r"\s*([0-9]{1,6})\s*")


def parse(text: str) -> tuple[list[Step] | None, int | None]:
    """The steps after the thought, and the number in the last box there.

    The steps are None if one is malformed; the number is None if the box holds none, or there is no box.
    """
    steps, text = [], after_thought(text)[-4096:]  # a proper response has under 120 characters
    number = _NUMBER.fullmatch(last_box(text) or "")
    box = int(number[1]) if number else None
    for formula in _FORMULA.finditer(text):
        match = _STEP.fullmatch(formula[1])
        if match is None:
            return None, box
        a, operation, b, result = match.groups()
        steps.append(Step(int(a), operation, int(b), int(result)))
    return steps, box


def solution(text: str, numbers: list[int], target: int) -> str | None:
    """The solution in canonical form, the same for 3 + 5 and 5 + 3 and whatever the order of the steps; None if wrong.

    If two steps have equal results, a later step uses the result of the earlier one. So another order of these steps is
    another solution.

    Correct means that every step is true, takes two of the numbers or earlier results, and all are used up when
    the last step and the box give the target.
    """
    steps, box = parse(text)
    if not steps or box != target:
        return None
    available: list[tuple[int, str]] = [(n, str(n)) for n in numbers]
    for a, operation, b, result in steps:
        if calculate(a, operation, b) != result:
            return None
        operands = []
        for value in (a, b):
            operand = next((item for item in available if item[0] == value), None)
            if operand is None:
                return None
            available.remove(operand)
            operands.append(operand[1])
        if operation in ("+", r"\times"):
            operands.sort()
        available.append((result, f"({operands[0]} {operation} {operands[1]})"))
    return available[0][1] if len(available) == 1 and available[0][0] == target else None


class CountdownGrader(Grader):
    """Grader "countdown": linear in the bounded end of the text. No box, or one without a number, is no answer."""

    name = testbed = "countdown"
    rules = 5
    meta = ("numbers", "target")
    votes = False
    exact_solutions = True

    def check_answer(self, problem: Problem) -> None:
        """ValueError for a target that no step may have as its result, so that every response would be wrong."""
        target = problem.meta["target"]
        if not 1 <= float(str(target)) <= LARGEST_RESULT:
            raise ValueError(f"its target is {target}, not a number from 1 to {LARGEST_RESULT}")

    def grade(self, response: str, problem: Problem) -> Grade:
        if parse(response)[1] is None:
            return Grade.NO_ANSWER
        return Grade.CORRECT if self.solution(response, problem) else Grade.WRONG

    def reached(self, response: str, problem: Problem) -> str:
        """The number in the last box."""
        box = parse(response)[1]
        return "" if box is None else str(box)

    def solution(self, response: str, problem: Problem) -> str:
        """The solution in canonical form; empty if it is wrong."""
        return solution(response, list(problem.meta["numbers"]), int(problem.meta["target"])) or ""

    def answer_end(self, response: str, problem: Problem, correct: bool) -> int | None:
        return boxed_answer(response)
