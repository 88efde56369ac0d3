"""Trajectories that a trainer wrote as one text, as messages again: the marks of the chat template say whose a turn is.

A tool whose output has such a mark moves the border of a turn, since a text does not say who wrote a mark. Every search
is linear in the text.
"""

from collections.abc import Mapping
from typing import Any

Messages = list[Mapping[str, Any]]

TEMPLATES = (("<|im_start|>", "\n", "<|im_end|>"), ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"))
"""What begins a turn, ends its role and ends the turn: ChatML's (Qwen, SmolLM2) and Llama 3's."""
ANSWERED, ANSWER, GOES_ON = "\nuser\n<tool_response>\n", "\n</tool_response>\n<tool_response>\n", "\nassistant\n"
END = "\n</tool_response>"


def with_special_tokens(text: Any) -> Any:
    """The messages of a response that was decoded with its special tokens, as SkyRL does; of one turn, the text."""
    for begins, role_ends, ends in TEMPLATES:
        if isinstance(text, str) and begins in text:
            first, *later = text.split(begins)
            named = [("assistant", "", first), *(piece.partition(role_ends) for piece in later)]
            messages = [
                {"role": role.strip() or "user", "content": content.strip().removesuffix(ends).strip()}
                for role, _, content in named
            ]
            return messages if messages[-1]["content"] else messages[:-1]
    return text


def without_special_tokens(text: Any) -> Any:
    """The messages of a response that was decoded without special tokens, as verl does; of one turn, the text.

    The words of Qwen's template are left: user, assistant, and `<tool_response>` around what a tool answered.
    """
    if not isinstance(text, str) or ANSWERED not in text:
        return text
    messages: Messages = []
    said, *answered = text.split(ANSWERED)
    messages.append({"role": "assistant", "content": said})
    for piece in answered:
        answers, goes_on, said = piece.partition(END + GOES_ON)
        messages += [{"role": "tool", "content": one} for one in answers.removesuffix(END).split(ANSWER)]
        if goes_on and said:
            messages.append({"role": "assistant", "content": said})
    return messages
