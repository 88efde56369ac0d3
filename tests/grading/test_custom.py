"""A verifier of one's own, in real worker processes."""

from dataclasses import replace

import numpy as np
import pytest

from diver.core.types import DiverError, Grade, Problem
from diver.grading import get_grader, grade
from diver.grading.base import Verdict, defer
from diver.grading.custom import call
from diver.grading.settings import Verification
from diver.rollouts.grade import GradeConfig, run

MODULE = """
import os, time
import diver                                   # the whole package is there
from diver.core.types import Grade
from diver.grading.mathematics import boxed

def check(response, problem):
    print("lost")
    if response == "hang":
        time.sleep(60)
    if response == "die":
        os._exit(3)
    if response == "raise":
        raise KeyError(problem.id)
    if response == "quote":
        raise ValueError("not a number: \\x1b[2J")
    if response == "odd":
        return 7
    if response == "partial":
        return 0.7
    if response == "beyond":
        return True, 100
    if response.startswith("pair"):
        return response.endswith("right"), 4
    if response == "named":
        return "timeout"
    if response == "grade":
        return Grade.WRONG
    if response == "meta":
        return problem.meta == {"numbers": [3, 5], "deep": {"k": 2}} and problem.prompt[0]["role"] == "user"
    found = boxed(response)
    return None if not found else found[0][::-1] == problem.answer

def without_arguments(): ...
def lenient(response, problem, *, tolerance=0.1): return True
NUMBER = 5

def wary(response, problem):
    return problem.answer in response

wary.sees_truncated = False
"""
PROBLEM = Problem("p", "Backwards?", "abc", verifier="my_checks:check")
SETTINGS = Verification(timeout_s=3.0, workers=2)


@pytest.fixture(scope="module", autouse=True)
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "my_checks.py").write_text(MODULE)
    (folder / "broken_checks.py").write_text("import no_such_module")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder


def test_what_the_function_returns_is_the_grade():
    chat = Problem(
        "q",
        ({"role": "user", "content": "?"},),
        "",
        "",
        "my_checks:check",
        {"numbers": np.array([3, 5]), "deep": {"k": 2}},
    )
    cases = [
        (r"\boxed{cba}", PROBLEM, False, "correct"),
        (r"\boxed{abc}", PROBLEM, False, "wrong"),
        ("nothing", PROBLEM, False, "no_answer"),
        (r"\boxed{cba}, cut", PROBLEM, True, "correct"),
        (r"cba, cut", PROBLEM, True, "truncated"),  # it finds no answer
        (r"cut, pair right", PROBLEM, True, "truncated"),
        (r"pair, cut, right", PROBLEM, True, "correct"),  # it judges what was cut, too
        (r"pair, cut", PROBLEM, True, "wrong"),
        ("beyond", PROBLEM, False, "error"),
        (r"<think> \boxed{cba}", PROBLEM, False, "no_answer"),
        ("named", PROBLEM, False, "timeout"),
        ("grade", PROBLEM, False, "wrong"),
        ("meta", chat, False, "correct"),
        ("odd", PROBLEM, False, "error"),
        ("raise", PROBLEM, False, "error"),
        ("die", PROBLEM, False, "error"),
        ("hang", PROBLEM, False, "timeout"),
        (r"\boxed{5}", Problem("m", "?", "5"), False, "correct"),  # of another verifier, in the same call
    ]
    pairs = [(response, problem) for response, problem, *_ in cases]
    grades = grade(pairs, SETTINGS, truncated=[cut for *_, cut, _ in cases])
    assert [str(g) for g in grades] == [expected for *_, expected in cases]


def test_the_reason_of_an_error_is_told_without_what_a_terminal_would_obey(caplog):
    assert grade([("quote", PROBLEM)], SETTINGS) == [Grade.ERROR]
    assert "ValueError: not a number: \ufffd[2J" in caplog.text


