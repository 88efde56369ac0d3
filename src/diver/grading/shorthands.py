r"""Shorthands that math-verify does not know or reads as something else.

C_5^2, {}_5C_2            \binom{5}{2}
A_5^2, P_5^2, {}_5P_2     \frac{5!}{3!}
17 \bmod 5                2
f''(2), y', P(X=2)        names of their own: math-verify leaves out the primes, and the P
A^T, A^{\top}             a name of its own: math-verify leaves out the T
E[X^2], f^{-1}(x)         names of their own: math-verify reads E[X]^2 and 1/f(x)
\Delta, \vec{x}_1         names of their own: math-verify reads \delta, and leaves out the index
\sim p                    \neg p
\hat{i}, \mathbf{j}       \vec{i}, \vec{j}

Linear in the length of the text.
"""

import re
from collections.abc import Callable

from diver.grading.spelling import compiled

_N = r"(?:\{\s?(\d{1,3})\s?\}|(\d))"
_CHOICE = r"(?:\\(?:mathrm|text|rm)\s?\{([CAP])\}|(?<![A-Za-z\\])([CAP])(?!\}))"
_FACTOR = re.compile(r"(?:[0-9)}\]]|(?<![\\A-Za-z])[A-Za-z])\s?\Z")
_PRIME = r"(?:'|’|\^\s?\{\s?(?:\\prime\s?)+\}|\^\s?\\prime)"
_EVENT = r"(?:=|<|>|\\[lg]eq|\\neq|\\mid|\||\\cap|\\cup|\\in(?![A-Za-z])|,)"


def arrangements(kind: str, n: int, k: int) -> str:
    """The number of combinations, C, or of permutations of `k` out of `n`."""
    return rf"\binom{{{n}}}{{{k}}}" if kind == "C" else rf"\frac{{{n}!}}{{{n - k}!}}"


def _chosen(order: str) -> Callable[[re.Match[str]], str]:
    """The replacement of a match whose groups hold, in this order, C or A or P (`c`), `n` and `k`."""

    def written(found: re.Match[str]) -> str:
        parts = dict(zip(order, filter(None, found.groups()), strict=True))
        n, k = int(parts["n"]), int(parts["k"])
        if k > n:
            return found[0]
        times = r"\cdot " if _FACTOR.search(found.string, max(0, found.start() - 3), found.start()) else ""
        return times + arrangements(parts["c"], n, k)

    return written


def _remainder(found: re.Match[str]) -> str:
    base, exponent, modulus = int(found[1]), int(found[2] or 1), int(found[3])
    return str(pow(base, exponent, modulus)) if modulus else found[0]


def _primed(found: re.Match[str]) -> str:
    primes = found[2].count("'") + found[2].count("’") + found[2].count("prime")
    return f"{found[1]}_{{{'prime' * primes}}}"


def _named(letter: str) -> Callable[[re.Match[str]], str]:
    """The replacement of a probability or a mean: a name made of its event."""
    return lambda found: f"{letter}_{{{_letters(found[1])}}}"


def _indexed_vector(found: re.Match[str]) -> str:
    letter, index = (group for group in found.groups() if group)
    return f"{letter}_{{vector{_letters(index)}}}"


def _letters(text: str) -> str:
    """The text as a part of a name: its signs by their numbers."""
    plain = "".join(text.split()).replace("\\", "")
    return "".join(sign if sign.isalnum() else f"q{ord(sign)}q" for sign in plain)


SHORTHANDS = compiled(
    (rf"{_CHOICE}\s?_\s?{_N}\s?\^\s?{_N}", _chosen("cnk")),
    (rf"{_CHOICE}\s?\^\s?{_N}\s?_\s?{_N}", _chosen("ckn")),
    (rf"(?<![\w}}])(?:\{{\}}\s?)?[_^]\s?{_N}\s?{_CHOICE}\s?_\s?{_N}", _chosen("nck")),
    (r"^(\d{1,3})([CP])(\d{1,3})$", _chosen("nck")),
    (
        r"^(-?\d{1,18})(?:\^\s?\{?(\d{1,6})\}?)?\s{0,4}"
        r"(?:\\b?mod(?![A-Za-z])|\\text\{\s?mod\s?\}|mod)\s{0,4}\{?(\d{1,9})\}?(?=\s{0,4}(?:=|$))",
        _remainder,
    ),
    (r"(?<=[\d)])!=(?=\s{0,4}[-\d(\\])", "! ="),
    # No apostrophe, as in o'clock and it's.
    (
        rf"(?<![\\'])(?<![A-Za-z]{{2}})([A-Za-z])({_PRIME}{{1,4}})(?![a-z]{{3}}|(?:s|m|re|ve|ll|d|t)(?![A-Za-z]))",
        _primed,
    ),
    (
        r"(?<!\\)(?<![A-Za-z]{2})([A-Z])\s?\^\s?(?:T|\{\s?(?:T|\\top|\\intercal)\s?\}|\\(?:top|intercal)(?![A-Za-z]))",
        r"\1_{transposed}",
    ),
    (
        rf"(?<![A-Za-z])(?:\\mathbb\s?\{{\s?P\s?\}}|\\Pr|(?<!\\)P|\\operatorname\{{P\}}|\\(?:mathrm|text)\{{P\}})\s?"
        rf"(?:\\left)?\(([^()=<>|\\]{{1,40}}{_EVENT}[^()]{{1,60}}?)(?:\\right)?\)(?=\s{{0,4}}(?:=|\\approx))",
        _named("P"),
    ),
    (
        r"(?<![A-Za-z])(?:\\mathbb\s?\{\s?E\s?\}|(?<!\\)E|\\operatorname\{E\}|\\(?:mathrm|text)\{E\})\s?"
        r"(?:\\left\s?)?\[([^\[\]]{1,60}?)(?:\\right\s?)?\]",
        _named("E"),
    ),
    (r"(?<![A-Za-z\\])([fghFGH])\s?\^\s?\{\s?-\s?1\s?\}(?=\s?(?:\\left\s?)?\()", r"\1_{inverse}"),
    (r"\\(Gamma|Delta|Theta|Lambda|Xi|Sigma|Phi|Psi)(?![A-Za-z])(?!\s?(?:\\left\s?)?\()", r"X_{capital\1}"),
    (r"\\sim\s?(?=[a-zP-S](?![A-Za-z]))", r"\\neg "),
    (
        r"\\(?:hat|vec|mathbf|textbf|mathit|overrightarrow)\s?"
        r"(?:\{\s?([A-Za-z])\s?\}\s?_\s?\{([^{}]{1,30})\}|\{\s?([A-Za-z])\s?_\s?\{([^{}]{1,30})\}\s?\})",
        _indexed_vector,
    ),
    (
        r"\\(?:hat|vec|mathbf|textbf|mathit|overrightarrow|bar)\s?"
        r"(?:\{\s?(?:\\(?:hat|mathbf|textbf|vec)\s?)?\{?\s?([ijk])\s?\}{1,2}|([ijk])(?![A-Za-z]))",
        r"\\vec{\1\2}",
    ),
)
