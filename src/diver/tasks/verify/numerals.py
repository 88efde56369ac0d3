r"""One spelling for numerals: the base as a number below, `1231_{5}`, and an overline for the digits that repeat.

1231_{\text{five}}, 1231 \text{ base } 5, (1231)_5       1231_{5}
0.1\dot{6}, 0.1(6), 0.1666\ldots                         0.1\overline{6}

Linear in the length of the text.
"""

import re

_ENGLISH = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
_BASES = {word: number for number, word in enumerate(_ENGLISH.split()) if number > 1} | {
    "twenty": 20,
    "binary": 2,
    "ternary": 3,
    "octal": 8,
    "decimal": 10,
    "hexadecimal": 16,
    "hex": 16,
}
_BASE = rf"\d{{1,2}}|{'|'.join(sorted(_BASES, key=len, reverse=True))}"
_FONT = r"\\(?:text|mathrm|mbox|textrm)\s?\{"
_NAMED_BASE = rf"(?:base[\s-]?)?\(?({_BASE})\)?\s?"
_IN_WORDS = re.compile(
    r"(?<![\w}])\(?([0-9A-F]{1,256}|\d[0-9A-Fa-f]{0,255})\)?(?:\s|\\[,;: ]){0,4}(?:"
    rf"_\s?(?:\{{\s?{_FONT}\s?{_NAMED_BASE}\}}\s?\}}|\{{\s?{_FONT}\s?base\s?\}}\s?({_BASE})\s?\}}"
    rf"|\{{\s?{_NAMED_BASE}\}}|{_FONT}\s?{_NAMED_BASE}\}}|{_NAMED_BASE})"
    rf"|\(?(?:{_FONT})?\s?\(?(?:in\s)?base[\s-]{{0,2}}\}}?\s{{0,2}}(?:_?\{{)?(?:{_FONT})?({_BASE})\)?\s?\}}{{0,2}}\)?)"
    r"(?![\w^])",
    re.ASCII,
)
_DOTTED = re.compile(
    r"(?<![\d.])(\d{0,15}\.\d{0,15})\\dot\s?\{?(\d)\}?(?:(\d{0,15})\\dot\s?\{?(\d)\}?)?(?![\d\\])", re.ASCII
)
_BRACKETED = re.compile(r"(?<![\d.])(\d{1,15}\.\d{0,15})\((\d{1,15})\)(?![\w^({!])", re.ASCII)
_CONTINUED = re.compile(r"(?<![\d.])(\d{0,15})\.(\d{2,30})\s?(?:\\[lc]?dots(?![A-Za-z])|\.{3})(?!\d)", re.ASCII)
_AGAIN = re.compile(r"(\d{0,26}?)(?:(\d)\2{2,}|(\d{2,6}?)\3{1,})", re.ASCII)


def one_spelling(text: str) -> str:
    text = _IN_WORDS.sub(_based, text)
    text = _DOTTED.sub(lambda m: rf"{m[1]}\overline{{{m[2]}{m[3] or ''}{m[4] or ''}}}", text)
    return _CONTINUED.sub(_continued, _BRACKETED.sub(r"\1\\overline{\2}", text))


def _based(found: re.Match[str]) -> str:
    numeral, base = (group for group in found.groups() if group)
    return f"{numeral}_{{{_BASES.get(base, base)}}}"


def _continued(found: re.Match[str]) -> str:
    """0.1666\\ldots: one digit three times, or a few twice; 3.1415\\ldots stays."""
    again = _AGAIN.fullmatch(found[2])
    return rf"{found[1]}.{again[1]}\overline{{{again[2] or again[3]}}}" if again else found[0]
