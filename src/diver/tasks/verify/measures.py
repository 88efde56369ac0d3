r"""Units and currencies around a number, in the languages that answers come in.

`30元`, `5 км`, `64in`, `12 \text{ €}` and `\text{Rs. } 12` are their numbers, as `12 \text{ km}` is: units are not
compared. `3万` is 30000. A unit made of letters that may be variables, `5m` or `2mg`, is one only beside a reference
answer that is a number (`bare_number`). Words that scale a number, deny it or name a second one are no unit
(`says_more`). Linear in the length of the text.
"""

import re

POWERS_OF_TEN = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "lakh": 5, "crore": 7}
"""Counts in words."""
_PARTS = dict(
    zip("halves thirds fourths fifths sixths sevenths eighths ninths tenths".split(), range(2, 11), strict=True)
)
SCALES = (
    {word: rf"\times 10^{{{power}}}" for word, power in POWERS_OF_TEN.items()}
    | {"dozen": r"\times 12"}
    | {word: rf"\times \frac{{1}}{{{parts}}}" for word, parts in _PARTS.items()}
    | {"hundredths": r"\times 10^{-2}", "thousandths": r"\times 10^{-3}", "millionths": r"\times 10^{-6}"}
)
"""What a word does to the number before it. Quarters are coins, too, and the third of five is an ordinal."""
FOREIGN_POWERS_OF_TEN = {
    **dict.fromkeys("十십", 1),
    **dict.fromkeys("百백", 2),
    **dict.fromkeys("千천", 3),
    **dict.fromkeys("万萬만", 4),
    **dict.fromkeys(("十万", "十萬", "십만"), 5),
    **dict.fromkeys(("百万", "百萬", "백만"), 6),
    **dict.fromkeys(("千万", "千萬", "천만"), 7),
    **dict.fromkeys("亿億억", 8),
    **{"тысяч": 3, "тыс": 3, "миллион": 6, "млн": 6, "миллиард": 9, "млрд": 9, "триллион": 12, "трлн": 12},
}
"""Counts in words of other scripts, which are written as units are."""

_NUMBERS = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen"
    "|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|half"
)
_SAYS_MORE = re.compile(
    rf"^\W{{0,4}}(?:(?:{'|'.join(SCALES)}|(?:hundred|thousand|million|billion|trillion|dozen)s|millionen|milliards?"
    r"|milliarden|millones|mil|mille|milhões|milhão|hundert|tausend|dutzend|docenas?|douzaines?"
    r"|doubled|tripled|halved|plus|minus|multiplied|divided|factorial|at\s(?:most|least)|is\snot|to\sthe)\b"
    r"|(?:squared|cubed)\W{0,4}$)"  # not "squared units"
    # Another case, a denial, and what follows at the end: a second number, as in "plus one", or a verdict.
    r"|\b(?:not|isn['’]t|maybe|perhaps|possibly|alternatively|otherwise|unless|below\szero|or\s(?:more|less|fewer))\b"
    rf"|\b(?:{_NUMBERS}|is\s(?:wrong|incorrect|false)|at\s(?:most|least))\W{{0,4}}$|\((?:wrong|incorrect|false)\)",
    re.IGNORECASE,
)
_IN_BRACES = re.compile(r"\{([^{}]*)\}")

_FOREIGN = "[\u0400-\u1fff\u2c00-\u2dff\u3005-\u3007\u3040-\ud7ff\uf900-\ufaff]"
_FOREIGN_TEXT = re.compile(rf"\\(?:text|mathrm|mbox)\s?\{{(\s*{_FOREIGN}[^{{}}]*)\}}")
_JOINED = re.compile(
    r"(?<=[0-9A-Za-z)}\]])\s{0,4}(?:(?:或者|或是|或|以及|和|与|與|及|または|および|또는|그리고)\s{0,4}"
    r"|\s(?:или|и|oder|und|ou|et)\s{1,4})(?=[-0-9A-Za-z\\(\[{√])"
)
_NOT_A_UNIT = r"(?!分之|或|和|与|與|及|以|但|不|非|или|либо|или|но|не|और|या)"
_FOREIGN_WORDS = rf"(?:{_FOREIGN}|[\s./](?={_FOREIGN})){{1,24}}"
_COUNT = "|".join(sorted(FOREIGN_POWERS_OF_TEN, key=len, reverse=True))
_FOREIGN_UNIT = re.compile(
    rf"(?<=[\d}}])(?:\s|~|\\[,;: ]){{0,4}}{_NOT_A_UNIT}"
    # 千克 and 千米 are a kilogram and a kilometre
    rf"(?:(?P<count>(?![千百][克米瓦帕卡焦赫伏升分])(?:{_COUNT}))(?:{_FOREIGN_WORDS})?|{_FOREIGN_WORDS})"
    r"(?:\^\{[23]\})?(?=\s{0,4}(?:[.,;)\]]|\Z))"
)