def test_partial_credit_is_refused_by_its_name(caplog):
    assert grade([("partial", PROBLEM)], SETTINGS) == [Grade.ERROR]
    assert "my_checks:check returned 0.7, not 0 or 1 (or False or True), None or the name of a grade" in caplog.text
    assert "no partial credit" in caplog.text


def test_one_that_does_not_see_truncated_responses():
    """Only one with a finished box or tags reaches it."""
    answered = Problem("p", "?", "ab", verifier="my_checks:wary")
    texts = ["ab", r"\boxed{ab} and", r"\boxed{ab} and \boxed{", "<answer>ab</answer>", "<answer>ab"]
    grades = grade([(text, answered) for text in texts], SETTINGS, truncated=[True] * len(texts))
    assert [str(g) for g in grades] == ["truncated", "correct", "truncated", "correct", "truncated"]
    assert grade([("ab", answered)], SETTINGS) == [Grade.CORRECT]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my_checks:check", "verifier my_checks:check: also judges responses cut at the length limit; "),
        ("my_checks:wary", "verifier my_checks:wary: is not asked about responses cut at the length limit before"),
    ],
)
def test_the_console_says_which_rule_is_applied(tmp_path, capsys, name, said):
    file = tmp_path / "x.jsonl"
    file.write_text('{"problem": "?", "answer": "abc", "response": "cba", "truncated": true}\n')
    run(GradeConfig(rollouts=str(file), grader=name, verify=SETTINGS))
    assert said in "".join(capsys.readouterr())
    assert get_grader("math").note == ""


def test_the_end_of_the_answer_leaves_the_worker():
    problem = defer("my_checks:check", "pair right", PROBLEM, "").problem
    assert call("my_checks:check", "pair right", problem) == Verdict("correct", 4)
    assert call("my_checks:check", "pair", problem) == Verdict("wrong", 4)
    assert call("my_checks:check", "named", problem) == Verdict("timeout", None)
    with pytest.raises(TypeError, match="returned 100 as the end of the answer, not an offset in the response"):
        call("my_checks:check", "beyond", problem)


def test_as_the_grader_of_all():
    assert grade([(r"\boxed{5}", Problem("m", "?", "5"))], SETTINGS, grader="my_checks:lenient") == [Grade.CORRECT]


def test_its_name_and_version(module):
    grader = get_grader("my_checks:check")
    name, _, version = grader.version.partition("@")
    assert name == "my_checks:check" and len(version) == 8 and grader is get_grader("my_checks:check")
    assert grader.votes and grader.final_answer(r"\boxed{7}", PROBLEM) == "7"
    assert (
        grader.solution(r"so \( 1 + 2 \)", PROBLEM)
        == grader.solution(r"as \(1+2\)", PROBLEM)
        != grader.solution(r"\(2+1\)", PROBLEM)
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my_checks:no_such", "data.verifier: 'my_checks:no_such' cannot be imported .AttributeError"),
        ("no_such_checks:f", "data.verifier: 'no_such_checks:f' cannot be imported .ModuleNotFoundError"),
        ("broken_checks:f", "data.verifier: 'broken_checks:f' cannot be imported .*no_such_module"),
        ("my_checks:NUMBER", "data.verifier: 'my_checks:NUMBER' is a int, not a function"),
        ("my_checks:without_arguments", r"data.verifier: .* must take \(response, problem\): too many positional"),
        ("__main__:f", "data.verifier: '__main__:f': put the function into a module"),
        ("maths", "data.verifier: unknown choice 'maths', did you mean 'math'"),
    ],
)
def test_what_cannot_be_a_verifier_is_one_line(name, message):
    with pytest.raises(DiverError, match=message) as caught:
        get_grader(name, "data.verifier")
    assert "\n" not in str(caught.value)


def test_a_verifier_that_fails_says_its_reason_once(caplog):
    """40 failures of one reason are one line with their number."""
    assert {*grade([("quote", replace(PROBLEM, id=f"p{i}")) for i in range(40)], SETTINGS)} == {Grade.ERROR}
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("answer 'quote' and 39 others: error (")
