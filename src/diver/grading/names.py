r"""Names as they are written outside LaTeX: `exp(16)`, `sqrt(3)`, `log2(8)`, `3*pi`, `-oo`, `nCr(5,2)`.

For the content of a box or of dollars, where a name is no word of a sentence. Linear in the length of the text.
"""

import re

from diver.grading.brackets import closing, outer_parts
from diver.grading.spelling import TABLES

_OTHERS = {name: spelling for spelling, names in TABLES["names"].items() for name in names.split()}
_NAMES = {name: "\\" + name if spelling == "same" else spelling for name, spelling in _OTHERS.items()}
_CALLED = frozenset("max min sec det gcd".split())  # without a parenthesis: a unit or an index
_ANY = "|".join(sorted(_NAMES, key=len, reverse=True))
_PLAIN = re.compile(
    r"\\(?:text[a-z]*|math[a-z]*|operatorname\*?|mbox|begin|end)\s?\{[^{}]*\}|_\{[a-z]{2,20}\}"
    rf"|(?<![A-Za-z\\])(?P<name>{_ANY})(?![A-Za-z0-9])"
    r"|(?<![A-Za-z\\])(?P<glued>sin|cos|tan|ln|log)(?=[xyz](?![A-Za-z]))|(?<![A-Za-z\\])(?P<before>ln)(?=\d)"
)
_CALL = re.compile(
    r"(?<![A-Za-z\\])(?P<name>sqrt|cbrt|abs|floor|ceil|factorial|binom|binomial|comb|nCr|nPr|perm|log)\s?\("
)
_ROOT = re.compile(r"(?<![A-Za-z\\])(sqrt|frac|binom)(?=\s?\{)|(?<![A-Za-z\\])sqrt\s?(?P<number>\d+|[a-z](?![a-z]))")
_COMMA = re.compile(r"[()\[\]{}]|(?P<separator>,)")
MOST_CALLS = 64  # calls in one formula; each is read up to the end of its parentheses


def with_backslashes(text: str) -> str:
    r"""The formula with LaTeX's names: `exp(16) - 1` becomes `\exp(16) - 1`."""
    text = _ROOT.sub(lambda m: rf"\sqrt{{{m['number']}}}" if m["number"] else "\\" + m[1], _called(text))
    return _PLAIN.sub(_with_backslash, text)


def _with_backslash(match: re.Match[str]) -> str:
    name = match["name"] or match["glued"] or match["before"]
    if not name or (name in _CALLED and not match.string.startswith("(", match.end())):
        return match[0]
    return _NAMES[name] + ("" if match.string.startswith(("(", "^", "_", "{", "**"), match.end()) else " ")


def _called(text: str) -> str:
    """The text with calls of one or two arguments in LaTeX, the inner ones first."""
    calls = list(_CALL.finditer(text))[:MOST_CALLS]
    for call in reversed(calls):
        end = closing(text, call.end() - 1, "()")
        if end < 0:
            continue
        arguments = [argument.strip() for argument in outer_parts(text[call.end() : end], _COMMA)]
        template = TABLES["calls"].get(str(len(arguments)), {}).get(call["name"])
        if template:
            text = text[: call.start()] + template.format(*arguments) + text[end + 1 :]
    return text
