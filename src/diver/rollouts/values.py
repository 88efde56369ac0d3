"""Convert values of foreign columns: texts, prompts, outcomes, numbers per token."""

import math
import sys
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from diver.core.files import number, table
from diver.core.turns import ITEMS, POLICY, THOUGHTS, Turn, tool_uses, turns_of
from diver.core.types import TRUTH, DiverError

TEXTS = ("text", "input_text", "output_text")
"""Types of the text parts of a message, in chats and in OpenAI's Responses, as NeMo-Gym writes them."""
SPEAKERS = ("role", "from", "type")
"""Keys that name the speaker of a turn, also in chats of ShareGPT and LangChain."""
ASSISTANT = frozenset({"assistant", "message", "model", "ai", "aimessage", "aimessagechunk", "bot", "gpt", "agent"})
"""Speakers whose turns are the response, in lower case. OpenAI's Responses may give only the type "message"."""
ASKING = frozenset({"user", "human", "system", "developer"})
TOOLS = frozenset({"tool", "function", "tool_response", "observation", "environment", "env", "ipython"})
CALLERS = frozenset({"function_call", "tool_call"})
"""Speakers whose text is a call, in chats of ShareGPT and ms-swift."""
TURN_TEXTS = ("content", "parts", "text", "value")
"""Keys of the text of a turn, also in chats of Gemini and ShareGPT."""
CALLS = ("actions", "function_call", "type", "name", "arguments", "input", "state", *THOUGHTS)
"""Keys of a turn, besides its text and its `tool_calls`, that say what was done, where, and why."""
SEVERAL = ("choices", "outputs", "candidates")
OBJECT_TEXTS = ("output", "generated_text", "response", "completion", "generation", "full_model_response")
"""Keys of the text of other objects, such as OpenAI's Responses, transformers' pipelines, reasoning-gym's results."""
NO_ID = frozenset({"", "none", "null", "nan", "<na>", "nat"})


def unwrapped(value: Any) -> Any:
    """Plain turns for messages of LangChain: `{"lc": 1, "id": [..., "AIMessage"], "kwargs": ...}` of `dumpd`, and
    `{"type": "ai", "data": ...}` of `messages_to_dict`. Other values do not change."""
    if isinstance(value, list):
        return [*map(unwrapped, value)] if any(isinstance(item, Mapping) for item in value) else value
    if not isinstance(value, Mapping):
        return value
    if value.get("type") == "constructor" and isinstance(turn := value.get("kwargs"), Mapping):
        kind = str((value.get("id") or [""])[-1]).removesuffix("Chunk").removesuffix("Message").lower()
        return {"role": kind, **turn} if "content" in turn else value
    if value.keys() == {"type", "data"} and isinstance(turn := value["data"], Mapping) and "content" in turn:
        return {"role": value["type"], **turn}
    return value


def is_missing(value: Any) -> bool:
    """Whether a value is empty: null, NaN, an empty object or list, such as a chat without turns."""
    if isinstance(value, list | dict):
        return not value
    return value is None or (isinstance(value, float) and math.isnan(value))


def responses(value: Any) -> list[Any]:
    """The responses in the value of a column, each in a form that `text` reads.

    A list has one response per item, unless it is a chat. An object of an API has one per choice: chat and text
    completions of OpenAI (`choices`), vLLM's RequestOutput (`outputs`), Gemini's (`candidates`). OpenAI's batches put
    it into a `body`.
    """
    if isinstance(value, list) and not is_turns(value):
        return [response for item in value for response in (responses(item) if isinstance(item, Mapping) else [item])]
    if isinstance(value, Mapping):
        value = value["body"] if isinstance(value.get("body"), Mapping) else value
        choices = next((value[name] for name in SEVERAL if isinstance(value.get(name), list)), None)
        return [value] if choices is None else choices or [None]
    return [value]


