"""Comparisons without algebra: equal texts, plain numbers, and words.

math-verify compares numbers in the same way, with two exceptions. A full stop at the end and a per cent sign after a
decimal matter there, and the base of a numeral does not. It drops what stands behind a number, and minds how words are
set; here words are compared where both answers have them. The rest, None, is left to it.
"""

import math
import re
from fractions import Fraction
from functools import lru_cache

from diver.core.types import Grade
from diver.grading import clock, products
from diver.grading.measures import POWERS_OF_TEN, says_more
from diver.grading.spelling import TABLES, unify

LONGEST = 256  # characters of an answer that is remembered

_SPACING = re.compile(r"(?<!\\)\\!\s*|(?<!\\)\\[,;: ]|~|\\left\b|\\right\b|\\displaystyle\b")
_DECIMAL = re.compile(r"-?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)?(?:\.\d+)?", re.ASCII)
_COMMA = re.compile(r"(?P<whole>-?(?:0|\d{1,3}(?:\.\d{3}){1,4}|\d{1,12}(?!,\d{3}$))),(?P<digits>\d{1,9})", re.ASCII)
_POINTS = re.compile(r"-?[1-9]\d{0,2}(?:\.\d{3}){2,4}", re.ASCII)
_FRACTION = re.compile(r"(-?)(?:(-?\d+)/(\d+)|\\frac\{(-?\d+)\}\{(\d+)\})", re.ASCII)
_LITERAL = re.compile(r"0(?:[xX][0-9A-Fa-f]+|[bB][01]+|[oO][0-7]+)", re.ASCII)  # 0x1F
_MIXED = re.compile(r"(-?)(\d+) ?(?:\\frac\{(\d+)\}\{(\d+)\}| (\d+)/(\d+))", re.ASCII)
_UNIT = re.compile(r"(?<=\d)\s*\\(?:text|mathrm)\{\s*([A-Za-z][A-Za-z /]*)\}$")
_COUNTS = frozenset((*POWERS_OF_TEN, *"dozen percent pct or and to base".split()))
_FONT = re.compile(r"\\(?:text(?:bf|it|rm|sf|normal)?|math(?:rm|bf|sf|it)|mbox)\s?\{([^{}]*)\}")
_NAME = re.compile(r"[A-Z]{3,}")  # such as a polygon; the two letters of a segment may change places
_GAP = re.compile(r"(?<!\d)\s+|\s+(?!\d)")
_WORD = re.compile(r"[A-Za-z]{3}|°[CF]")
_ARTICLE = re.compile(r"^(?:an?|the)\s+(?=[a-z]{4,}(?: [a-z]{2,})*\.?$)", re.IGNORECASE)
# Or odds: a ratio in lowest terms only where one of the two is written with a colon.
_RANGE = re.compile(r"\d{1,9}(?:to\d{1,9})+", re.ASCII)
_RATIO = re.compile(r"[1-9]\d{0,8}(?:(?::|to)[1-9]\d{0,8})+", re.ASCII)
_SCALES = {"dozen": 12} | {word: 10**power for word, power in POWERS_OF_TEN.items()}
_SCALED = re.compile(
    rf"(-?\d[\d,]*(?:\.\d+)?)(?:(dozen|{'|'.join(POWERS_OF_TEN)})(?!th))?"
    r"(?![a-z]*(?:plus|minus|times|hundred|thousand|illion|dozen))[a-z]*",
    re.ASCII,
)
_SIZES = {
    unit: (kind, Fraction(size))
    for kind, sizes in TABLES["units"]["sizes"].items()
    for size, units in sizes.items()
    for unit in units.split()
}
_UNITS = "|".join(map(re.escape, sorted(_SIZES, key=len, reverse=True)))
_MEASURE = re.compile(
    r"(?P<number>-?(?:(?:\d{1,9})?\\frac\{\d{1,9}\}\{\d{1,9}\}|\d[\d,]{0,20}(?:\.\d{1,20}|/\d{1,9})?|\.\d{1,20}))"
    rf"(?P<count>{'|'.join(_SCALES)})?(?P<power>square|cubic|sq|cu)?\.?(?P<unit>{_UNITS})"
    r"(?:(?<=[a-z]{2})s)?(?![a-z])(?:\^\{?(?P<exponent>[23])\}?)?(?:,?and|,)?",
    re.ASCII,
)
_POWERS = {"s": 2, "c": 3}
_CENTS, _PRICE = re.compile(r"\d{1,9}cents?", re.ASCII), re.compile(r"\d{1,9}\.\d\d", re.ASCII)
_OPPOSITE = re.compile(  # distinguished by their first letters
    r"(?:\\[a-z]+|[^a-z])*[a-z]*?(?:(north|south|east|west)|(increase|decrease)"
    r"|(?:°|degrees?)(celsius|fahrenheit|[cf]))"
)
_BASED = re.compile(r"(-?[0-9A-Za-z]+)_\{?(\d+)\}?")


