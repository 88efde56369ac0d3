r"""One spelling for each notation: `\varnothing` is `\emptyset`, `\operatorname{sin} x` is `\sin x`, `1E3` is `1 \times 10^{3}`.

math-verify takes most of these for different answers, or for something else. Linear in the length of the text.
"""

import re
from collections.abc import Callable
from decimal import Decimal

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
        "(": "lparen langle",
        ")": "rparen rangle",
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
        re.compile(
            r"\\(?:text)?color\{\w{1,20}\}|\\underline(?=\s*\{)|\\(?:checkmark|square|blacksquare)(?![A-Za-z])|[€£]"
        ),
        "",
    ),
    (re.compile(r"\\q?quad(?![A-Za-z])"), " "),
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
    (
        re.compile(r"(?<![\d.,^_])\d{1,3}(?:(?: |\u00a0|\u2009|\u202f|\\,|\{,\}|,\\!\s?)\d{3})+(?!\d)"),
        lambda number: re.sub(r"\D", "", number[0]),
    ),
    (_COMMAND, lambda command: _SYNONYMS.get(command[0], command[0])),
    (re.compile(r"\\frac ?(\d) ?(\d)"), r"\\frac{\1}{\2}"),
]
_SIGNS = str.maketrans(
    {"−": "-", "–": "-", "×": r"\times ", "÷": r"\div ", "·": r"\cdot ", "π": r"\pi ", "θ": r"\theta ", "∞": r"\infty "}
    | {"≤": r"\leq ", "≥": r"\geq ", "⩽": r"\leq ", "⩾": r"\geq ", "≠": r"\neq ", "∪": r"\cup ", "∩": r"\cap "}
    | {"∈": r"\in ", "±": r"\pm ", "∅": r"\emptyset ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}"}
    | {chr(sign + 0xFEE0): chr(sign) for sign in range(0x21, 0x7B)}  # of full width, as in Chinese texts
    | {"、": ",", "\u200b": "", "—": "-", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "⁴": "^{4}"}
    | {"°": r"^{\circ}", "²": "^{2}", "³": "^{3}", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}"}
)


def _improper(mixed: re.Match[str]) -> str:
    """math-verify applies a per cent sign to the fraction of a mixed number alone."""
    whole, top, bottom = map(int, mixed.groups())
    return rf"\frac{{{whole * bottom + top}}}{{{bottom}}}"


def _decimal(product: re.Match[str]) -> str:
    """math-verify rounds a decimal, but not its product with a power of ten; beyond these, rounding would say too much."""
    digits, exponent = product[1], int(product[2])
    if -2 <= exponent <= 15 if "." in digits else "\\" not in product[0] and 0 <= exponent <= 60:
        return f"{Decimal(digits).scaleb(exponent):f}"
    return rf"{digits} \times 10^{{{exponent}}}"


def _evaluated(call: re.Match[str]) -> str:
    """math-verify takes the gcd of a power for that of two letters."""
    return _INTEGER_POWER.sub(lambda power: str(int(power[1]) ** int(power[2])), call[0])


def _repeating(decimal: re.Match[str]) -> str:
    """0.1\\overline{6} as 16 - 1 over 90."""
    whole, once, again = decimal.groups()
    top = int(whole + once + again) - int(whole + once or 0)
    return rf"\frac{{{top}}}{{{(10 ** len(again) - 1) * 10 ** len(once)}}}"


def _root(power: re.Match[str]) -> str:
    """math-verify leaves 2^{0.5} a decimal."""
    sign, whole, digits = power.groups()
    return rf"^{{{sign}\frac{{{int(whole + digits)}}}{{{10 ** len(digits)}}}}}"


def _capitals(words: re.Match[str]) -> str:
    return re.sub(r"\s*(?:,\s*and\b|,|\band\b)\s*", ", ", words[1])


