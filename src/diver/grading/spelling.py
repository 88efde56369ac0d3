r"""One spelling for signs, commands and numerals, by the tables of notation.toml.

`²` is `^{2}`, `½` is `\frac{1}{2}`, `\varnothing` is `\emptyset`, `\operatorname{sin} x` is `\sin x`. A numeral has its
base as a number below, and an overline over the digits that repeat:

1231_{\text{five}}, 1231 \text{ base } 5, (1231)_5       1231_{5}
0.1\dot{6}, 0.1(6), 0.1666\ldots                         0.1\overline{6}
x_{\text{max}}, M_{\odot}, x^{*}                         x_{max}, M_{odot}, x_{uppercdot}

math-verify takes most of these for different answers, or for something else. Linear in the length of the text.
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diver.grading.arguments import with_braces
from diver.grading.brackets import closing

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
    ("[₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙₖ]+", lambda run: f"_{{{unicodedata.normalize('NFKC', run[0])}}}"),
    (r"(?![0-9])\d", lambda digit: str(unicodedata.decimal(digit[0]))),
    ("(?:[0-9]\u0305)+", lambda run: rf"\overline{{{run[0].replace(chr(0x305), '')}}}"),
    ("([0-9])\u0307", r"\\dot{\1}"),
)

_SYNONYMS = {"\\" + name: spelling for spelling, names in TABLES["commands"].items() for name in names.split()}
_COMMANDS = compiled(
    (r"\\not\s?(?:=|\\(?:approx|sim|equiv)(?![A-Za-z]))", r"\\neq "),
    (r"\\(?:tiny|small|normalsize|[lL]arge|LARGE|[hH]uge|(?:text|display)style|bf|rm|sf|it)(?![A-Za-z])\s*", ""),
    (r"\\[bB]igg?[lrm]?(?![A-Za-z])|\\[hm]space\*?\{[^{}]*\}", ""),
    (
        r"\\(?:text)?color\{\w{1,20}\}|\\underline(?=\s*\{)"
        r"|\\(?:checkmark|square|blacksquare|pounds|euro|yen|text(?:euro|sterling|yen))(?![A-Za-z])",
        "",
    ),
    (r"\\q?quad(?![A-Za-z])", " "),
    (r"\\overset\s?\{\s?\.\s?\}\s?\{(\d)\}", r"\\dot{\1}"),
    (r"(?<=\d)\{:\}(?=\d)", ":"),
    (r"\\(?:text|mathrm|mbox)\{\s?\\\$\s?\}(?=\s?\d)", r"\\$"),
    (r"\\operatorname\*?\{(arc(?:sin|cos|tan)|sinh?|cosh?|tanh?|cot|sec|csc|ln|log|exp|gcd)\}\s*", r"\\\1 "),
    (r"\\(?:mathrm|text)\{(arc(?:sin|cos|tan)|sin|cos|tan|ln|log|exp)\}\s*", r"\\\1 "),  # min and sec are units
    (r"\\(?:mathrm|text)\{([ei])\}", r" \1"),
    (r"\\mathbb\s*([A-Z])(?![A-Za-z])", r"\\mathbb{\1}"),
    (
        r"(?<![\d.,^_])\d{1,3}(?:(?: |\u00a0|\u2009|\u202f|\\,|\{,\}|,\\!\s?)\d{3})+(?!\d)",
        lambda number: re.sub(r"\D", "", number[0]),
    ),
    (r"\\[A-Za-z]+", lambda command: _SYNONYMS.get(command[0], command[0])),
)
_SPELLINGS = compiled(
    (r"\^ ?- ?(\d{1,60}(?:\.\d{1,60})?|[A-Za-z]|\\frac\{[^{}]{1,40}\}\{[^{}]{1,40}\})(?![\d.]|\s?\^)", r"^{-\1}"),
    (r"(?<=\d)\s?[xX]\s?(?=10\s?\^)", r" \\times "),
    (r"\\(begin|end)\{smallmatrix\}", r"\\\1{pmatrix}"),
    (r"\\lg(?![A-Za-z])", r"\\log_{10}"),
    (r"(?<=\d)\s?(?:\^\s?\{?o\}?|(?<!\^)\\circ)(?![A-Za-z}])", r"^{\\circ}"),
)

_BASES = {word: base for base, word in enumerate(TABLES["numbers"]["ones"].split()[:17]) if base > 1}
_BASES |= TABLES["numbers"]["bases"]
_BASE = rf"\d{{1,2}}|{'|'.join(sorted(_BASES, key=len, reverse=True))}"
_AROUND = re.compile(  # a font or braces around a formula, but not around words, the letter of a vector or a set
    r"[\s$]*(?:\\(?:mathbf|mathit)\s?|\\(?:text(?:bf|it|rm|normal)?|mathrm|mbox)\s?(?![^\\]*[^\W\d_]{2})"
    r"|(?!\{[^()\[\]{}]*,))"
    r"\{(?=[^{}]*[^}A-Za-z])(?!.*\\(?:over|choose)(?![A-Za-z]))"
)
_FONT = r"\\(?:text|mathrm|mbox|textrm)\s?\{"
_NAMED_BASE = rf"(?:base[\s-]?)?\(?({_BASE})\)?\s?"
_AGAIN = re.compile(r"(\d{0,26}?)(?:(\d)\2{2,}|(\d{2,6}?)\3{1,})", re.ASCII)


def _based(found: re.Match[str]) -> str:
    numeral, base = (group for group in found.groups() if group)
    return f"{numeral}_{{{_BASES.get(base, base)}}}"


def _continued(found: re.Match[str]) -> str:
    """0.1666\\ldots: one digit three times, or a few twice; 3.1415\\ldots stays."""
    again = _AGAIN.fullmatch(found[2])
    return rf"{found[1]}.{again[1]}\overline{{{again[2] or again[3]}}}" if again else found[0]


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
    (r"(?a)(?<![\d.])(\d{0,15})\.(\d{2,30})\s?(?:\\[lc]?dots(?![A-Za-z])|\.{3})(?!\d)", _continued),
)

_OPERATOR = r"\\(?:odot|oplus|otimes|star|perp|parallel|cdot|pm|mp|dagger|rightarrow|leftarrow)(?![A-Za-z])|[-+*]"
_OPERATORS = {"+": "plus", "-": "minus", "*": "cdot"}


def _index(found: re.Match[str]) -> str:
    """An operator as a part of a name: x_{+} is x_{plus}, x^{*} is x_{uppercdot}."""
    letter, sign = found["letter"] or "", found["braced"] or found["sign"]
    return f"{letter}_{{{'upper' * bool(letter)}{_OPERATORS.get(sign, sign[1:])}}}"


_INDICES = compiled(
    (r"(?<=\\log)\s?_\s?(10|\d)", r"_{\1}"),
    (r"_\s?([0-9]+|[A-Za-z])", r"_{\1}"),
    (rf"_\s?(?:\{{\s?{_FONT}\s?([\w ,]{{1,30}}?)\s?\}}\s?\}}|{_FONT}\s?([\w ,]{{1,30}}?)\s?\}})", r"_{\1\2}"),
    (rf"(?P<letter>)_\s?(?:\{{\s?(?P<braced>{_OPERATOR})\s?\}}|(?P<sign>{_OPERATOR}))", _index),
    (
        rf"(?<!\\)(?<![A-Za-z]{{2}})(?P<letter>[A-Za-z])\s?\^\s?"
        rf"(?:\{{\s?(?P<braced>{_OPERATOR})\s?\}}|(?P<sign>(?![-+]){_OPERATOR}))",
        _index,
    ),
)


def composed(text: str) -> str:
    """The text with one code for each letter: an e with an accent behind it is é."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def plain_signs(text: str) -> str:
    """The text in ASCII and commands, so far as its signs have such a spelling; letters stay."""
    return text if text.isascii() else replaced(_COMBINED, text).translate(SIGNS)


def unify(text: str) -> str:
    """The text with one spelling for each sign, command and numeral, and without braces or a font around it."""
    text = _inside(replaced(_COMMANDS, plain_signs(text)))
    return replaced(_SPELLINGS + _NUMERALS + _INDICES, with_braces(text))


def _inside(text: str) -> str:
    for _ in range(4):  # \mathbf{\text{5}} has two
        around = _AROUND.match(text)
        end = closing(text, around.end() - 1, "{}") if around else -1
        if not around or end < 0 or text[end + 1 :].strip(" $.,;"):
            break
        text = text[around.end() : end]
    return text
