r"""Units and currencies around a number, in the languages that answers come in.

`30元`, `5 км`, `64in`, `12 \text{ €}` and `\text{Rs. } 12` are their numbers, as `12 \text{ km}` is. Where both have
a unit, `exact` compares it. `3万` is 30000. A unit made of letters that may be variables, `5m` or `2mg`, is one only
beside a reference answer that is a number (`bare_number`). Words that scale a number, deny it or name a second one are
no unit (`says_more`). Linear in the length of the text.
"""

import re

from diver.grading.spelling import GAP, TABLES, TEXT, compiled, replaced

_NUMBERS = TABLES["numbers"]
POWERS_OF_TEN: dict[str, int] = _NUMBERS["powers_of_ten"]
"""Counts in words."""
SCALES = (
    {word: rf"\times 10^{{{power}}}" for word, power in POWERS_OF_TEN.items()}
    | {"dozen": r"\times 12"}
    | {word: rf"\times \frac{{1}}{{{part}}}" for part, word in enumerate(_NUMBERS["parts"].split(), 2)}
    | {"hundredths": r"\times 10^{-2}", "thousandths": r"\times 10^{-3}", "millionths": r"\times 10^{-6}"}
)
"""What a word does to the number before it. Quarters are coins, too, and the third of five is an ordinal."""
_FOREIGN_POWERS = {w: power for power, words in _NUMBERS["foreign_powers_of_ten"].items() for w in words.split()}
_ANY_NUMBER = "|".join(f"{_NUMBERS['ones']} {_NUMBERS['tens']} half".split())
_SAYS_MORE = re.compile(
    rf"^\W{{0,4}}(?:(?:{'|'.join(SCALES)}|(?:hundred|thousand|million|billion|trillion|dozen)s|millionen|milliards?"
    r"|milliarden|millones|mil|mille|milhões|milhão|hundert|tausend|dutzend|docenas?|douzaines?"
    r"|doubled|tripled|halved|plus|minus|multiplied|divided|factorial|at\s(?:most|least)|is\snot|to\sthe)\b"
    r"|(?:squared|cubed)\W{0,4}$)"  # "squared" at the end, not "squared units"
    # Another case, a denial, and what follows at the end: a second number, as in "plus one", or a verdict.
    r"|\b(?:not|isn['’]t|maybe|perhaps|possibly|alternatively|otherwise|unless|below\szero|or\s(?:more|less|fewer))\b"
    rf"|\b(?:{_ANY_NUMBER}|is\s(?:wrong|incorrect|false)|at\s(?:most|least))\W{{0,4}}$|\((?:wrong|incorrect|false)\)",
    re.IGNORECASE,
)
_IN_BRACES = re.compile(r"\{([^{}]*)\}")

_ENDS = r"(?=\s{0,4}(?:[.,;)\]]|\Z))"
_FOREIGN = "[\u0400-\u1fff\u2c00-\u2dff\u3005-\u3007\u3040-\ud7ff\uf900-\ufaff]"
_FOREIGN_WORDS = rf"(?:{_FOREIGN}|[\s./](?={_FOREIGN})){{1,24}}"
_COUNT = "|".join(sorted(_FOREIGN_POWERS, key=len, reverse=True))
_CODES = "|".join(TABLES["currencies"]["codes"].split())
_SURE, _LETTERS = TABLES["units"]["sure"].split(), TABLES["units"]["letters"].split()
_PER = rf"(?:\s?(?:/|per)\s?(?:{'|'.join(_SURE + _LETTERS)})(?![A-Za-z]))?(?:\^\{{?[23]\}}?|\*\*[23])?\.?"


def _measure(words: list[str]) -> str:
    unit = "|".join(sorted(words, key=len, reverse=True))
    return rf"{GAP}(?:(?:sq|cu|square|cubic)\.?\s)?(?:{unit})(?![A-Za-z]){_PER}"


def _counted(found: re.Match[str]) -> str:
    return f" \\times 10^{{{_FOREIGN_POWERS[found['count']]}}}" if found["count"] else ""


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
    (rf"(?<=\d)\^\{{?\s?(?:\\(?:text|mathrm)\{{\s?)?(?:st|nd|rd|th)\s?\}}{{0,2}}{_ENDS}", ""),
    (rf"(?<=\d){GAP}\^\{{?\\circ\}}?\s?[CF]{_ENDS}", ""),
    (rf"(?<=\d)/-{_ENDS}", ""),  # after a price in rupees
    (rf"{TEXT}\s?\{{\s*\}}", ""),
    (rf"(?:(?<=\d)|(?<=\d\}})|(?<=\\pi)){_measure(_SURE)}(?=\s{{0,4}}(?:[,;)\]]|(?:and|or)\b|\Z))", ""),
)
_MEASURED = re.compile(
    r"(-?(?:[*/^().,\d\s{}]|\\(?:frac|sqrt|cdot|times|pi)(?![A-Za-z])|\\?\$)*(?:[\d.})]|\\pi))"
    rf"(?:{_measure(_SURE + _LETTERS)}|(?:\s|\\[,;: ]){{0,4}}\^\{{?\\circ\}}?\s?[CF])"
)


def unit_free(text: str) -> str:
    """The formula without the units and the currencies that can be nothing else."""
    return replaced(_UNITS, text)


def says_more(words: str) -> bool:
    """Whether words behind a number are no unit: they scale it, deny it, or name another number."""
    return bool(_SAYS_MORE.search(words))


def without_unit(found: re.Match[str]) -> str:
    """The replacement of a number's texts: nothing, if all of them are units."""
    return found[0] if any(says_more(words) for words in _IN_BRACES.findall(found[0])) else ""


def bare_number(text: str) -> str:
    """The number of a text that is one with a unit, also with one of letters; empty for any other text."""
    measured = _MEASURED.fullmatch(text)
    return measured[1] if measured else ""
