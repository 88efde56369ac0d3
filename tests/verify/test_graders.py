"""Graders by name."""

from importlib.metadata import version

import pytest

from diver.types import DiverError, Grade, Problem
from diver.verify import GRADERS, get_grader, grade


def problem(answer, **other):
    return Problem(id="p", prompt="q", answer=answer, **other)


def test_a_grader_judges_whatever_the_problem_names():
    algebra = problem("x^2+2x+1", verifier="countdown", meta={"numbers": [1], "target": 1})
    pairs = [(r"</think> \boxed{(x+1)^2}", algebra), (r"</think> \boxed{x^2}", algebra), ("", algebra)]
    assert grade(pairs, grader="math") == [Grade.CORRECT, Grade.WRONG, Grade.NO_ANSWER]
    assert grade(pairs, grader="math", truncated=[False, False, True])[2] is Grade.TRUNCATED
    lettered = problem("B", meta={"options": ["red", "green"]})
    assert grade([("The answer is (B)", lettered)], grader="choice") == [Grade.CORRECT]
    assert grade([("so 18", problem("18"))], grader="gsm8k") == [Grade.CORRECT]
    numbers = problem("24", meta={"numbers": [4, 6, 14], "target": 24})
    assert grade([(r"\( 4 + 6 = 10 \) \( 10 + 14 = 24 \) \boxed{24}", numbers)], grader="countdown") == [Grade.CORRECT]


def test_names_and_versions():
    testbeds = {"countdown", "maze", "reasoning-gym", "graph-coloring"}
    assert set(GRADERS) == {"math", "gsm8k", "math-verify", "choice"} | testbeds
    assert all(grader.name == name and callable(grader.grade) for name, grader in GRADERS.items())
    assert f"math-verify-{version('math-verify')}" in GRADERS["math"].version
    assert str(get_grader("choice")) == "choice@4"
    with pytest.raises(DiverError, match="grader: unknown choice 'oracle'; choices: math, gsm8k, choice"):
        grade([], grader="oracle")


def test_problems_that_share_an_id_are_not_mixed_up():
    first = problem("7", verifier="countdown", meta={"numbers": [3, 4], "target": 7})
    second = problem("7", verifier="countdown", meta={"numbers": [9, 2], "target": 7})
    response = r"\( 3 + 4 = 7 \) \boxed{7}"
    assert grade([(response, first), (response, second)], grader="countdown") == [Grade.CORRECT, Grade.WRONG]