def text(value: Any, where: str) -> str:
    """The text of a response: a text, the assistant's turns of a chat, or an object of an API; "" if it has none."""
    if is_missing(value):
        return ""
    if is_turns(value):
        if is_parts(value):
            return content_text(value)
        return "\n".join(map(turn_text, response_turns(value)))
    content = _text_of_object(value, where) if isinstance(value, Mapping) else value
    if content is None and value.get("error") is not None:
        return ""
    if not isinstance(content, str):
        raise DiverError(f"{where}: a response must be a text, not {value!r:.60}")
    return content


def turns(value: Any, where: str) -> tuple[Turn, ...]:
    """The turns of a chat with an environment or with calls of tools; empty for every other response."""
    if not is_turns(value) or is_parts(value):
        return ()
    response_ids = {id(turn) for turn in response_turns(value)}
    try:
        parsed = turns_of(_message(turn, id(turn) in response_ids) for turn in value)
    except ValueError as error:
        raise DiverError(f"{where}, {error}") from None
    return parsed if any(not turn.by_policy or turn.actions for turn in parsed) else ()


def _message(turn: Mapping[str, Any], in_response: bool) -> dict[str, Any]:
    """A turn as `turns_of` reads it; `in_response` says that its text is part of the response."""
    who, words = speaker(turn), turn_text(turn) or content_text(turn.get("output"))
    calls, content = (words and [words], "") if who in CALLERS else (turn.get("tool_calls"), words)
    return {
        **{name: turn[name] for name in CALLS if name in turn},
        "role": POLICY if in_response or who in ASSISTANT | CALLERS | ITEMS.keys() else who,
        "content": content,
        "tool_calls": calls or tool_uses(turn.get("content")),
        "reward": None if math.isnan(reward := number(turn.get("reward"))) else reward,
    }