def compare(answer: str, gold: str) -> Grade | None:
    """correct or wrong; None if it takes algebra."""
    return (_compared if len(answer) <= LONGEST else _compared.__wrapped__)(answer, gold)


@lru_cache(maxsize=1 << 14)  # samples of a problem share a few answers
def _compared(answer: str, gold: str) -> Grade | None:
    a, g = plain(answer), plain(gold)
    if a and a == g:
        return Grade.CORRECT
    based = _BASED.fullmatch(a), _BASED.fullmatch(g)
    if based[0] and based[1]:  # math-verify does not look at the base
        same = based[0].groups() == based[1].groups()
        return Grade.CORRECT if same else Grade.WRONG if based[0][2] != based[1][2] else None
    if moments := clock.compare(_worded(a), _worded(g)):
        return moments
    short = max(len(a), len(g)) <= LONGEST
    if short and (settled := products.compare(_worded(a), _worded(g)) or products.compare_cycles(answer, gold)):
        return settled
    if short and (by_words := _by_words(_unset(a), _unset(g), in_text=bool(_FONT.fullmatch(g)))):
        return by_words
    words = (_priced(answer, a), _priced(gold, g)) if short else ("", "")
    if measured := _by_measure(*words):
        return measured
    scaled = _scaled(*words)
    (x, x_percent), (y, y_percent) = scaled or (quantity(a), quantity(g))
    if x is None and y is not None and _with_comma(a) == y:
        return Grade.CORRECT
    if x is None or y is None:
        return None
    # math-verify reads 12% as 12 and as 0.12. We also read 12.5% as 12.5, but not 0.5% as 0.5. math-verify
    # rounds to six places: near that it decides, except between numbers that small themselves.
    readings = [(x, y)] if x_percent == y_percent else [(x, y), (x / 100, y) if x_percent else (x, y / 100)]
    (u, v), counted = readings[-1], abs(x) >= 1
    if u == v or (x == y and counted):
        return Grade.CORRECT
    apart = [abs(u - v) > Fraction(2, 10**6) or abs(u - v) > max(abs(u), abs(v)) / 1000 for u, v in readings]
    return Grade.WRONG if all(apart) and not (x_percent and y_percent and abs(x - y) < 1) else None


def _by_words(a: str, g: str, in_text: bool) -> Grade | None:
    """Compare two texts without fonts and spaces; capitals count unless the whole reference answer is `in_text`."""
    answer, gold = a.lower(), g.lower()
    if _WORD.search(g) and "\\" not in g and (a == g or (in_text and answer == gold)):
        return Grade.CORRECT
    if _NAME.fullmatch(g) and answer != gold and sorted(answer) == sorted(gold):
        return Grade.WRONG  # math-verify would multiply the letters
    for pattern, value in ((_RANGE, re.Match.group), (_RATIO, _ratio)):
        found = pattern.fullmatch(answer), pattern.fullmatch(gold)
        if found[0] and found[1]:
            return Grade.CORRECT if value(found[0]) == value(found[1]) else Grade.WRONG
    ends = _OPPOSITE.fullmatch(answer), _OPPOSITE.fullmatch(gold)
    if ends[0] and ends[1]:
        opposite = any(x and y and x[0] != y[0] for x, y in zip(ends[0].groups(), ends[1].groups(), strict=True))
        return Grade.WRONG if opposite else None
    return None


