r"""One spelling for each notation: `\varnothing` is `\emptyset`, `\operatorname{sin} x` is `\sin x`, `1E3` is `1 \times 10^{3}`.

math-verify takes most of these for different answers, or for something else. Linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SYNONYMS = {
    "\\" + name: spelling
    for spelling, names in {
        r"\emptyset": "varnothing",
        r"\frac": "dfrac tfrac cfrac",
        r"\binom": "dbinom tbinom",
        r"\leq": "le leqslant",
        r"\geq": "ge geqslant",
        r"\neq": "ne",
        "<": "lt",
        ">": "gt",
        r"\cdot": "ast",
        r"\{": "lbrace",
        r"\}": "rbrace",
        "(": "lparen",
        ")": "rparen",
        "|": "mid lvert rvert vert",
        r"\infty": "infin",
        r"\in": "isin",
        r"\cup": "bigcup",
        r"\cap": "bigcap",
        r"\setminus": "smallsetminus backslash",
        r"\wedge": "land",
        r"\vee": "lor",
        r"\neg": "lnot",
        r"\rightarrow": "to",
        r"\Rightarrow": "implies",
        r"\Leftrightarrow": "iff",
        r"\dots": "ldots cdots dotsc dotsb",
        r"\mathbb{R}": "R Reals reals",
        r"\mathbb{Z}": "Z",
        r"\mathbb{N}": "N",
        r"\mathbb{Q}": "Q",
        r"\mathbb": "Bbb",
        r"\mathbf": "boldsymbol bm mathsf",
        r"^{\circ}": "degree",
        r"\tan": "tg",
        r"\cot": "ctg",
        r"\arctan": "arctg",
        r"\epsilon": "varepsilon",
        r"\phi": "varphi",
        r"\theta": "vartheta",
        r"\rho": "varrho",
        "i": "imath",
    }.items()
    for name in names.split()
}
_COMMAND = re.compile(r"\\[A-Za-z]+")
_Rules = list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]]
_SPELLING: _Rules = [
    (re.compile(r"\\[bB]igg?[lrm]?(?![A-Za-z])|\\[hm]space\*?\{[^{}]*\}"), ""),
    (
        re.compile(r"\\operatorname\*?\{(arc(?:sin|cos|tan)|sinh?|cosh?|tanh?|cot|sec|csc|ln|log|exp|gcd)\}\s*"),
        r"\\\1 ",
    ),
    (
        re.compile(r"\\(?:mathrm|text)\{(arc(?:sin|cos|tan)|sin|cos|tan|ln|log|exp)\}\s*"),
        r"\\\1 ",
    ),  # min and sec are units
    (re.compile(r"\\(?:mathrm|text)\{([ei])\}"), r" \1"),
    (re.compile(r"\\mathbb\s*([A-Z])(?![A-Za-z])"), r"\\mathbb{\1}"),
    (_COMMAND, lambda command: _SYNONYMS.get(command[0], command[0])),
]
_SIGNS = str.maketrans(
    {"−": "-", "–": "-", "×": r"\times ", "÷": r"\div ", "·": r"\cdot ", "π": r"\pi ", "θ": r"\theta ", "∞": r"\infty "}
    | {"≤": r"\leq ", "≥": r"\geq ", "⩽": r"\leq ", "⩾": r"\geq ", "≠": r"\neq ", "∪": r"\cup ", "∩": r"\cap "}
    | {"∈": r"\in ", "±": r"\pm ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}"}
    | {"°": r"^{\circ}", "²": "^{2}", "³": "^{3}", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}"}
)


def _improper(mixed: re.Match[str]) -> str:
    """math-verify applies a per cent sign to the fraction of a mixed number alone."""
    whole, top, bottom = map(int, mixed.groups())
    return rf"\frac{{{whole * bottom + top}}}{{{bottom}}}"


_MEANING: _Rules = [
    (re.compile(r"√\s*(\d+|[A-Za-z]|\([^()]*\))"), r"\\sqrt{\1}"),
    (re.compile(r"^\\(?:text|mathrm)\{\s*([-$\d][^{}]*)\}$"), r"\1"),
    (re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([+-]?\d+)(?!\w)"), r"\1 \\times 10^{\2}"),  # else e is Euler's number
    (re.compile(r"(?<![\d.])(\d{1,18}) ?\\frac\{(\d{1,18})\}\{(\d{1,18})\}(?=\\?%)"), _improper),
    (re.compile(r"_\{\s*\\(?:max|min|sup|inf|lim)\s*\}"), lambda m: m[0].replace("\\", "")),  # a name, no operator
    (re.compile(r"\*\*\s*(\([^()]*\)|-?\w+)"), r"^{\1}"),
    (
        re.compile(r"^(-?\\?\$?[\d.,/]+) ++(?!.*(?:hundred|thousand|[mbr]illion|dozen|percent))[a-z]{3,}(?: [a-z]+)*$"),
        r"\1",
    ),
]


def unify(text: str) -> str:
    """The text with one name for each command and sign."""
    return _replace(_SPELLING, text.translate(_SIGNS))


def respell(text: str) -> str:
    """The text as math-verify should read it."""
    return _replace(_MEANING, unify(text))


def _replace(rules: _Rules, text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text
