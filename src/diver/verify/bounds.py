"""What needs algebra, and how much of it SymPy may see: a timeout does not stop what fills the memory first."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from diver.config.verification import Bounds
from diver.types import Grade


class PendingComparison(NamedTuple):
    """An answer that needs algebra: correct if any text of `answers` is equivalent to one of `golds`.

    The texts are ready for math-verify. `explicit` is False for an answer that was picked from free text; `settled` is a
    grade that was found without algebra.
    """

    answers: tuple[str, ...]
    golds: tuple[str, ...]
    explicit: bool
    settled: Grade | None = None


_POWER = re.compile(r"(?:\^|\*\*)\s*")
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_LAST_DIGITS = re.compile(r"\d+(?:\.\d+)?$")
_ATOM = re.compile(r"\\[A-Za-z]+|[+-]?\d+|.", re.DOTALL)


def bounded(pending: PendingComparison, bounds: Bounds) -> Grade | PendingComparison:
    """The comparison without the answers that are beyond the bounds; a grade where nothing is left to compare."""
    if pending.settled:
        return pending.settled
    if not all(within(gold, bounds) for gold in pending.golds):
        return Grade.ERROR
    answers = tuple(answer for answer in pending.answers if within(answer, bounds))
    return pending._replace(answers=answers) if answers else Grade.WRONG


def within(text: str, bounds: Bounds) -> bool:
    depth = deepest = 0
    if len(text) > bounds.length:
        return False
    for character in text:
        depth += (character in "{[(") - (character in "}])")
        deepest = max(deepest, depth)
    if deepest > bounds.nesting or re.search(rf"(?:\d[,\s]?){{{bounds.digits + 1}}}", text):
        return False
    return all(_exponent(text, power.end()) <= bounds.exponent for power in _POWER.finditer(text))


def _exponent(text: str, start: int, level: int = 1) -> float:
    """How large the numbers in the exponent that begins at `start` can get: 3^4 for that of 2^{3^{4}}.

    Infinite beyond three levels. A letter counts as 1: SymPy does not evaluate its powers.
    """
    if level > 3:
        return math.inf
    end = _group_end(text, start)
    while follow := _POWER.match(text, end):  # 9^9^9
        end = _group_end(text, follow.end())
    inside = text[start:end]
    largest = max([1.0, *map(float, _DIGITS.findall(inside))])
    bound = largest
    for power in _POWER.finditer(inside):
        before = inside[: power.start()].rstrip()
        if before[-1:] in ("}", ")"):
            base = largest
        else:
            number = _LAST_DIGITS.search(before[-300:])
            base = float(number[0]) if number else 1.0
        exponent = _exponent(inside, power.end(), level + 1)
        if exponent == math.inf:
            return math.inf
        digits = exponent * math.log10(base) if base > 1 else 0.0
        bound = max(bound, math.inf if digits > 300 else base**exponent if base > 1 else 1.0)
    return bound


def _group_end(text: str, start: int) -> int:
    """The end of the group in braces or parentheses, the command, the number or the character at `start`."""
    if text[start : start + 1] not in ("{", "("):
        atom = _ATOM.match(text, start)
        return atom.end() if atom else start
    depth = 0
    for end in range(start, len(text)):
        depth += (text[end] in "{(") - (text[end] in "})")
        if depth == 0:
            return end + 1
    return len(text)