_INTEGER_POWER = re.compile(r"(?<!\w)(\d{1,6})\s?\^\s?\{?(\d{1,2})(?!\d)\}?")
_PART_END = r"(?=\s{0,4}(?:[,;)\]]|\\[})\]]|(?:and|or)\b|\Z))"
_TEXT = r"\\(?:text|mathrm|mbox)"
_NO_UNIT = "and|or|to|base|if|for|when|hundred|thousand|million|billion|trillion|dozen|percent|pct"
_UNIT = rf"{_TEXT}\{{\s{{0,4}}(?!(?:{_NO_UNIT})\b)[A-Za-z][A-Za-z /.]{{0,40}}\}}(?:\^\{{?-?\d\}}?)?"
_MEANING: _Rules = [
    (re.compile(r"(?<![A-Za-z\\])([Ee])_"), r"\\mathcal{\1}_"),  # a name, and not the base of the logarithm
    # A letter behind something else is a vector, and no unit: math-verify would leave it out.
    (re.compile(r"(?<=[\w)}\s+-])\\(?:mathbf|textbf|mathit|hat)\{([A-Za-z])\}"), r"\\vec{\1}"),
    (re.compile(r"^\\(?:text|mathrm)\{\s*([A-Z](?:\s*(?:,\s*and\b|,|\band\b)\s*[A-Z])+)\s*\}$"), _capitals),
    (re.compile(r"^\\text(?:bf)?\{\s*\([A-J]\)\s*\}(?:\s|~|\\[,;: ])*(?=\S)"), ""),  # the label of a choice
    (
        re.compile(
            r"^(?:\\text\{[^{}]{0,40}\b(?:answer|total|about|approximately)\b[^{}]{0,20}\}|=|\\therefore(?![A-Za-z]))\s*(?=\S)",
            re.IGNORECASE,
        ),
        "",
    ),
    (re.compile(r"^(?:\\text\{\s*)?[Aa]ll real numbers\s*\}?$"), r"\\mathbb{R}"),
    (re.compile(r"^(?:\\text\{\s*)?[Nn]o (?:real )?solutions?\s*\}?$"), r"\\emptyset"),
    (re.compile(r"(?<!\d)(\d{0,15})\.(\d{0,15})\\(?:overline|bar)\s?\{?(\d{1,15})\}?"), _repeating),
    (re.compile(r"\^\{?(-?)(\d{0,3})\.(\d{1,6})\}?(?!\d)"), _root),
    (re.compile(r"√\s*(?=\{)"), r"\\sqrt"),
    (re.compile(r"√\s*(\d+|[A-Za-z]|\([^()]*\))"), r"\\sqrt{\1}"),
    (re.compile(r"^\\(?:text|mathrm)\{\s*([-$\d][^{}]*)\}$"), r"\1"),
    (re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(?:[eE]| ?\\(?:times|cdot) ?10\^\{?)([+-]?\d{1,9})(?![\w.])\}?"), _decimal),
    (re.compile(r"\\(?:gcd|lcm|operatorname\{lcm\})\s?\([^()]{0,200}\)"), _evaluated),
    (re.compile(r"(?<![\d.])(\d{1,18}) ?\\frac\{(\d{1,18})\}\{(\d{1,18})\}(?=\\?%)"), _improper),
    (re.compile(r"(?<![\w.,/^_)\]])(\d{1,9})\s{1,4}(\d{1,9})/(\d{1,9})(?![\w/^.{(])"), r"\1\\frac{\2}{\3}"),
    (re.compile(r"_\{\s*\\(?:max|min|sup|inf|lim)\s*\}"), lambda m: m[0].replace("\\", "")),  # a name, no operator
    (re.compile(r"(?<![\w)\]}])\*\*(?=[^\s*])([^*\n]*[^\s*])\*\*(?![\w(])"), r"\1"),  # Markdown's emphasis
    (re.compile(r"(?<=[\w)\]}])(?:\*\*\s*|\s\*\*\s+)(\([^()]*\)|-?\w+)"), r"^{\1}"),  # Python's power
    (
        re.compile(r"^(-?\\?\$?[\d.,/]+) ++(?!.*(?:hundred|thousand|[mbr]illion|dozen|percent))[a-z]{3,}(?: [a-z]+)*$"),
        r"\1",
    ),
    # Of "5 \text{ cm}, 6 \text{ cm}" and of "5 \text{ cats and } 6 \text{ dogs}" math-verify takes the 5.
    (re.compile(r",?\s{0,4}\\text\{\s{0,4},?\s{0,4}(?:and|or)\s{0,4}\}"), ", "),
    (re.compile(r"\\text\{([^{}]{1,40}?)\s{1,4}(?:and|or)\s{0,4}\}"), r"\\text{\1}, "),
    (
        re.compile(
            rf"(?:(?<=\d)|(?<=\d\}}))(?:\s|~|\\[,;: ]){{0,4}}{_UNIT}(?:(?:\s|\\[,;: ]|\\cdot|/){{0,4}}{_UNIT}){{0,3}}{_PART_END}"
        ),
        "",
    ),
    (re.compile(rf"(?<=\d)(?:\s{{0,4}}(?:[cdkm]m|ft|in|yd|mi)|\s{{1,4}}m)\s?\^\{{?[23]\}}?{_PART_END}"), ""),
    (re.compile(r"^\\\{\s*[A-Za-z]\s*(?:\\in\s*\\mathbb\{R\}\s*)?[|:](.*(?:[<>]|\\[lg]eq).*)\\\}$"), r"\1"),
    (re.compile(r"^\s*\\approx(?![A-Za-z])"), ""),
]
_LISTED = re.compile(r",\s|;|\b(?:and|or)\b")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")


POWERS_OF_TEN = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12}
"""Counts in words."""


def box(content: str) -> str:
    return rf"\boxed{{{content}}}"


def content_of(text: str) -> str:
    """What a box or a formula holds."""
    return (text[7:-1] if text.startswith(r"\boxed{") else text.strip().strip("$")).strip()


def unify(text: str) -> str:
    """The text with one name for each command and sign."""
    return _replace(_SPELLING, text.translate(_SIGNS))


def respell(text: str) -> str:
    """The text, or the content of the box that it is, as math-verify should read it."""
    boxes, start, end = 0, 0, len(text)
    while text.startswith(r"\boxed{", start, end) and text.endswith("}", start, end):
        boxes, start, end = boxes + 1, start + len(r"\boxed{"), end - 1
    text = _replace(_MEANING, unify(text[start:end]).strip()).strip().rstrip(".")
    text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text) if _LISTED.search(text) else text
    return r"\boxed{" * boxes + text + "}" * boxes


def _replace(rules: _Rules, text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text
