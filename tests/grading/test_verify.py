"""`verify` and `grade` as a whole, with real worker processes, and their agreement with labelled data."""

import dataclasses
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diver.core.types import DiverError, Grade, Group, Problem, Rollout
from diver.grading import grade, verify
from diver.grading.equivalence import equivalent
from diver.grading.grading import ADDED, GRADERS, WARM
from diver.grading.mathematics import gold_texts
from diver.grading.settings import Bounds, Verification
from diver.grading.workers import Pool

DATA = Path(os.environ.get("DIVER_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture(scope="module")
def pool():
    with Pool(workers=2, warm=WARM) as pool:
        yield pool


class Counting(Pool):
    jobs = 0

    def map(self, function, jobs, timeout_s):
        self.jobs += len(jobs)
        return super().map(function, jobs, timeout_s)


def problem(answer, verifier="math", **meta):
    return Problem(id="p", prompt="q", answer=answer, verifier=verifier, meta=meta)


def test_groups(pool):
    math = Group(
        problem(r"\frac{x}{2}"),
        (
            Rollout(r"\boxed{0.5x}"),
            Rollout(r"\boxed{x}"),
            Rollout("hm", truncated=True),
            Rollout(r"\boxed{\frac{x}{2}} and on", truncated=True),
            Rollout("\n".join("12345")),
        ),
    )
    number = Group(problem("18", "gsm8k"), (Rollout("so 18"), Rollout("so"), Rollout("so", truncated=True)))
    letter = Group(problem("B", "choice"), (Rollout("The answer is B"), Rollout("The answer is C"), Rollout("?")))
    first, second, third = verify([math, number, letter], pool=pool)
    assert [r.grade.value for r in first.rollouts] == ["correct", "wrong", "truncated", "correct", "wrong"]
    assert [r.grade.value for r in second.rollouts] == ["correct", "no_answer", "truncated"]
    assert [r.grade.value for r in third.rollouts] == ["correct", "wrong", "no_answer"]
    assert first.outcomes.tolist() == [1, 0, 0, 1, 0]
    assert [r.reward.total for r in third.rollouts] == [1, 0, 0]
    assert first.problem is math.problem and first.responses == math.responses


def test_no_groups():
    assert verify([]) == [] and grade([]) == []


NUMBERS = {"numbers": [4, 6, 14], "target": 24}
RIGHT = {  # by verifier: a problem and the response that solves it
    "math": (problem("24"), r"So it is \boxed{24}."),
    "gsm8k": (problem("24", "gsm8k"), "#### 24"),
    "choice": (problem("B", "choice"), r"The answer is (\boxed{B})."),
    "countdown": (problem("24", "countdown", **NUMBERS), r"\( 4 + 6 = 10 \) \( 10 + 14 = 24 \) \boxed{ 24 }"),
}


@pytest.mark.parametrize("verifier", RIGHT)
def test_no_answer_stands_inside_an_open_thought(verifier):
    """Whoever opened it, and whatever box it holds; after it has ended, the answer counts as ever."""
    known, right = RIGHT[verifier]
    inside = [f"<think> Maybe {right}? no it is", f"{right} <think> or", f"<think> hm </think> {right} <think> or"]
    texts = [right, f"hm </think> {right}", f"<think> hm </think> {right}", *inside]
    group = Group(known, tuple(Rollout(text) for text in texts))
    (plain,) = verify([group])
    (opened,) = verify([dataclasses.replace(group, prompt="<|assistant|>\n<think>\n")])
    (closed,) = verify([dataclasses.replace(group, prompt="Use <think> and </think>.\n<think>\n\n</think>\n\n")])
    assert [str(r.grade) for r in plain.rollouts] == ["correct"] * 3 + ["no_answer"] * 3
    assert [str(r.grade) for r in opened.rollouts] == ["no_answer", "correct", "correct"] + ["no_answer"] * 3
    assert plain.outcomes.tolist() == closed.outcomes.tolist() == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("prompt", "opens"),
    [
        ("<|assistant|>\n<think>\n", True),
        ("User: 2+3?\n\nAssistant: <think>", True),
        ("The reasoning is enclosed in <think> </think>. User: 2+3? Assistant: <think>", True),
        ("Use no <think> block.\n<think> ", True),
        ("Do not use a <think> block. What is 2+3?", False),
        ("<|system|>You may think in a <think> block first.\n<|assistant|>\n", False),
        ("Is `<think>` closed by `</think>`? <think> is mine. What is 2+3?", False),
        ("<|assistant|>\n<think>\n\n</think>\n\n", False),
    ],
)
def test_only_a_prompt_that_ends_with_an_open_thought_opens_it(prompt, opens):
    known, right = RIGHT["math"]
    (group,) = verify([Group(known, (Rollout(right), Rollout(f"hm </think> {right}")), prompt=prompt)])
    assert [str(r.grade) for r in group.rollouts] == ["no_answer" if opens else "correct", "correct"]


CUT = [  # (verifier, whether the prompt opened a thought, what was written before the cut, its grade)
    ("math", False, r"So \boxed{24}. And now the next problem: 7 +", "correct"),
    ("math", False, r"So \boxed{25}. And now the next problem: 24 +", "wrong"),
    ("math", False, "The final answer is $24$. I hope it is correct.\n\nProblem: 7 +", "correct"),
    ("math", False, "The final answer is $24$. I", "truncated"),
    ("math", False, "so the answer is 24", "truncated"),
    ("math", False, r"\boxed{24", "truncated"),
    ("math", False, r"\boxed 24", "truncated"),  # 24, or the beginning of 240
    ("math", False, r"\boxed 24 and", "correct"),
    ("math", False, r"\boxed{24} and \boxed{2", "truncated"),
    ("math", True, r"I think \boxed{24}, but let me see", "truncated"),
    ("math", True, r"I think it is 3.</think> \boxed{24} Next", "correct"),
    ("math", True, r"I think \boxed{24}.</think> So the", "truncated"),
    ("math", False, r"<think> \boxed{24}, but", "truncated"),
    ("gsm8k", False, "so 20 + 4 = 24.\n#### 24\n\nQuestion: Ann has 7", "correct"),
    ("gsm8k", False, "so 20 + 4 = 24.\n#### 24", "truncated"),  # 24, or the beginning of 240
    ("gsm8k", False, "so 20 + 4 = 24", "truncated"),
    ("gsm8k", True, "#### 24\n\nNo,", "truncated"),
    ("choice", False, r"\boxed{B}, and then", "correct"),
    ("choice", False, "The answer is (B), and", "truncated"),
    ("countdown", False, r"\( 4 + 6 = 10 \) \( 10 + 14 = 24 \) \boxed{ 24 } \( 4", "correct"),
    ("countdown", False, r"\( 4 + 6 = 10 \) \( 10 + 14 = 24 \)", "truncated"),
    ("countdown", False, r"\( 4 + 6 = 10 \) \boxed{ twenty }", "truncated"),
]


@pytest.mark.parametrize(("verifier", "opened", "text", "expected"), CUT, ids=lambda value: str(value)[:24])
def test_a_response_that_was_cut_is_graded_by_an_answer_that_it_had_finished(verifier, opened, text, expected):
    """A base model that answers and does not stop is right or wrong;
    what it might have been about to write is neither."""
    found = grade([(text, RIGHT[verifier][0])], truncated=[True], thinking=[opened])
    assert found == [expected]


def test_equal_answers_to_one_problem_are_graded_once():
    with Counting(workers=1, warm=WARM) as counting:
        pairs = [(f"way {i}: \\boxed{{x+x}}", problem("2x")) for i in range(50)]
        pairs += [(f"way {i}: \\boxed{{3x}}", problem("2x")) for i in range(50)] + [(r"\boxed{x+x}", problem("3x"))]
        found = grade(pairs, pool=counting)
    assert found == [Grade.CORRECT] * 50 + [Grade.WRONG] * 51
    assert counting.jobs == 3


def test_arrays_in_meta_are_no_obstacle(pool):
    """What pandas reads from parquet; each row is a problem of its own, with equal arrays that are not the same."""
    pairs = [
        (response, problem("8", "countdown", numbers=np.array([3, 5]), target=np.int64(8)))
        for response in (
            r"\( 3 + 5 = 8 \) \boxed{ 8 }",
            r"\( 5 - 3 = 2 \) \boxed{ 2 }",
            "hm",
            r"\( 5 + 3 = 8 \) \boxed{ 8 }",
        )
    ]
    assert grade(pairs, pool=pool) == ["correct", "wrong", "no_answer", "correct"]


def test_plain_answers_need_no_worker():
    with Counting(workers=1) as counting:
        pairs = [
            (r"\boxed{5}", problem("5")),
            (r"\boxed{1,000}", problem("1000")),
            (r"\boxed{\frac{3}{4}}", problem("0.5")),
        ]
        assert grade(pairs, pool=counting) == ["correct", "correct", "wrong"]
        assert counting.pids == []


def test_a_hanging_answer_is_a_timeout_and_no_others(pool):
    """9^(9^9) has 370 million digits: SymPy would compute it, in C, where no alarm of Python's is heard."""
    loose = Verification(timeout_s=5.0, bounds=Bounds(exponent=10**12))
    pairs = [(r"\boxed{9^{9^{9}}}", problem("5")), (r"\boxed{x+x}", problem("2x"))]
    assert grade(pairs, loose, pool=pool) == [Grade.TIMEOUT, Grade.CORRECT]
    assert grade(pairs, pool=pool) == [Grade.WRONG, Grade.CORRECT]  # the bounds see it before SymPy does


def test_a_grader_that_fails_is_an_error(pool, caplog):
    without = replace(problem("5", "maze"), meta=dict.fromkeys(("size", "start", "goal", "walls")))
    assert grade([(r"\boxed{1}", without)], pool=pool) == [Grade.ERROR]
    assert "could not be graded" in caplog.text
    assert verify([Group(without, (Rollout(r"\boxed{1}"),))], pool=pool)[0].outcomes.tolist() == [0.0]


def test_a_known_answer_that_is_no_choice_is_no_problem_of_choice(pool):
    with pytest.raises(
        DiverError, match="problem 'p': the answer 'forty-two' is neither the label nor .*, which verifier choice"
    ):
        grade([("B", problem("forty-two", "choice"))], pool=pool)


def test_a_grader_of_the_package_cannot_be_replaced(monkeypatch):
    monkeypatch.setitem(ADDED, "math", "diver.grading.choice:Choice")
    assert GRADERS["math"] == "diver.grading.mathematics:Mathematics"


def test_an_unknown_verifier_lists_the_choices():
    with pytest.raises(
        DiverError,
        match=r"problem 'p': verifier: unknown choice 'oracle'; choices: math, gsm8k, choice",
    ):
        grade([("5", problem("5", "oracle"))])


def test_wrong_arguments():
    with pytest.raises(ValueError, match="1 pairs but 2 values"):
        grade([("5", problem("5"))], truncated=[True, False])
    with pytest.raises(ValueError, match="1 pairs but 0 values of thinking"):
        grade([("5", problem("5"))], thinking=[])


# ---- agreement with labelled data ------------------------------------------------------------------------------------


PATIENT = Verification(timeout_s=120.0)  # on a busy machine 5 seconds of the clock are few of the processor


EVERY = pytest.mark.parametrize("every", [16, pytest.param(1, marks=pytest.mark.slow)], ids=lambda n: f"1 of {n}")


def rows(name, every=1):
    path = DATA / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"{path.name} is not in DIVER_DATA")
    return [json.loads(line) for line in path.open()][::every]


