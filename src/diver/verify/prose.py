"""Which number math-verify picks from a text without boxes, where that can be decided without running it.

It looks for the word "answer" first: a formula within 50 characters of it, or the number that follows it, after the last
"=" in the next 100 characters if there is one. Without such a match it takes the number or the formula that ends last.
Its own search needs milliseconds a text and can take for ever; the cases here are those in which no formula and no
arithmetic can be picked instead, and each is read in one pass.
"""

import re

NEAR_THE_END = 200  # characters in which the last number is looked for

_OPERATORS = r"\-+*×/^()÷"
_PERCENT = r"(?P<percent>\s*(?:%|[Pp]ercent|[Pp]ct))?+"
_ALONE = rf"(?:[.\s]*+(?![\d{_OPERATORS}])|\s?[{_OPERATORS}]\s?(?=[A-Za-z]))"  # "5 * apples" is no arithmetic
_NUMBER = rf"\$?(?P<number>-?(?:[1-9]\d{{0,2}}(?:,\d{{3}})+|\d+)(?:\.\d+)?){_PERCENT}(?![,.]?\d){_ALONE}"
_FRACTION = r"(?P<fraction>\d+/\d+)(?=\.?(?:\s*$|\s+[A-Za-z]))"  # of "1/3 ." math-verify takes the 1
_LAST = re.compile(rf"(?:=\s*|[^\d\s.{_OPERATORS}]\.?\s+)(?:{_NUMBER}|{_FRACTION})[^\d$\]\\}}]*$")
_FIRST = re.compile(rf"[^\d\n${_OPERATORS}]{{0,48}}\s{_NUMBER}")
_AFTER_EQUALS = re.compile(rf"\s+{_NUMBER}")
_MENTION = re.compile("(?i:answer)")
_FORMULA = re.compile(r"[\\\[]|\$[^$]*\$")


def picked_number(text: str) -> str:
    """Such as "18", "1,234", "-3.50", "7/14" or "32%"; empty where it takes math-verify to know."""
    if r"\boxed" in text or "final answer" in text.lower():
        return ""
    last = _LAST.search(text, max(0, len(text) - NEAR_THE_END))
    mentions = [mention.end() for mention in _MENTION.finditer(text)]
    if last and not any(end <= last.start() + 1 for end in mentions):
        return _text(last)
    if len(mentions) != 1 or _FORMULA.search(text, mentions[0]):
        return ""
    equals = text.rfind("=", mentions[0])
    if equals < 0:
        match = _FIRST.match(text, mentions[0])
    else:
        near = equals - mentions[0] <= 100 and "\n" not in text[mentions[0] : equals]
        match = _AFTER_EQUALS.match(text, equals + 1) if near else None
    return _text(match) if match else ""


def _text(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return groups.get("fraction") or groups["number"] + ("%" if groups["percent"] else "")