_CODES = "USD|EUR|GBP|INR|CNY|RMB|JPY|KRW|CHF|AUD|CAD|HKD|SGD|RUB|BRL|MXN|SEK|NOK|DKK|PLN|Rs|US|HK|NT"
_PRICE = re.compile(
    rf"(?<![A-Za-z\\])(?:\\(?:text|mathrm|mbox)\s?\{{\s*(?:{_CODES})\b\.?\s*\}}|(?:{_CODES})\b\.?)(?:\s|~|\\[,;: ])*"
    r"(?=\\?\$?\s?[-.\d])"
)
_PRICED = re.compile(rf"(?<=\d)(?:\s|~|\\[,;: ]){{0,4}}(?:{_CODES})(?=\s{{0,4}}(?:[.,;)\]]|\Z))")
_LETTERED_PRICE = re.compile(
    r"(?<![A-Za-z\\])(?:[A-Z]{1,2}(?=\\\$\s?\d)|(?:RM|Rp|Tk|kr|CN|Rs)\.?(?:\s|~|\\[,;: ]){0,4}(?=\d))"
)
_DASHED_PRICE = re.compile(r"(?<=\d)/-(?=\s{0,4}(?:[.,;)\]]|\Z))")
_ORDINAL = re.compile(r"(?<=\d)\^\{?\s?(?:\\(?:text|mathrm)\{\s?)?(?:st|nd|rd|th)\s?\}{0,2}(?=\s{0,4}(?:[.,;)\]]|\Z))")
_EMPTY = re.compile(r"\\(?:text|mathrm|mbox)\s?\{\s*\}")

_SURE = (
    "km cm mm nm kg kWh kW kJ kPa kHz MHz GHz Hz mph kmh kph lbs lb oz ft in yd hrs hr mins min secs sec mL ml"
    " kcal cal mol rad deg dollars dollar cents cent euros euro pounds pound yen rupees rupee meters meter metres"
    " metre inches inch feet foot miles mile hours hour minutes minute seconds second days day weeks week months"
    " month years year degrees degree liters liter litres litre grams gram kilograms kilogram kilometers kilometer"
    " kilometres centimeters centimeter centimetres units unit people students pieces items times st nd rd th zł"
)
_LETTERS = "am pm m g s h l L t W V A N J mi mg ms gal pt qt ha MB GB KB TB kr RM Rp Tk"
_END = r"(?:\^\{?[23]\}?|\*\*[23])?\.?"


def _measure(words: str) -> str:
    unit = "|".join(sorted(words.split(), key=len, reverse=True))
    return rf"(?:\s|~|\\[,;: ]){{0,4}}(?:(?:sq|cu|square|cubic)\.?\s)?(?:{unit})(?![A-Za-z])"


_DEGREES = r"(?:\s|\\[,;: ]){0,4}\^\{?\\circ\}?\s?[CF]"


_PER = rf"(?:\s?(?:/|per)\s?(?:{'|'.join((_SURE + ' ' + _LETTERS).split())})(?![A-Za-z]))?"
_SURELY_MEASURED = re.compile(
    rf"(?:(?<=\d)|(?<=\d\}})|(?<=\\pi)){_measure(_SURE)}{_PER}{_END}(?=\s{{0,4}}(?:[,;)\]]|(?:and|or)\b|\Z))"
)
_MEASURED = re.compile(
    r"(-?(?:[*/^().,\d\s{}]|\\(?:frac|sqrt|cdot|times|pi)(?![A-Za-z])|\\?\$)*(?:[\d.})]|\\pi))"
    rf"(?:{_measure(_SURE + ' ' + _LETTERS)}{_PER}{_END}|{_DEGREES})"
)


def unit_free(text: str) -> str:
    """The formula without the units and the currencies that can be nothing else."""
    text = _FOREIGN_TEXT.sub(r"\1", text)
    text = _FOREIGN_UNIT.sub(_counted, _JOINED.sub(", ", text))
    text = _ORDINAL.sub("", _PRICED.sub("", _PRICE.sub("", _LETTERED_PRICE.sub("", text))))
    return _SURELY_MEASURED.sub("", _EMPTY.sub("", _DASHED_PRICE.sub("", text)))


def says_more(words: str) -> bool:
    """Whether words behind a number are no unit: they scale it, deny it, or name another number."""
    return bool(_SAYS_MORE.search(words))


def without_unit(found: re.Match[str]) -> str:
    """The replacement of a number's texts: nothing, where all of them are units."""
    return found[0] if any(says_more(words) for words in _IN_BRACES.findall(found[0])) else ""


def bare_number(text: str) -> str:
    """The number of a text that is one with a unit, also with one of letters; empty for any other text."""
    measured = _MEASURED.fullmatch(text)
    return measured[1] if measured else ""


def _counted(found: re.Match[str]) -> str:
    return f" \\times 10^{{{FOREIGN_POWERS_OF_TEN[found['count']]}}}" if found["count"] else ""
