"""Graders by name, and the rule grader's own decisions."""

from importlib.metadata import version

import pytest

from diver.types import DiverError, Grade, Problem
from diver.verify import GRADERS, get_grader, grade
from diver.verify.rule import grade as by_rule


def problem(answer, **other):
    return Problem(id="p", prompt="q", answer=answer, **other)


def rule(response, answer):
    return by_rule(response, problem(answer)).value


@pytest.mark.parametrize(
    ("box", "gold"),
    [
        ("5", "5"),
        ("5.0", "5"),
        ("1,000", "1000"),
        (r"\dfrac 12", r"\frac{1}{2}"),
        (r"\frac12", "0.5"),
        ("1/2", r"\frac{1}{2}"),
        (r"\text{Monday}", "monday"),
        ("x = 5", "5"),
        ("12 \\%", "12"),
        (r"90^\circ", "90"),
        (r"\$5", "5"),
        (r"72 \text{ miles}", "72"),
        (r"16 \text{ cm}^2", "16"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})"),
        ("(1, 0.5)", "(1,1/2)"),
        (r"\sqrt2", r"$\boxed{\sqrt{2}}$"),
        ("333333.4", "333333.3"),
    ],
)
def test_rule_accepts(box, gold):
    assert rule(rf"thinking</think> So \boxed{{{box}}}.", gold) == "correct"


@pytest.mark.parametrize(
    ("box", "gold"),
    [
        ("6", "5"),
        ("-5", "5"),
        ("(x+1)^2", "x^2+2x+1"),
        ("1,2", "2,1"),
        ("(1,2)", "[1,2]"),
        ("(1,2)", "(1,2,3)"),
        ("0.33", "1/3"),
        ("A", "a"),
        ("x" * 5000, "5"),
    ],
)
def test_rule_rejects(box, gold):
    assert rule(rf"</think> \boxed{{{box}}}", gold) == "wrong"


def test_rule_needs_the_end_of_the_thought_and_a_box():
    assert rule(r"\boxed{5}", "5") == "no_answer"
    assert rule(r"<think> \boxed{5}", "5") == "no_answer"
    assert rule(r"\boxed{5} </think> It is 5.", "5") == "no_answer"
    assert rule(r"</think> \boxed{}", "5") == "no_answer"
    assert rule(r"</think> \boxed{4}, no: \boxed{5}", "5") == "correct"


@pytest.mark.parametrize("text", ["\\frac" * 400, "\\text{" * 300, "(" * 2000, "," * 1999, "\\sqrt" * 400, "9" * 10**6])
def test_rule_is_quick(text):
    assert rule(rf"</think> \boxed{{{text}}}", "5") in ("wrong", "no_answer")


def test_a_grader_judges_whatever_the_problem_names():
    algebra = problem("x^2+2x+1", verifier="countdown", meta={"numbers": [1], "target": 1})
    pairs = [(r"</think> \boxed{(x+1)^2}", algebra), (r"</think> \boxed{x^2 + 2x + 1}", algebra), ("hm", algebra)]
    assert grade(pairs[:2], grader="math") == [Grade.CORRECT] * 2
    assert grade(pairs, grader="rule") == [Grade.WRONG, Grade.CORRECT, Grade.NO_ANSWER]
    assert grade(pairs, grader="rule", truncated=[False, False, True])[2] is Grade.TRUNCATED
    lettered = problem("B", meta={"options": ["red", "green"]})
    assert grade([("The answer is (B)", lettered)], grader="choice") == [Grade.CORRECT]
    assert grade([("so 18", problem("18"))], grader="gsm8k") == [Grade.CORRECT]
    numbers = problem("24", meta={"numbers": [4, 6, 14], "target": 24})
    assert grade([(r"\( 4 + 6 = 10 \) \( 10 + 14 = 24 \) \boxed{24}", numbers)], grader="countdown") == [Grade.CORRECT]


def test_names_and_versions():
    assert set(GRADERS) == {"math", "gsm8k", "rule", "choice", "countdown"}
    assert all(grader.name == name and callable(grader.grade) for name, grader in GRADERS.items())
    assert f"math-verify-{version('math-verify')}" in GRADERS["math"].version
    assert str(get_grader("rule")) == "rule@3"
    with pytest.raises(
        DiverError, match="grader: unknown choice 'oracle', did you mean 'rule'. choices: math, gsm8k, rule"
    ):
        grade([], grader="oracle")


def test_problems_that_share_an_id_are_not_mixed_up():
    first = problem("7", verifier="countdown", meta={"numbers": [3, 4], "target": 7})
    second = problem("7", verifier="countdown", meta={"numbers": [9, 2], "target": 7})
    response = r"\( 3 + 4 = 7 \) \boxed{7}"
    assert grade([(response, first), (response, second)], grader="countdown") == [Grade.CORRECT, Grade.WRONG]