def response_turns(chat: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The turns of the assistant that may have a text. Without an assistant, the turns of all speakers who neither ask
    nor are tools.
    """
    turns = [turn for turn in chat if not turn.keys().isdisjoint(TURN_TEXTS)]
    answers = [turn for turn in turns if speaker(turn) in ASSISTANT]
    return answers or [m for m in turns if (m.get("role") or m.get("from")) and speaker(m) not in ASKING | TOOLS]


def speaker(turn: Mapping[str, Any]) -> str:
    """The speaker of a turn, in lower case. A turn without a speaker is the assistant's."""
    return next((str(turn[name]) for name in SPEAKERS if turn.get(name)), "assistant").lower()


def turn_text(turn: Mapping[str, Any]) -> str:
    """The text of a turn: its content or, if that is empty, the text under the keys of other chats."""
    texts = (turn.get(name) for name in TURN_TEXTS if name == "content" or not is_number(turn.get(name)))
    return next(filter(None, map(content_text, texts)), "")


def is_empty(chat: list[Mapping[str, Any]]) -> bool:
    """Whether a chat without a text has a turn of the assistant whose content is empty in the file."""
    return not is_parts(chat) and any(m.get("content", m) in (None, "", []) for m in response_turns(chat))


def _text_of_object(value: Mapping[str, Any], where: str) -> str | None:
    """The text of a choice, a message, a Responses object, an output of vLLM, or what OBJECT_TEXTS names."""
    if isinstance(message := value.get("message"), Mapping):
        return content_text(message.get("content")) or str(message.get("refusal") or "")
    if isinstance(value.get("text"), str):
        return str(value["text"])
    if "content" in value or isinstance(value.get("parts"), list):
        return turn_text(value)
    return next((text(value[name], where) for name in (*OBJECT_TEXTS, "text") if name in value), None)


def finish_reasons(value: Any) -> list[Any]:
    """The reasons for the end of the response in an object of an API."""
    fields = value if isinstance(value, Mapping) else {}
    names = ("finish_reason", "finishReason", "stop_reason")
    return [*map(fields.get, names), table(fields, "incomplete_details").get("reason")]


def prompt(value: Any, where: str) -> str | tuple[Mapping[str, str], ...]:
    if is_turns(value):
        if is_parts(value):
            return content_text(value)
        return tuple({"role": str(m.get("role") or m.get("from") or "user"), "content": turn_text(m)} for m in value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DiverError(f"{where}: a problem must be a text, a number or chat messages, not {value!r:.60}")
    return str(value)


def is_turns(value: Any) -> bool:
    """Whether a value is a chat, or the parts of one message: turns with a role, and items with a type (tool calls)."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(m, Mapping) and not m.keys().isdisjoint({"content", *SPEAKERS}) for m in value)
    )


def is_parts(turns: list[Mapping[str, Any]]) -> bool:
    """Whether turns are the parts of one message."""
    return all(m.keys().isdisjoint({"content", "role", "from"}) for m in turns)


def content_text(content: Any) -> str:
    """The text of a message. If its content has parts, those without text are left out."""
    if isinstance(content, list):
        return "".join(content_text(part) for part in content)
    if not isinstance(content, Mapping):
        return "" if content is None else str(content)
    if isinstance(content.get("parts"), list):  # Gemini's
        return content_text(content["parts"])
    if content.get("thought") is True:  # Gemini's reasoning
        return ""
    kind = content.get("type", "text")
    if kind == "tool_result":  # Anthropic's
        return content_text(content.get("content"))
    body = content.get("text") if kind in TEXTS else content.get("refusal") if kind == "refusal" else None
    return str((body.get("value") if isinstance(body, Mapping) else body) or "")


def identity(value: Any) -> str | int | None:
    """An id; None for a value that is no text or integer, and for a text that stands for a missing value."""
    value = known(value)
    if isinstance(value, str):
        return None if value.strip().lower() in NO_ID else value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def known(value: Any) -> Any:
    """The value; None for an empty text and NaN, which CSV and pandas write if nothing is known. A whole number becomes
    an integer, as ids are. A Decimal, which parquet columns may have, is a number."""
    value = float(value) if isinstance(value, Decimal) else value
    if value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def outcome(value: Any, where: str) -> float | None:
    """true is 1, false 0, as a word too; a text may be a number, as in CSV. None, NaN and "" are unknown."""
    if isinstance(value, str) and (word := value.strip().lower()) in TRUTH:
        return TRUTH[word]
    value = known(_as_number(value))
    if value is None:
        return None
    if not is_number(value) or not abs(value) <= sys.float_info.max:
        several = f"; --outcome COLUMN.KEY names one of {', '.join(map(str, value))}" if isinstance(value, dict) else ""
        raise DiverError(f"{where}: an outcome must be true, false or a finite number, not {value!r:.60}{several}")
    return float(value)


def _as_number(value: Any) -> Any:
    """The number in a text, as in CSV, or in a Decimal; other values do not change."""
    try:
        return float(value) if isinstance(value, str | Decimal) else value
    except ValueError:
        return value.strip()


def is_outcome(value: Any) -> bool:
    """Whether a value can be an outcome; a column `score` may also hold a word or a table."""
    return is_number(_as_number(value)) or (isinstance(value, str) and value.strip().lower() in TRUTH)


def is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def integer(value: Any) -> int | None:
    """A step or a length; a text may be one, as in CSV, where pandas writes 1.0 if another row has none."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:  # Python refuses thousands of digits
        value = int(value)
    value = known(_as_number(value))
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def mean_of(value: Any) -> float:
    """A number, or the mean of the numbers of the tokens; NaN if unknown."""
    if isinstance(value, list):
        numbers = [x for x in map(number, value) if not math.isnan(x)]
        return math.fsum(numbers) / len(numbers) if numbers else math.nan
    return number(_as_number(value))


def by_token(value: Any) -> np.ndarray | None:
    """Log-probabilities of the tokens, float32 [T]; None if there are none, or one of them is not finite."""
    if not isinstance(value, list) or not value:
        return None
    with np.errstate(over="ignore"):  # a number beyond float32 becomes infinite
        logprobs = np.array(list(map(number, value)), dtype=np.float32)
    return logprobs if np.isfinite(logprobs).all() else None
