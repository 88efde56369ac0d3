"""The study with a pretrained model: its data, its warm-up, and the real command on a model made to be small."""

import json

import pytest
import torch
from torch.nn.functional import cross_entropy

from diver.config.data import Source
from diver.types import DiverError, Grade, Problem
from diver.verify import grade
from smollm2_gsm8k.data import PARTS, formulas, split
from smollm2_gsm8k.warm_up import LikelihoodLoss

TEXT = "She sold 48/2 = <<48/2=24>>24 in May.\nIn all (48 + 24) * 10 = <<(48+24)*10=720>>720.\n#### 720"


def test_a_solution_becomes_its_calculator_marks_and_its_answer():
    assert formulas(TEXT) == (r" \( 48 / 2 = 24 \) \( ( 48 + 24 ) * 10 = 720 \) \boxed{ 720 }", "720")
    assert formulas("It is 0.5*2,000 = <<0.5*2000=1000>>1000.\n#### 1,000") == (
        r" \( 0.5 * 2000 = 1000 \) \boxed{ 1000 }",
        "1000",
    )


@pytest.mark.parametrize("text", ["It is 3.\n#### 3", "It is <<1+1=2>>2, so 3.\n#### 3", "It is <<3>>3.\n#### 3"])
def test_a_solution_whose_marks_do_not_end_in_the_answer_is_left_out(text):
    assert formulas(text) is None


def test_the_grader_takes_what_the_warm_up_teaches():
    problem = Problem("p", "?", "720", verifier="gsm8k")
    right = formulas(TEXT)[0]
    assert grade([(right, problem), (right.replace("{ 720 }", "{ 700 }"), problem)]) == [Grade.CORRECT, Grade.WRONG]


def words(texts):
    """A tokenizer: a token a word."""
    return {"input_ids": [text.split() for text in texts]}


def write(path, questions):
    rows = [
        {"question": q, "answer": f"{i}+1 = <<{i}+1={i + 1}>>{i + 1}\n#### {i + 1}"} for i, q in enumerate(questions)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Source(path=str(path))


def test_the_parts_share_no_question_and_a_repeated_one_is_dealt_once(tmp_path):
    source = write(tmp_path / "train.jsonl", [*(f"what is {i} + 1 ?" for i in range(20)), "what is 3 + 1 ?", "a " * 9])
    parts = split(source, words, {"warm_up": 0.6, "training": 0.25}, longest_prompt=8, longest=13)
    assert list(parts) == list(PARTS)
    ids = [p.id for part in parts.values() for p in part]
    assert len(ids) == len(set(ids)) and set(ids) == {f"gsm8k-train-{i}" for i in range(20)}  # the 9 words are too long
    # 21 questions: cuts at round(12.6) and round(17.85)
    sizes = [len(part) for part in parts.values()]
    assert sum(sizes) == 20 and all(size - kept in (0, 1) for size, kept in zip((13, 5, 3), sizes, strict=True))
    assert split(source, words, {"warm_up": 0.6, "training": 0.25}, 8, 13) == parts
    assert parts["warm_up"][0].solution.count("=") == 1
    # " \( 3 + 1 = 4 \) \boxed{ 4 }" has 10 words, and the end token
    assert not any(split(source, words, {"warm_up": 0.6, "training": 0.25}, 8, 10).values())


def test_problems_without_solutions_are_refused(tmp_path):
    (tmp_path / "short.jsonl").write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    with pytest.raises(DiverError, match=r"short.jsonl:1: needs `question` and an `answer` with its solution"):
        split(Source(path=str(tmp_path / "short.jsonl")), words, {"warm_up": 0.6, "training": 0.25}, 8, 8)


def test_the_loss_of_the_warm_up_is_the_cross_entropy():
    logits, tokens = torch.randn(2, 3, 5, requires_grad=True), torch.tensor([[0, 1, 2], [3, 4, 0]])
    logprobs = logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0]
    loss, _ = LikelihoodLoss().forward(logprobs, torch.zeros(2, 3), torch.ones(2))
    torch.testing.assert_close(loss.mean(), cross_entropy(logits.view(6, 5), tokens.view(6)))
