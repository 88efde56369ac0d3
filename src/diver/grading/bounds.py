"""Limits on answers that are passed to SymPy: a timeout does not prevent a full memory."""

import math
import re
from typing import NamedTuple

from diver.core.types import Grade
from diver.grading.brackets import closing
from diver.grading.notation import respell
from diver.grading.settings import Bounds


class PendingComparison(NamedTuple):
    """An answer that needs algebra: correct if any text of `answers` is equivalent to one of `golds`.

    The texts are a box, a formula in dollars, or prose.
    """

    answers: tuple[str, ...]
    golds: tuple[str, ...]


MOST_POWERS = 256  # powers in one text; each is scanned to the end of its exponent

_POWER = re.compile(r"(?:\^|\*\*)\s*")
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_ATOM = re.compile(r"\\[A-Za-z]+|[+-]?\d+|.", re.DOTALL)


def bounded(pending: PendingComparison, bounds: Bounds) -> Grade | PendingComparison:
    """The comparison as math-verify should read it, without the answers that are beyond the bounds.

    A grade if nothing remains to compare.
    """
    answers, golds = (
        tuple(respell(text) for text in texts if len(text) <= bounds.length)
        for texts in (pending.answers, pending.golds)
    )
    if len(golds) < len(pending.golds) or not all(within(gold, bounds) for gold in golds):
        return Grade.ERROR
    answers = tuple(answer for answer in answers if within(answer, bounds))
    return PendingComparison(answers, golds) if answers else Grade.WRONG


def within(text: str, bounds: Bounds) -> bool:
    depth = deepest = 0
    if len(text) > bounds.length:
        return False
    for character in text:
        depth += (character in "{[(") - (character in "}])")
        deepest = max(deepest, depth)
    if deepest > bounds.nesting or re.search(rf"(?:\d[,\s]?){{{bounds.digits + 1}}}", text):
        return False
    starts = [power.end() for power in _POWER.finditer(text)]
    return len(starts) <= MOST_POWERS and all(
        _largest(text[start : _exponent_end(text, start)]) <= bounds.exponent for start in starts
    )


def _largest(exponent: str) -> float:
    """An upper bound of the numbers in an exponent: 3^4 for 3^{4}. A letter counts as 1: SymPy does not evaluate it."""
    bound = 1.0
    for part in reversed(_POWER.split(exponent)):
        base = max([1.0, *map(float, _DIGITS.findall(part))])
        try:
            bound = base**bound
        except OverflowError:
            bound = math.inf
    return bound


def _exponent_end(text: str, start: int) -> int:
    """The end of the exponent at `start`: a group, a command, a number or a character, with the powers above it."""
    while True:
        if text.startswith(("{", "("), start):
            end = closing(text, start, "{}()") + 1 or len(text)
        else:
            atom = _ATOM.match(text, start)
            end = atom.end() if atom else start
        power_above = _POWER.match(text, end)  # 9^9^9
        if not power_above:
            return end
        start = power_above.end()
