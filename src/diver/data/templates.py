"""Prompt templates: how a question becomes the text that the policy continues.

`paper` and `paper-llama` are those of the paper (appendix B), as they are printed: quotation marks straight, `\\n` as
the two characters that the page shows. The data of the release (Elliott/Openr1-Math-46k-8192, system message) has a
line break there, `{thoughts}` for `thoughts`, and a comma after the second `</think>\\n`. The release evaluates with the
chat template of its tokenizer, Qwen2.5-Math-7B-16k-think, whose prompt ends with `<think>` and a line break.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diver.types import DiverError, Problem

QUESTION = "{QUESTION}"


@dataclass(frozen=True)
class Template:
    """`user` holds {QUESTION} once; `assistant` is the beginning of every response, put into the prompt.

    As flat text (`chat` False): the parts that are not empty, an empty line between them, each behind its label. As
    roles (`chat` True): through the tokenizer's chat template, `assistant` after the generation prompt.
    """

    user: str = QUESTION
    system: str = ""
    assistant: str = ""
    chat: bool = False
    user_label: str = ""
    assistant_label: str = ""


PAPER_SYSTEM = (
    "Your task is to follow a systematic, thorough reasoning process before providing the final solution. This involves "
    "analyzing, summarizing, exploring, reassessing, and refining your thought process through multiple iterations. "
    "Structure your response into two sections: Thought and Solution. In the Thought section, present your reasoning "
    r'using the format: "<think>\n thoughts </think>\n". Each thought should include detailed analysis, brainstorming, '
    r'verification, and refinement of ideas. After "</think>\n" in the Solution section, provide the final, logical, and '
    "accurate answer, clearly derived from the exploration in the Thought section. If applicable, include the answer in "
    r"\boxed{} for closed-form results like multiple choices or mathematical solutions."
)
_PAPER_USER = "This is the problem: {QUESTION}"

_BOXED = "Please reason step by step, and put your final answer within \\boxed{}."
_FORMAT = "<think> reasoning process here </think> <answer> answer here </answer>"


def _chatml(system: str, user: str) -> Template:
    """A ChatML prompt as one text, special tokens included."""
    return Template(
        f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
    )


TEMPLATES = {
    "plain": Template(),
    "chat": Template(chat=True),
    "paper": Template(
        system=PAPER_SYSTEM,
        user=_PAPER_USER,
        assistant="<think>",
        user_label="User: ",
        assistant_label="Assistant: ",
    ),
    "paper-chat": Template(system=PAPER_SYSTEM, user=_PAPER_USER, assistant="<think>", chat=True),
    "paper-llama": Template(assistant="Let's think step by step.", user_label="User: ", assistant_label="Answer: "),
    "boxed": Template(user="{QUESTION}\n\nReason step by step, and put your final answer within \\boxed{}.", chat=True),
    # Qwen2.5-Math's own (arXiv:2409.12122), for its base model too
    "qwen-math": _chatml(_BOXED, QUESTION),
    # SimpleRL-Zoo's `qwen-boxed` (hkust-nlp/simpleRL-reason, arXiv:2503.18892)
    "qwen-boxed": _chatml("You are a helpful assistant.", f"{QUESTION}\n{_BOXED}"),
    # Open-Reasoner-Zero's `zero_setting_base` (arXiv:2503.24290)
    "open-reasoner-zero": Template(
        "A conversation between User and Assistant. The User asks a question, and the Assistant solves it. The Assistant "
        "first thinks about the reasoning process in the mind and then provides the User with the answer. The reasoning "
        "process is enclosed within <think> </think> and answer is enclosed within <answer> </answer> tags, respectively, "
        f"i.e., {_FORMAT}. User: You must put your answer inside <answer> </answer> tags, i.e., <answer> answer here "
        "</answer>. And your final answer will be extracted automatically by the \\boxed{} tag.\nThis is the problem:\n"
        f"{QUESTION}\nAssistant: <think>"
    ),
    # the model card of PRIME-RL/Eurus-2-7B-PRIME-Zero (arXiv:2502.01456)
    "prime-zero": Template(
        "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. The assistant "
        "first thinks about the reasoning process in the mind and then provides the user with the answer. The reasoning "
        "process and answer are enclosed within <think> </think> and <answer> </answer> tags, respectively, i.e., "
        f"{_FORMAT}. User: {QUESTION}\n\nPresent the answer in LaTex format: \\boxed{{Your answer}}. Assistant:"
    ),
}
"""The question alone, as text or as a user message; the paper's two; ours for instruct models, `boxed`; those of other models."""


def render(problem: Problem, template: str | Template = "plain", tokenizer: Any = None) -> str:
    """The prompt of a problem, as text.

    A prompt that already is chat messages goes through the tokenizer's chat template as it is, without the template's
    system text and instructions. What comes through a chat template already has its special tokens: encode it with
    `add_special_tokens=False`. DiverError: an unknown name, or no chat template where one is needed.
    """
    layout = _named(template)
    if not isinstance(problem.prompt, str):
        return _through_chat(tokenizer, [dict(message) for message in problem.prompt], "", f"problem {problem.id!r}")
    question = layout.user.replace(QUESTION, problem.prompt)
    if layout.chat:
        messages = [{"role": "system", "content": layout.system}] if layout.system else []
        messages.append({"role": "user", "content": question})
        name = template if isinstance(template, str) else "given"
        return _through_chat(tokenizer, messages, layout.assistant, f"the template {name!r}")
    parts = [
        layout.system,
        layout.user_label + question,
        layout.assistant_label + layout.assistant,
    ]
    return "\n\n".join(part for part in parts if part)


def _named(template: str | Template) -> Template:
    if isinstance(template, Template):
        return template
    if template not in TEMPLATES:
        raise DiverError(f"unknown prompt template {template!r}; choose one of {', '.join(TEMPLATES)}")
    return TEMPLATES[template]


def _through_chat(tokenizer: Any, messages: list[dict[str, str]], prefix: str, who: str) -> str:
    if tokenizer is None or not getattr(tokenizer, "chat_template", None):
        name = getattr(tokenizer, "name_or_path", "") or "no tokenizer was given"
        raise DiverError(
            f"{who} needs a tokenizer with a chat template ({name}): use a flat template such as 'plain' or 'paper', "
            "or an instruct model"
        )
    try:
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # templates are programs of their authors: some refuse a system message
        raise DiverError(f"{who}: the tokenizer's chat template refuses these messages: {error}") from error
    return prompt if prefix and prompt.rstrip().endswith(prefix) else prompt + prefix
