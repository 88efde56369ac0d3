r"""The models of the paper's main table whose weights are public, each asked in the way that it was trained to be.

    diver eval --model simplerl-zoo        fills the row SimpleRL-Zoo

The templates are those with which the models' authors evaluate: SimpleRL-Zoo's `qwen-boxed` (hkust-nlp/simpleRL-reason),
Open-Reasoner-Zero's `zero_setting_base`, PRIME-Zero's model card, Qwen2.5-Math's own for the base model, for which the
paper does not say what it used. The last box of a response is its answer, for all of them: what stands before the last
`</think>` is thought, and `<answer>` around a box does not hide it.

Left out: the authors' DIVER checkpoints. The release names a collection on the hub, but of its models only the one that
training starts from, huzican/Qwen2.5-Math-7B-16k-think; give a checkpoint of theirs by its path, with the template
"paper-chat" and the grader "rule". The models built on Qwen2.5-Math have 4,096 positions as they are published.
"""

from __future__ import annotations

from dataclasses import dataclass

from diver.data.templates import QUESTION, Template


@dataclass(frozen=True)
class NamedModel:
    """A model by a short name; `title` is its row in the paper's main table, `path` its id on the hub."""

    name: str
    title: str
    path: str
    template: Template
    grader: str = "math"
    """Of the mathematics benchmarks."""
    citation: str = ""


_BOXED = "Please reason step by step, and put your final answer within \\boxed{}."
_FORMAT = "<think> reasoning process here </think> <answer> answer here </answer>"


def _text(whole: str) -> Template:
    """A template that is one text, special tokens included."""
    return Template(user=whole)


def _chatml(system: str, user: str) -> Template:
    return _text(f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n")


QWEN_MATH = _chatml(_BOXED, QUESTION)
QWEN_BOXED = _chatml("You are a helpful assistant.", f"{QUESTION}\n{_BOXED}")
OPEN_REASONER = _text(
    "A conversation between User and Assistant. The User asks a question, and the Assistant solves it. The Assistant "
    "first thinks about the reasoning process in the mind and then provides the User with the answer. The reasoning "
    "process is enclosed within <think> </think> and answer is enclosed within <answer> </answer> tags, respectively, "
    f"i.e., {_FORMAT}. User: You must put your answer inside <answer> </answer> tags, i.e., <answer> answer here "
    "</answer>. And your final answer will be extracted automatically by the \\boxed{} tag.\nThis is the problem:\n"
    f"{QUESTION}\nAssistant: <think>"
)
PRIME_ZERO = _text(
    "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. The assistant "
    "first thinks about the reasoning process in the mind and then provides the user with the answer. The reasoning "
    "process and answer are enclosed within <think> </think> and <answer> </answer> tags, respectively, i.e., "
    f"{_FORMAT}. User: {QUESTION}\n\nPresent the answer in LaTex format: \\boxed{{Your answer}}. Assistant:"
)

MODELS: dict[str, NamedModel] = {
    model.name: model
    for model in (
        NamedModel(
            "qwen2.5-math-7b",
            "Qwen2.5-Math-7B",
            "Qwen/Qwen2.5-Math-7B",
            QWEN_MATH,
            citation="arXiv:2409.12122",
        ),
        NamedModel(
            "simplerl-zoo",
            "SimpleRL-Zoo",
            "hkust-nlp/Qwen-2.5-Math-7B-SimpleRL-Zoo",
            QWEN_BOXED,
            citation="arXiv:2503.18892",
        ),
        NamedModel(
            "openreasoner-zero",
            "OpenReasoner-Zero",
            "Open-Reasoner-Zero/Open-Reasoner-Zero-7B",
            OPEN_REASONER,
            citation="arXiv:2503.24290",
        ),
        NamedModel(
            "prime-zero",
            "PRIME-Zero",
            "PRIME-RL/Eurus-2-7B-PRIME-Zero",
            PRIME_ZERO,
            citation="arXiv:2502.01456",
        ),
    )
}


def named_model(name: str) -> NamedModel | None:
    """The model of that name, None for a path or an id of the hub."""
    return MODELS.get(name.lower())
