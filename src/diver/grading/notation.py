r"""A formula as math-verify should read it: `2**3` is `2^{3}`, `C_5^2` is `\binom{5}{2}`.

math-verify takes these for different answers, or for something else. Linear in the length of the text.
"""

import re

from diver.grading.measures import unit_free
from diver.grading.names import with_backslashes
from diver.grading.spelling import compiled, replaced, unify

_N = r"(?:\{\s?(\d{1,3})\s?\}|(\d))"
_CHOICE = r"(?:\\(?:mathrm|text|rm)\s?\{([CAP])\}|(?<![A-Za-z\\])([CAP])(?!\}))"
_APPROXIMATELY = r"\\approx|\\sim(?:eq)?|\\cong|\\doteq|~|大?[约約](?:为|為|等于|等於)?|[Cc]a\."


def _chosen(match: re.Match[str]) -> str:
    """The number of combinations, C, or of permutations, A or P."""
    kind, *numbers = filter(None, match.groups())
    n, k = map(int, numbers)
    if k > n:
        return match[0]
    return rf"\binom{{{n}}}{{{k}}}" if kind == "C" else rf"\frac{{{n}!}}{{{n - k}!}}"


def _remainder(match: re.Match[str]) -> str:
    base, exponent, modulus = int(match[1]), int(match[2] or 1), int(match[3])
    return str(pow(base, exponent, modulus)) if modulus else match[0]


def _repeating(decimal: re.Match[str]) -> str:
    """0.1\\overline{6} as 16 - 1 over 90."""
    integer, prefix, period = decimal.groups()
    top = int(integer + prefix + period) - int(integer + prefix or 0)
    return rf"\frac{{{top}}}{{{(10 ** len(period) - 1) * 10 ** len(prefix)}}}"


_MEANING = compiled(
    (rf"{_CHOICE}\s?_\s?{_N}\s?\^\s?{_N}", _chosen),
    (
        r"^(-?\d{1,18})(?:\^\s?\{?(\d{1,6})\}?)?\s{0,4}"
        r"(?:\\b?mod(?![A-Za-z])|\\text\{\s?mod\s?\}|mod)\s{0,4}\{?(\d{1,9})\}?(?=\s{0,4}(?:=|$))",
        _remainder,
    ),
    (r"(?<!\d)(\d{0,15})\.(\d{0,15})\\(?:overline|bar)\s?\{?(\d{1,15})\}?", _repeating),
    (r"(?<=[\w)\]}])(?:\*\*\s*|\s\*\*\s+)(\([^()]*\)|-?(?:\w+(?:\.\d+)?|\.\d+))", r"^{\1}"),  # Python's power
    (r"√\s*(\d+|[A-Za-z]|\([^()]*\))", r"\\sqrt{\1}"),
    # math-verify reads only the 5 of "5 \text{ and } 6".
    (r",?\s{0,4}\\text\{\s{0,4},?\s{0,4}(?:and|or)\s{0,4}\}", ", "),
    (rf"^\s{{0,4}}(?:{_APPROXIMATELY})(?![A-Za-z])", ""),
    (r"^([A-Za-z](?:_\w)?(?:\([^()]{1,20}\))?)\s{0,4}\\approx(?![A-Za-z])(?=[^=]*$)", r"\1 ="),
)


def box(content: str) -> str:
    return rf"\boxed{{{content}}}"


def content_of(text: str) -> str:
    """What a box or a formula holds."""
    return (text[7:-1] if text.startswith(r"\boxed{") else text.strip().strip("$")).strip()


def respell(text: str) -> str:
    """The text, or its content if it is a box, as math-verify should read it."""
    boxes, start, end = 0, 0, len(text)
    while text.startswith(r"\boxed{", start, end) and text.endswith("}", start, end):
        boxes, start, end = boxes + 1, start + len(r"\boxed{"), end - 1
    text = unify(text[start:end]).strip().rstrip("\\").rstrip()
    if boxes:
        text = with_backslashes(unit_free(text))
    text = replaced(_MEANING, text).strip().rstrip(".")
    return r"\boxed{" * boxes + text + "}" * boxes
