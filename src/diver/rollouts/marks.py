"""Messages of trajectories that a trainer wrote as one text: the marks of the chat template name the speakers.

A mark in the output of a tool moves the border of a turn, since a text does not say who wrote a mark. Every search is
linear in the text.
"""

import re
from collections.abc import Mapping
from typing import Any

Messages = list[Mapping[str, Any]]

TEMPLATES = (("<|im_start|>", "\n", "<|im_end|>"), ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"))
"""The marks that begin a turn, end its role and end the turn: of ChatML (Qwen, SmolLM2) and Llama 3."""
ANSWERED = re.compile(r"\n?user\n<tool_response>\n")
"""verl 0.8 leaves out the line break between the end of a turn and the role of the next one."""
ANSWER, GOES_ON, END = "\n</tool_response>\n<tool_response>\n", "\nassistant\n", "\n</tool_response>"
OBSERVED = {"search": "information", "text2sql": "observation"}
"""The tag around the answers of an environment of SkyRL, by the name of the environment."""


def with_special_tokens(text: Any, environment: str = "") -> Any:
    """The messages of a response that was decoded with special tokens, as by SkyRL; the text if it has one turn.

    The first mark decides the template. A response without marks may have all turns in one turn of the policy.
    """
    if not isinstance(text, str):
        return text
    places = {text.find(template[0]): template for template in TEMPLATES if template[0] in text}
    if not places:
        return _within_one_turn(text, OBSERVED.get(environment, ""))
    begins, role_ends, ends = places[min(places)]
    first, *later = text.split(begins)
    turns = [("assistant", "", first), *(piece.partition(role_ends) for piece in later)]
    messages = [
        {"role": role.strip() or "user", "content": content.strip().removesuffix(ends).strip()}
        for role, _, content in turns
    ]
    return messages if messages[-1]["content"] else messages[:-1]


def _within_one_turn(text: str, tag: str) -> Any:
    """The messages of a turn in which an environment answers: SkyRL without `use_conversation_multi_turn`."""
    opener, closer = f"<{tag}>", f"</{tag}>"
    if not tag or opener not in text:
        return text
    policy_text, *pieces = text.split(opener)
    messages: Messages = [{"role": "assistant", "content": policy_text.strip()}]
    for piece in pieces:
        answer, closed, policy_text = piece.partition(closer)
        messages.append({"role": "environment", "content": opener + answer + closed})
        if policy_text.strip():
            messages.append({"role": "assistant", "content": policy_text.strip()})
    return messages


def without_special_tokens(text: Any) -> Any:
    """The messages of a response that was decoded without special tokens, as by verl; the text if it has one turn.

    The words of Qwen's template remain: user, assistant, and `<tool_response>` around the answer of a tool.
    """
    if not isinstance(text, str) or not ANSWERED.search(text):
        return text
    policy_text, *pieces = ANSWERED.split(text)
    messages: Messages = [{"role": "assistant", "content": policy_text}]
    for piece in pieces:
        answers, goes_on, policy_text = piece.partition(END + GOES_ON)
        messages += [{"role": "tool", "content": answer} for answer in answers.removesuffix(END).split(ANSWER)]
        if goes_on and policy_text:
            messages.append({"role": "assistant", "content": policy_text})
    return messages
