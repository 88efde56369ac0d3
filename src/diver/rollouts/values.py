"""Values of other people's columns as ours: texts, prompts, outcomes, numbers by token."""

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from diver.io.jsonl import number
from diver.types import TRUTH, DiverError


def text(value: Any, where: str) -> str:
    """A response: a text, or the messages of a chat, of which the assistant's count."""
    if is_messages(value):
        return "\n".join(content_text(m["content"]) for m in value if m.get("role", "assistant") == "assistant")
    if not isinstance(value, str):
        raise DiverError(f"{where}: a response must be a text, not {value!r:.60}")
    return value


def prompt(value: Any, where: str) -> str | tuple[Mapping[str, str], ...]:
    if is_messages(value):
        return tuple({"role": str(m.get("role", "user")), "content": content_text(m["content"])} for m in value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DiverError(f"{where}: a problem must be a text, a number or chat messages, not {value!r:.60}")
    return str(value)


def is_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(m, Mapping) and "content" in m for m in value)


def content_text(content: Any) -> str:
    """The text of a message, whose content may be in parts: texts, and others, which are left out."""
    if isinstance(content, list):
        return "".join(content_text(part) for part in content)
    if isinstance(content, Mapping):
        return str(content.get("text") or "") if content.get("type", "text") == "text" else ""
    return "" if content is None else str(content)


def known(value: Any) -> Any:
    """None for an empty text and NaN, as CSV and pandas have where nothing is known; of whole numbers integers, as ids are."""
    if value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def outcome(value: Any, where: str) -> float | None:
    """true is 1, false 0, as a word too; a text may be a number, as in CSV. None, NaN and "" are unknown."""
    if isinstance(value, str):
        known = TRUTH.get(value.strip().lower())
        value = _as_number(value) if known is None else known
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if not is_number(value) or not abs(value) <= sys.float_info.max:
        several = f"; --outcome COLUMN.KEY names one of {', '.join(map(str, value))}" if isinstance(value, dict) else ""
        raise DiverError(f"{where}: an outcome must be true, false or a finite number, not {value!r:.60}{several}")
    return float(value)


def _as_number(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value.strip()


def is_outcome(value: Any) -> bool:
    """Whether it can be an outcome: other people's `score` may be a word or a table."""
    return is_number(value) or (
        isinstance(value, str) and (value.strip().lower() in TRUTH or is_number(_as_number(value)))
    )


def is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def integer(value: Any) -> int | None:
    """A step or a length; a text may be one, as in CSV."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:  # Python refuses thousands of digits
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def mean_of(value: Any) -> float:
    """A number, or the mean of those of the tokens; NaN where it is not known."""
    if isinstance(value, list):
        known = [x for x in map(number, value) if not math.isnan(x)]
        return math.fsum(known) / len(known) if known else math.nan
    return number(_as_number(value) if isinstance(value, str) else value)


def by_token(value: Any) -> np.ndarray | None:
    """Log-probabilities of the tokens, float32 [T]; None where there are none, or one of them is not finite."""
    if not isinstance(value, list) or not value or not all(is_number(x) for x in value):
        return None
    with np.errstate(over="ignore"):
        found = np.array(list(map(number, value)), dtype=np.float32)
    return found if np.isfinite(found).all() else None
