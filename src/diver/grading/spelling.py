r"""One spelling for signs, commands and numerals, by the tables of notation.toml.

`²` is `^{2}`, `½` is `\frac{1}{2}`, `\varnothing` is `\emptyset`. A numeral has its base as a subscript, and an
overline over the digits that repeat:

1231_{\text{five}}, 1231 \text{ base } 5, (1231)_5       1231_{5}
0.1\dot{6}, 0.1(6)                                       0.1\overline{6}

math-verify takes most of these for different answers, or for something else. Linear in the length of the text.
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("notation.toml").read_text("utf-8"))
TEXT = r"\\(?:text|mathrm|mbox)"
"""Commands around words in a formula."""
GAP = r"(?:\s|~|\\[,;: ]){0,4}"
"""Space between a number and its unit."""

Replacement = str | Callable[[re.Match[str]], str]
Rules = list[tuple[re.Pattern[str], Replacement]]


def compiled(*rules: tuple[str, Replacement]) -> Rules:
    return [(re.compile(pattern), replacement) for pattern, replacement in rules]


def replaced(rules: Rules, text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


_FRACTIONS = {sign: unicodedata.normalize("NFKD", sign).split("⁄") for sign in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"}
MONEY = TABLES["currencies"]["signs"]
SIGNS = str.maketrans(
    {chr(sign + 0xFEE0): chr(sign) for sign in range(0x21, 0x7B)}  # full-width characters, as in Chinese texts
    | {sign: spelling for spelling, signs in TABLES["signs"].items() for sign in signs}
    | {sign: rf"\frac{{{top}}}{{{bottom}}}" for sign, (top, bottom) in _FRACTIONS.items()}
    | dict.fromkeys(MONEY, "")
)
_COMBINED = compiled(
    ("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ]+", lambda run: f"^{{{unicodedata.normalize('NFKC', run[0])}}}"),
    (r"(?![0-9])\d", lambda digit: str(unicodedata.decimal(digit[0]))),  # the digits of other scripts
)

_SYNONYMS = {"\\" + name: spelling for spelling, names in TABLES["commands"].items() for name in names.split()}
_COMMANDS = compiled(
    (r"\\q?quad(?![A-Za-z])", " "),
    (
        r"\\(?:operatorname\*?|mathrm|text)\{(arc(?:sin|cos|tan)|sin|cos|tan|ln|log|exp)\}\s*",  # min and sec are units
        r"\\\1 ",
    ),
    (r"\\[A-Za-z]+", lambda command: _SYNONYMS.get(command[0], command[0])),
    (r"\\lg(?![A-Za-z])", r"\\log_{10}"),
)

_BASES = {word: base for base, word in enumerate(TABLES["numbers"]["ones"].split()[:17]) if base > 1}
_BASES |= TABLES["numbers"]["bases"]
_BASE = rf"\d{{1,2}}|{'|'.join(sorted(_BASES, key=len, reverse=True))}"
_FONT = r"\\(?:text|mathrm|mbox|textrm)\s?\{"
_NAMED_BASE = rf"(?:base[\s-]?)?\(?({_BASE})\)?\s?"


def _based(match: re.Match[str]) -> str:
    numeral, base = (group for group in match.groups() if group)
    return f"{numeral}_{{{_BASES.get(base, base)}}}"


_NUMERALS = compiled(
    (
        r"(?a)(?<![\w}])\(?([0-9A-F]{1,256}|\d[0-9A-Fa-f]{0,255})\)?(?:\s|\\[,;: ]){0,4}(?:"
        rf"_\s?(?:\{{\s?{_FONT}\s?{_NAMED_BASE}\}}\s?\}}|\{{\s?{_FONT}\s?base\s?\}}\s?({_BASE})\s?\}}"
        rf"|\{{\s?{_NAMED_BASE}\}}|{_FONT}\s?{_NAMED_BASE}\}}|{_NAMED_BASE})"
        rf"|\(?(?:{_FONT})?\s?\(?(?:in\s)?base[\s-]{{0,2}}\}}?\s{{0,2}}(?:_?\{{)?"
        rf"(?:{_FONT})?({_BASE})\)?\s?\}}{{0,2}}\)?)"
        r"(?![\w^])",
        _based,
    ),
    (
        r"(?a)(?<![\d.])(\d{0,15}\.\d{0,15})\\dot\s?\{?(\d)\}?(?:(\d{0,15})\\dot\s?\{?(\d)\}?)?(?![\d\\])",
        r"\1\\overline{\2\3\4}",
    ),
    (r"(?a)(?<![\d.])(\d{1,15}\.\d{0,15})\((\d{1,15})\)(?![\w^({!])", r"\1\\overline{\2}"),
)


def composed(text: str) -> str:
    """The text with one code point for each letter: an e followed by an accent becomes é."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def plain_signs(text: str) -> str:
    """The text in ASCII and commands, where its signs have such a spelling; letters stay."""
    return text if text.isascii() else replaced(_COMBINED, text).translate(SIGNS)


def unify(text: str) -> str:
    """The text with one spelling for each sign, command and numeral."""
    text = plain_signs(text)
    if "\\" in text:
        text = replaced(_COMMANDS, text)
    # Most texts have no mark of a base and no digits that repeat, and the search for them is slow.
    return replaced(_NUMERALS, text) if any(mark in text for mark in ("_", "base", "\\dot", "(")) else text
