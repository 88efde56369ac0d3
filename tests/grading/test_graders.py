"""Graders by name."""

from importlib.metadata import version

import pytest

from diver.core.types import DiverError, Grade, Problem
from diver.evaluate.evaluate import grade_rows
from diver.grading import GRADERS, get_grader, grade


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


def test_a_vote_is_the_answer_that_is_graded():
    """GSM8K's last line "#### 10", and not the last number behind it."""
    grader, asked = get_grader("gsm8k"), problem("10")
    response = "5+5=10\n#### 10\nThat is 3 more than Bob."
    assert grade([(response, asked)], grader="gsm8k") == [Grade.CORRECT]
    assert grader.final_answer(response, asked) == grader.reached(response, asked) == "10"
    said = {"The answer is 10 cm².": "10", "The answer is 2 * 5 = 10.": "10", "The answer is 1,000.": "1000"}
    assert {text: grader.final_answer(text, asked) for text in said} == said
    assert grader.final_answer(r"\boxed{7}, so 8", asked) == "7" and grader.final_answer("none", asked) is None


def test_a_solution_is_what_the_grader_takes_for_one():
    """Of a Countdown problem: its verifier knows derivations, a grader of answers what they write."""
    numbers = problem("22", verifier="countdown", meta={"numbers": [4, 18], "target": 22})
    first, second = r"\( 4 + 18 = 22 \) \boxed{22}", r"\( 18 + 4 = 22 \) \boxed{22}"
    by_steps, by_answer = (
        [get_grader(name).solution(text, numbers) for text in (first, second, r"\boxed{22}")]
        for name in ("countdown", "math")
    )
    assert by_steps[0] == by_steps[1] != "" and by_steps[2] == "" and len({*by_answer}) == 3
    rows = [{"problem": "p", "sample": i, "response": text} for i, text in enumerate((first, second, r"\boxed{22}"))]
    stored = [row["solution"] for row in grade_rows(rows, {"p": numbers}, {"p": "k"}, "math")]
    assert len({*stored}) == 3


def test_names_and_versions():
    testbeds = {"countdown", "maze", "reasoning-gym", "graph-coloring"}
    assert set(GRADERS) == {"math", "gsm8k", "math-verify", "choice"} | testbeds
    assert all(get_grader(name).name == name and callable(get_grader(name).grade) for name in GRADERS)
    assert f"math-verify-{version('math-verify')}" in get_grader("math").version
    assert get_grader("choice").version == "choice@16"
    with pytest.raises(DiverError, match="grader: unknown choice 'oracle'; choices: math, gsm8k, choice"):
        grade([], grader="oracle")


def test_problems_that_share_an_id_are_not_mixed_up():
    first = problem("7", verifier="countdown", meta={"numbers": [3, 4], "target": 7})
    second = problem("7", verifier="countdown", meta={"numbers": [9, 2], "target": 7})
    response = r"\( 3 + 4 = 7 \) \boxed{7}"
    assert grade([(response, first), (response, second)], grader="countdown") == [Grade.CORRECT, Grade.WRONG]
