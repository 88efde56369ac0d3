"""Comparisons without algebra: equal texts, plain numbers, numerals with a base, times and dates.

math-verify compares numbers in the same way, with two exceptions. A full stop at the end and a per cent sign after a
decimal matter there, and the base of a numeral does not. Other comparisons, None, are left to it.
"""

import re
from fractions import Fraction
from functools import lru_cache

from diver.core.types import Grade
from diver.grading import clock
from diver.grading.measures import COUNTS
from diver.grading.spelling import unify

LONGEST = 256  # characters of an answer that is remembered

_SPACING = re.compile(r"(?<!\\)\\!\s*|(?<!\\)\\[,;: ]|~|\\left\b|\\right\b|\\displaystyle\b")
_DECIMAL = re.compile(r"-?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)?(?:\.\d+)?", re.ASCII)
_FRACTION = re.compile(r"(-?)(?:(-?\d+)/(\d+)|\\frac\{(-?\d+)\}\{(\d+)\})", re.ASCII)
_MIXED = re.compile(r"(-?)(\d+) ?(?:\\frac\{(\d+)\}\{(\d+)\}| (\d+)/(\d+))", re.ASCII)
_UNIT = re.compile(r"(?<=\d)\s*\\(?:text|mathrm)\{\s*([A-Za-z][A-Za-z /]*)\}(?:\^\{?[23]\}?)?$")
_FONT = re.compile(r"\\(?:text(?:bf|it|rm|sf|normal)?|math(?:rm|bf|sf|it)|mbox)\s?\{([^{}]*)\}")
_BASED = re.compile(r"(-?[0-9A-Za-z]+)_\{?(\d+)\}?")


def compare_exactly(answer: str, gold: str) -> Grade | None:
    """correct or wrong; None if it takes algebra."""
    return (_compared if len(answer) <= LONGEST else _compared.__wrapped__)(answer, gold)


@lru_cache(maxsize=1 << 14)  # samples of a problem share a few answers
def _compared(answer: str, gold: str) -> Grade | None:
    a, g = plain(answer), plain(gold)
    if a and a == g:
        return Grade.CORRECT
    based = _BASED.fullmatch(a), _BASED.fullmatch(g)
    if based[0] and based[1]:  # math-verify ignores the base
        same = based[0].groups() == based[1].groups()
        return Grade.CORRECT if same else Grade.WRONG if based[0][2] != based[1][2] else None
    words = _worded(a), _worded(g)
    if words[0] == words[1] and "\\" not in words[0]:  # `even` is `\text{even}`; math-verify minds the font
        return Grade.CORRECT
    if grade := clock.compare_times(*words):
        return grade
    (x, x_percent), (y, y_percent) = quantity(a), quantity(g)
    if x is None or y is None:
        return None
    # math-verify reads 12% as 12 and as 0.12. We also read 12.5% as 12.5, but not 0.5% as 0.5.
    # math-verify rounds to six places: it decides on such small differences, except between numbers that are as small.
    readings = [(x, y)] if x_percent == y_percent else [(x, y), (x / 100, y) if x_percent else (x, y / 100)]
    (u, v), above_one = readings[-1], abs(x) >= 1
    if u == v or (x == y and above_one):
        return Grade.CORRECT
    apart = [abs(u - v) > Fraction(2, 10**6) or abs(u - v) > max(abs(u), abs(v)) / 1000 for u, v in readings]
    return Grade.WRONG if all(apart) and not (x_percent and y_percent and abs(x - y) < 1) else None


def _worded(text: str) -> str:
    """The plain text without fonts."""
    return " ".join(_FONT.sub(r"\1", text).split())


def plain(text: str) -> str:
    """The text without the marks that never change its meaning: delimiters, spacing, other names of a command."""
    return (_plain if len(text) <= LONGEST else _plain.__wrapped__)(text)


@lru_cache(maxsize=1 << 14)
def _plain(text: str) -> str:
    text = _SPACING.sub("", unify(text).strip()).strip("$").strip()
    text = text.removeprefix(r"\(").removesuffix(r"\)").removeprefix(r"\[").removesuffix(r"\]")
    text = text.removeprefix(r"\$").replace("{,}", ",")
    return text.strip().rstrip(".,;").rstrip()


def quantity(text: str) -> tuple[Fraction | None, bool]:
    """The number of a text such as `12`, `12\\%` or `12 \\text{ km}`, and whether it is per cent."""
    percent = text.endswith("%")
    if percent:
        text = text[:-1].removesuffix("\\").rstrip()
    elif (unit := _UNIT.search(text)) and unit[1].split()[0].lower().rstrip("s") not in COUNTS:
        text = text[: unit.start()]
    return plain_number(text), percent


def plain_number(text: str) -> Fraction | None:
    if not text or len(text) > 40:
        return None
    if _DECIMAL.fullmatch(text) and text[-1].isdigit():
        return Fraction(text.replace(",", ""))
    if fraction := _FRACTION.fullmatch(text):
        sign, *numbers = (group for group in fraction.groups() if group is not None)
        top, bottom = map(int, numbers)
        return Fraction(-top if sign else top, bottom) if bottom else None
    if mixed := _MIXED.fullmatch(text):
        integer, top, bottom = (int(group) for group in mixed.groups()[1:] if group)
        value = integer + Fraction(top, bottom) if bottom > top > 0 else None  # else a product
        return -value if value and mixed[1] else value
    return None
