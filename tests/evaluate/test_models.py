import pytest

from diver.data.benchmarks import BENCHMARKS, load
from diver.data.templates import QUESTION, render
from diver.evaluate import paper
from diver.evaluate.models import MODELS, named_model
from diver.types import Grade, Problem
from diver.verify import grades
from diver.verify.graders import GRADERS

PROBLEM = Problem("p", "What is {1} + 1?", "2")


def test_every_model_is_a_row_of_the_main_table():
    for name, model in MODELS.items():
        assert model.name == name == name.lower() and model.path.count("/") == 1
        assert paper.row(model.title) is not None and model.citation
        assert model.grader in GRADERS
    assert {m.title for m in MODELS.values()} == {
        r.model for r in paper.MAIN if r.group in ("", "Previous RLVR methods")
    }


def test_a_model_by_its_name():
    assert named_model("SimpleRL-Zoo") is MODELS["simplerl-zoo"]
    assert named_model("hkust-nlp/Qwen-2.5-Math-7B-SimpleRL-Zoo") is None and named_model("countdown") is None


@pytest.mark.parametrize(
    ("name", "begins", "ends"),
    [
        (
            "qwen2.5-math-7b",
            "<|im_start|>system\nPlease reason step by step, and put your final answer within \\boxed{}.<|im_end|>\n",
            "<|im_start|>user\nWhat is {1} + 1?<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            "simplerl-zoo",
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nWhat is {1} + 1?\n",
            "\nPlease reason step by step, and put your final answer within \\boxed{}.<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            "openreasoner-zero",
            "A conversation between User and Assistant. The User asks",
            "by the \\boxed{} tag.\nThis is the problem:\nWhat is {1} + 1?\nAssistant: <think>",
        ),
        (
            "prime-zero",
            "A conversation between User and Assistant. The user asks",
            "</answer>. User: What is {1} + 1?\n\nPresent the answer in LaTex format: \\boxed{Your answer}. Assistant:",
        ),
    ],
)
def test_prompts(name, begins, ends):
    prompt = render(PROBLEM, MODELS[name].template)
    assert prompt.startswith(begins) and prompt.endswith(ends)
    assert prompt.count(PROBLEM.prompt) == 1 and QUESTION not in prompt


RESPONSES = {  # in the form that each model was trained to give
    "qwen2.5-math-7b": "To add, count on. The answer is \\(\\boxed{2}\\).",
    "simplerl-zoo": "First, 1.\nThen, 1 more.\n\nThe final answer is: $\\boxed{2}$",
    "openreasoner-zero": " It could be \\boxed{3}. No: 2. </think> <answer> The sum is \\boxed{2}. </answer>",
    "prime-zero": " <think> Is it 3? No. </think> <answer> \\boxed{2} </answer>",
}


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_found_where_the_model_puts_them(name):
    assert grades([(RESPONSES[name], PROBLEM)]) == [Grade.CORRECT]
    assert grades([(RESPONSES[name].replace("\\boxed{2}", "\\boxed{3}"), PROBLEM)]) == [Grade.WRONG]


def test_a_benchmark_can_be_asked_by_every_template():
    problem = load("countdown", 0, limit=1).problems[0]
    for template in (*(m.template for m in MODELS.values()), BENCHMARKS["aime24"].template):
        assert problem.prompt in render(problem, template)