def _ratio(match: re.Match[str]) -> list[int]:
    """In lowest terms: 2:4:6 is 1:2:3."""
    parts = [int(part) for part in re.split(":|to", match[0])]
    return [part // math.gcd(*parts) for part in parts]


def _worded(text: str) -> str:
    """The plain text without fonts."""
    return " ".join(_FONT.sub(r"\1", text).split())


def _unset(text: str) -> str:
    """The plain text without fonts and without spaces but those between two numbers."""
    text = _FONT.sub(r"\1", text).replace(r"^{\circ}", "°").replace(r"^\circ", "°").strip()
    text = _ARTICLE.sub("", text)
    return _GAP.sub("", text).rstrip(".")


def _priced(text: str, as_plain: str) -> str:
    """The plain text unset, with the dollars of its sign, which is not in it, as a word."""
    words = _unset(as_plain).lower()
    return f"{words}dollars" if text.lstrip("$ ").startswith(r"\$") and "dollar" not in words else words


def _scaled(answer: str, gold: str) -> list[tuple[Fraction | None, bool]] | None:
    """Two numbers, at least one with a count in words (million); None for other texts."""
    found = _SCALED.fullmatch(answer), _SCALED.fullmatch(gold)
    if not (found[0] and found[1] and (found[0][2] or found[1][2])):
        return None
    numbers = [(plain_number(match[1]), _SCALES.get(match[2], 1)) for match in found if match]
    return [(number and number * scale, False) for number, scale in numbers]


def _by_measure(answer: str, gold: str) -> Grade | None:
    """Compare two quantities with known units, of which not all are the same: 90 minutes and 1.5 hours."""
    if _CENTS.fullmatch(answer) and _PRICE.fullmatch(gold):
        gold += "dollars"
    given, known = _measured(answer), _measured(gold)
    if not given or not known or (given[1][0] == known[1][0] and given[1] != known[1]):
        return None  # an area in the unit of a length is a slip
    if given[1:] == known[1:] and len(known[2]) == 1:
        return None  # one number in the same unit
    return Grade.CORRECT if (given[0], given[1]) == (known[0], known[1]) else Grade.WRONG


def _measured(text: str) -> tuple[Fraction, tuple[str, int], list[Fraction]] | None:
    """The sum of a quantity's parts, `2 h 15 min`, its kind and power, and the sizes of its units; None for others."""
    kinds, parts, end = set(), [], 0
    while end < len(text):
        found = _MEASURE.match(text, end)
        number = plain_number(found["number"]) if found else None
        if not found or number is None:
            return None
        kind, size = _SIZES[found["unit"]]
        power = int(found["exponent"] or 0) or _POWERS.get((found["power"] or "")[:1], 1)
        kinds.add((kind, power))
        parts.append((number * _SCALES.get(found["count"], 1), size**power))
        end = found.end()
    if len(kinds) != 1:
        return None
    return sum((number * size for number, size in parts), Fraction(0)), kinds.pop(), [size for _, size in parts]


def plain(text: str) -> str:
    """The text without the marks that never change its meaning: delimiters, spacing, other names of a command."""
    text = _SPACING.sub("", unify(text).strip()).strip("$").strip()
    text = text.removeprefix(r"\(").removesuffix(r"\)").removeprefix(r"\[").removesuffix(r"\]")
    text = text.removeprefix(r"\$").replace("{,}", ",")
    return text.strip().rstrip(".,;").rstrip()


def quantity(text: str) -> tuple[Fraction | None, bool]:
    """The number of a text such as `12`, `12\\%` or `12 \\text{ km}`, and whether it is per cent."""
    percent = text.endswith("%")
    if percent:
        text = text[:-1].removesuffix("\\").rstrip()
    elif (unit := _UNIT.search(text)) and not (unit[1].split()[0].lower().rstrip("s") in _COUNTS or says_more(unit[1])):
        text = text[: unit.start()]
    return plain_number(text), percent


def _with_comma(text: str) -> Fraction | None:
    """A decimal with a comma, 0,5 or 1.234,56 or 12,00, or 1.234.567; None for 1,234 and 12,0, which may be a list."""
    if _POINTS.fullmatch(text):
        return Fraction(text.replace(".", ""))
    found = _COMMA.fullmatch(text)
    if not found:
        return None
    value = Fraction(f"{found['whole'].replace('.', '')}.{found['digits']}")
    return value if value.denominator > 1 or found["digits"] == "00" else None


def plain_number(text: str) -> Fraction | None:
    if not text or len(text) > 40:
        return None
    if _DECIMAL.fullmatch(text) and text[-1].isdigit():
        return Fraction(text.replace(",", ""))
    if _LITERAL.fullmatch(text):
        return Fraction(int(text, 0))
    if fraction := _FRACTION.fullmatch(text):
        sign, *parts = (part for part in fraction.groups() if part is not None)
        top, bottom = map(int, parts)
        return Fraction(-top if sign else top, bottom) if bottom else None
    if mixed := _MIXED.fullmatch(text):
        whole, top, bottom = (int(part) for part in mixed.groups()[1:] if part)
        value = whole + Fraction(top, bottom) if bottom > top > 0 else None  # else a product
        return -value if value and mixed[1] else value
    return None
