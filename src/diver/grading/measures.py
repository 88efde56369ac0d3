r"""Units and currencies around a number, in the languages that answers come in.

`30元`, `5 км`, `64in`, `12 \text{ €}` and `\text{Rs. } 12` are their numbers, as `12 \text{ km}` is to math-verify.
`3万` is 30000. Linear in the length of the text.
"""

import re

from diver.grading.spelling import GAP, TABLES, TEXT, compiled, replaced

_NUMBERS = TABLES["numbers"]
COUNTS = frozenset(_NUMBERS["counts"].split())
"""Words after a number that are not its unit."""
_FOREIGN_POWERS = {w: power for power, words in _NUMBERS["foreign_powers_of_ten"].items() for w in words.split()}

_ENDS = r"(?=\s{0,4}(?:[.,;)\]]|\Z))"
_FOREIGN = "[\u0400-\u1fff\u2c00-\u2dff\u3005-\u3007\u3040-\ud7ff\uf900-\ufaff]"
_FOREIGN_WORDS = rf"(?:{_FOREIGN}|[\s./](?={_FOREIGN})){{1,24}}"
_COUNT = "|".join(sorted(_FOREIGN_POWERS, key=len, reverse=True))
_CODES = "|".join(TABLES["currencies"]["codes"].split())
_SURE = "|".join(sorted(TABLES["units"]["sure"].split(), key=len, reverse=True))


def _counted(match: re.Match[str]) -> str:
    return f" \\times 10^{{{_FOREIGN_POWERS[match['count']]}}}" if match["count"] else ""


_UNITS = compiled(
    (rf"{TEXT}\s?\{{(\s*{_FOREIGN}[^{{}}]*)\}}", r"\1"),
    (
        r"(?<=[0-9A-Za-z)}\]])\s{0,4}(?:(?:或者|或是|或|以及|和|与|與|及|または|および|또는|그리고)\s{0,4}"
        r"|\s(?:или|и|oder|und|ou|et)\s{1,4})(?=[-0-9A-Za-z\\(\[{√])",
        ", ",
    ),
    (
        rf"(?<=[\d}}]){GAP}(?!分之|或|和|与|與|及|以|但|不|非|или|либо|или|но|не|और|या)"
        # 千克 and 千米 are a kilogram and a kilometre
        rf"(?:(?P<count>(?![千百][克米瓦帕卡焦赫伏升分])(?:{_COUNT}))(?:{_FOREIGN_WORDS})?|{_FOREIGN_WORDS})"
        rf"(?:\^\{{[23]\}})?{_ENDS}",
        _counted,
    ),
    (rf"(?<![A-Za-z\\])(?:[A-Z]{{1,2}}(?=\\\$\s?\d)|(?:RM|Rp|Tk|kr|CN|Rs)\.?{GAP}(?=\d))", ""),  # before a price
    (
        rf"(?<![A-Za-z\\])(?:{TEXT}\s?\{{\s*(?:{_CODES})\b\.?\s*\}}|(?:{_CODES})\b\.?)(?:\s|~|\\[,;: ])*"
        r"(?=\\?\$?\s?[-.\d])",
        "",
    ),
    (rf"(?<=\d){GAP}(?:{_CODES}){_ENDS}", ""),
    (
        rf"(?:(?<=\d)|(?<=\d\}})|(?<=\\pi)){GAP}(?:(?:sq|cu|square|cubic)\.?\s)?(?:{_SURE})(?![A-Za-z])"
        rf"(?:\s?(?:/|per)\s?(?:{_SURE})(?![A-Za-z]))?(?:\^\{{?[23]\}}?)?\.?(?=\s{{0,4}}(?:[,;)\]]|(?:and|or)\b|\Z))",
        "",
    ),
)
# MATH's reference answers have 864 \mbox{ inches}^2 and 480 + 480\sqrt{3}\text{ feet}: with `units=False` math-verify
# multiplies by the letters. A single letter in \mathrm may be i or e.
_LAST_UNIT = re.compile(
    rf"(?P<value>.*(?:[\d}})]|\\pi)){GAP}(?!\\mathrm\s?\{{\s*[a-z]\s*\}}){TEXT}\s?\{{\s*"
    r"(?P<unit>[A-Za-z][A-Za-z ./]*)\}(?:\^\{?[23]\}?)?\.?\s*",
    re.DOTALL,
)


def unit_free(text: str) -> str:
    """The formula without the words and signs that can only be units or currencies."""
    text = replaced(_UNITS, text)
    last = _LAST_UNIT.fullmatch(text)
    if not last or any(word.rstrip("s") in COUNTS for word in last["unit"].lower().split()):
        return text
    is_formula = re.search(r"\d|\\pi", last["value"]) and not re.search(rf"{TEXT}\s?\{{", last["value"])
    return last["value"] if is_formula else text