@EVERY
def test_agreement_with_the_equivalence_set(pool, every):
    """207 of 214 agree with math-verify alone, 212 with ours."""
    data = rows("equivalence", every)
    found = grade([(row["prediction"], problem(row["gold"])) for row in data], PATIENT, pool=pool)
    agree = [(grade is Grade.CORRECT) == row["expected"] for grade, row in zip(found, data, strict=True)]
    accepted = [row["id"] for grade, row in zip(found, data, strict=True) if grade == "correct" and not row["expected"]]
    assert agree.count(False) <= 3 / every and accepted == []
    assert Grade.TIMEOUT not in found


@pytest.mark.parametrize(
    ("name", "verifier", "floor"),
    [("rollouts_math_qwen_100x8", "math", 0.998), ("rollouts_gsm8k_110x21models", "gsm8k", 0.997)],
)
def test_agreement_with_labelled_rollouts(pool, name, verifier, floor):
    """799 of 800 (the other is labelled wrong for 10000 against 10{,}000) and 2,304 of 2,310."""
    data = rows(name)
    found = grade([(row["response"], problem(row["answer"], verifier)) for row in data], PATIENT, pool=pool)
    agree = [(grade is Grade.CORRECT) == row["correct"] for grade, row in zip(found, data, strict=True)]
    assert sum(agree) / len(agree) >= floor


@EVERY
@pytest.mark.parametrize(("name", "lost"), [("math500", 0), ("olympiadbench", 0), ("minerva", 1), ("amc83", 0)])
def test_known_answers_are_equivalent_to_themselves(pool, name, lost, every):
    """Through algebra, without the short cut for equal texts; one of minerva's breaks off its dollars in the middle."""
    texts = [gold_texts(row["answer"]) for row in rows(name, every)]
    found = pool.map(equivalent, [(text, text) for text in texts], PATIENT.timeout_s)
    assert sum(value is not True for value in found) <= lost


def test_a_text_is_bounded_before_it_is_respelled():
    """What reads a response in the caller's process has no time limit there:
    100,000 spaces once kept it busy for 40 seconds."""
    spaces = " " * 200_000
    texts = [rf"\boxed{{5{spaces}x}}", rf"\boxed{{√{spaces}}}", rf"\boxed{{{'1' * 200_000}^\circ x}}"]
    assert grade([(text, problem("5")) for text in texts]) == [Grade.WRONG] * 3
