"""Where the graded answer ends: counted by hand in texts whose answer is marked by a bar, which is not part of them."""

import pytest

from diver.core.types import Grade, Group, Problem, Rollout
from diver.grading import verdicts, verify

MATH = Problem("p", "What is 2 + 3?", "5")
GSM8K = Problem("p", "What is 2 + 3?", "5", verifier="gsm8k")
OPTIONS = Problem("c", "Which?\nA) iron\nB) gold", "B", verifier="choice")
LIST = Problem("p", "Solve.", "1, 2")
MAZE = Problem("m", "", "b2", verifier="maze", meta={"size": 2, "start": "a1", "goal": "b2", "walls": []})

TEXTS = [
    # one box, with and without a tail, and repeated after it
    (MATH, r"2 + 3 = 5, so \boxed{5}|"),
    (MATH, r"so \boxed{5}|. la la la"),
    (MATH, r"so \boxed{5}| la la la \boxed{5}"),
    (MATH, r"so \boxed{5}| la \boxed{ 5 } la \boxed{5.0}"),
    (MATH, r"so \boxed{\frac{10}{2}}| la \boxed{5}"),  # both are the reference answer
    # what comes before the final answer belongs to the solution
    (MATH, r"first \boxed{4}, no. So \boxed{5}| la"),
    (MATH, r"first \boxed{5}, no. So \boxed{4}| la"),
    (MATH, r"<think>\boxed{5} or so</think>so \boxed{5}| la"),
    # a list of boxes is one answer
    (LIST, r"so \boxed{1} and \boxed{2}| la la"),
    (LIST, r"so \boxed{1} and \boxed{2}| la la la la \boxed{1}, \boxed{2}"),
    (LIST, r"so \boxed{1}. Then we find the other one: it is \boxed{1}, \boxed{2}| la"),
    # answer tags
    (MATH, "<answer>5</answer>| la la"),
    (MATH, "so <answer> 5 </answer>| la la <answer>5</answer>"),
    (MATH, r"so <answer>\boxed{5}|</answer> la"),
    (MATH, "not <answer>4</answer> but <answer>5</answer>| la"),
    # without a mark: what "the answer is" names first, else the last number
    (MATH, "2 + 3 = 5. The answer is 5|. la la. The answer is 5."),
    (MATH, "So the answer is $5$|. la la la. The answer is 5."),
    (MATH, "5 apples and 3 pears, so 2 + 3 = 5| la la"),
    (GSM8K, "2 + 3 = 5\n#### 5|\nla la\n#### 5\n"),
    (GSM8K, "She has 5| la la"),
    # a choice
    (OPTIONS, r"so \boxed{B}| la la \boxed{B}"),
    (OPTIONS, "The answer is (B|). la la la. The answer is B."),
    (OPTIONS, "Not (A) but (B|) la"),
    # testbeds read the last box
    (MAZE, r"\boxed{ a1 b1 b2 }| a1 a2"),
    (MAZE, r"\boxed{ a1 b1 b2 }| a1 \boxed{ a1  b1 b2 }"),
    (MAZE, r"\boxed{ a1 b1 b2 } a1 \boxed{ a1 a2 b2 }| a1"),
    (MAZE, r"\boxed{ a1 a2 }| la"),
]


@pytest.mark.parametrize("problem, marked", TEXTS)
def test_the_end_of_the_first_place_that_states_the_final_answer(problem, marked):
    text, end = marked.replace("|", ""), marked.index("|")
    ((grade, found),) = verdicts([(text, problem)])
    assert grade in (Grade.CORRECT, Grade.WRONG)
    assert found == end


@pytest.mark.parametrize("text", ["", "no idea", r"\boxed{", r"<think>\boxed{5}"])
def test_a_response_without_an_answer_has_no_end(text):
    ((grade, found),) = verdicts([(text, MATH)], truncated=[True])
    assert (grade, found) == (Grade.TRUNCATED, None)


def test_verify_fills_the_end_of_every_rollout():
    group = Group(MATH, (Rollout(r"\boxed{5} la"), Rollout("no idea"), Rollout(r"la \boxed{6}")))
    (graded,) = verify([group])
    assert [r.answer_end for r in graded.rollouts] == [9, None, 12]
    assert [r.until_answer for r in graded.rollouts] == [r"\boxed{5}", "no idea", r"la \boxed{6}"]


def test_many_lists_of_boxes_are_read_in_one_pass():
    """A reading that is quadratic in the number of boxes would not return."""
    text = r"\boxed{1}, " * 20_000 + "la " * 100 + r"\boxed{2}"
    ((_, found),) = verdicts([(text, MATH)])
    assert found == len(text)


def of_ones_own(response, problem):
    """A verifier that also says where the answer ends."""
    return response.startswith("5"), 1


def test_a_custom_verifier_may_return_the_end():
    problem = Problem("p", "What is 2 + 3?", "5", verifier=f"{__name__}:of_ones_own")
    assert verdicts([("5 la", problem), ("6 la", problem)]) == [(Grade.CORRECT, 1), (Grade.WRONG, 1)]
