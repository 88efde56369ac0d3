r"""One spelling for each sign: `²` is `^{2}`, `½` is `\frac{1}{2}`, and every digit of Unicode is one of 0 to 9.

Linear in the length of the text.
"""

import re
import unicodedata

SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ"
SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₙₖ"
MONEY = "£¤¥֏؋৲৳৻૱௹฿៛₠₡₢₣₤₥₦₧₨₩₪₫€₭₮₯₰₱₲₳₴₵₶₷₸₹₺₻₼₽₾₿﷼￡￥￦"
"""Signs of currencies but the dollar's, which LaTeX writes `\\$`, and the cent's, which is a hundredth."""

_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi _ pi rho _ sigma tau upsilon phi chi psi "
    "omega"
)
_OPERATORS = {
    "times": "×✕",
    "div": "÷",
    "cdot": "·⋅∙•",
    "pm": "±",
    "leq": "≤⩽≦",
    "geq": "≥⩾≧",
    "neq": "≠",
    "approx": "≈≃≅≒",
    "sim": "∼～",
    "equiv": "≡",
    "infty": "∞",
    "emptyset": "∅",
    "cup": "∪",
    "cap": "∩",
    "in": "∈",
    "setminus": "∖",
    "forall": "∀",
    "exists": "∃",
    "circ": "∘",
    "dots": "…",
    "theta": "ϑ",
    "phi": "ϕ",
    "wedge": "∧",
    "vee": "∨",
    "neg": "¬",
    "rightarrow": "→",
    "Rightarrow": "⇒",
}
SIGNS = str.maketrans(
    {chr(sign + 0xFEE0): chr(sign) for sign in range(0x21, 0x7B)}  # full-width characters, as in Chinese texts
    | {chr(0x3B1 + place): rf"\{name} " for place, name in enumerate(_GREEK.split()) if name != "_"}
    | {sign: rf"\{name} " for name, signs in _OPERATORS.items() for sign in signs}
    | {"ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}"}
    | dict.fromkeys("−–—‐‑‒―﹣", "-")
    | dict.fromkeys("⁄∕", "/")
    | dict.fromkeys("⟨〈", "(")
    | dict.fromkeys("⟩〉", ")")
    | dict.fromkeys("、،", ",")
    | dict.fromkeys("′ʹ", "'")
    | dict.fromkeys("°º˚", r"^{\circ}")
    | {
        "¢": r"\text{ cents}",
        "℃": r"^{\circ}C",
        "℉": r"^{\circ}F",
        "″": "''",
        "∗": "*",
        "。": ".",
        "٫": ".",
        "٬": ",",
        "＄": r"\$",
        "﹩": r"\$",
    }
    | dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff", "")
    | dict.fromkeys(MONEY, "")
    | {
        sign: rf"\frac{{{parts[0]}}}{{{parts[2]}}}"
        for sign, parts in ((s, unicodedata.normalize("NFKD", s).partition("⁄")) for s in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒")
    }
)
_DIGIT = re.compile(r"(?![0-9])\d")
_RAISED = re.compile(f"[{SUPERSCRIPTS}]+")
_LOWERED = re.compile(f"[{SUBSCRIPTS}]+")
_OVERLINED = re.compile("(?:[0-9]\u0305)+")
_DOTTED = re.compile("([0-9])\u0307")


def plain_signs(text: str) -> str:
    """The text in ASCII and commands, so far as its signs have such a spelling; letters stay."""
    if text.isascii():
        return text
    text = _RAISED.sub(lambda run: f"^{{{unicodedata.normalize('NFKC', run[0])}}}", text)
    text = _LOWERED.sub(lambda run: f"_{{{unicodedata.normalize('NFKC', run[0])}}}", text)
    text = _DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    text = _OVERLINED.sub(lambda run: rf"\overline{{{run[0].replace(chr(0x305), '')}}}", text)
    return _DOTTED.sub(r"\\dot{\1}", text).translate(SIGNS)
