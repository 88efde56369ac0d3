r"""An answer and the reference answer as other texts that mean the same, simpler than they were.

f(x) = 2x, \forall x \in \mathbb{R}       f(x) = 2x          unless the two name different conditions
n \equiv 5 \pmod{17}                      5                  of one modulus, the same residue
\frac{17}{3} \approx 5.67                 \frac{17}{3}, or 5.67
P(5,2)                                    20                 which may be a point
5m                                        5                  beside a number
A(3,4)                                    (3,4)              a point with its name
x = n\pi, n \in \mathbb{Z}                x = k\pi           of all integers k
(a,b) = (3,4)                             (3,4)              where math-verify cannot read the equation
"""

import re
from collections.abc import Iterator

from diver.grading.measures import bare_number
from diver.grading.notation import box, content_of
from diver.grading.shorthands import arrangements

MOST_PLACES = 16  # places of an answer at which a condition may begin

_LETTERS = r"[A-Za-z](?:_(?:\w|\{\w{1,8}\}))?(?:\s?,\s?[A-Za-z](?:_\w)?){0,3}"
_RELATION = r"(?:\\(?:in|notin|geq|leq|neq|equiv)(?![A-Za-z])|[<>]=?|=\s?-?\d{1,9}\s?,)"
_BOUND = r"(?:(?<!\d)-?\d{1,9}|-?\\infty|[a-z])\s?(?:<|\\leq)\s?"
_SYMBOLS = rf"(?:{_BOUND})?{_LETTERS}\s?{_RELATION}"
_WORDS = r"(?:(?:for|where|with|valid)\b|其中|[对對])"
_CONDITION = re.compile(
    r"(?:[\s,;.]|\\[,;: ]|\\q?quad){0,8}+\(?\s?(?:"
    rf"\\forall(?![A-Za-z])|\\text\s?\{{\s{{0,4}}[,;(]?\s{{0,4}}{_WORDS}|\b(?:for|where)\b|其中"
    r"|[对對](?:任意|所有|一切)|[A-Za-z]\s?[为為是]"
    rf"|(?:(?<=[,;(\s])|(?<=quad)){_SYMBOLS})"
)
_QUANTIFIED = re.compile(
    rf"(\\forall\s?{_LETTERS}(?:\s?\\in\s?(?:\\mathbb\s?\{{[A-Z]\}}|[A-Z]))?)\s?[,:]\s?"
    r"([A-Za-z](?:\(|_)[^=]{1,80}=.{1,200})"
)
_FIRST_SYMBOLS = re.compile(_SYMBOLS)
_LETTER = re.compile(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])")
_IN_WORDS = re.compile(r"\\text|\\forall|for|where|[其对對为為是]")
_NO_VALUE = re.compile(r"[<>,]|\\(?:[lg]eq|neq|in|text)(?![A-Za-z])")
_CASE = re.compile(r"\b(?:or|but|else|not|otherwise|except|unless|if|when)\b|=(?!.{0,200}(?:dots|\.\.\.))")
_ALSO = re.compile(
    rf"\s*(?:(?:\\text\{{)?\s?(?:and|for|where)\b\s?\}}?)?\s*"
    rf"(?:{_SYMBOLS}[^=]*|[A-Za-z](?:_\w)?(?:\s?\\text\{{[^{{}}\d]{{0,80}}\}})?|\d{{1,9}}|\\dots)?[\s)}}.]*"
)
_INEQUALITY = re.compile(r"[A-Za-z]\s?(?:<|>|\\[lg]eq)\s?-?[\d.]+")
_CONGRUENCE = re.compile(
    r"(?:(?P<name>[A-Za-z](?:_\w)?)\s?\\equiv)?(?P<body>[^=]{1,200}?)\s?"
    r"(?:\\pmod\s?\{?|\\b?mod(?![A-Za-z])\s?\{?|\(\s?(?:\\(?:text|mathrm)\{\s?)?\\?mod\s?\}?)"
    r"\s?(?P<modulus>\w{1,40})\s?[})]?"
)
_APPROXIMATELY = re.compile(r"\\approx(?![A-Za-z])")
_DECIMAL = re.compile(r"-?\d*\.?(?P<digits>\d*)")
_CHOSEN = re.compile(r"([CP])\s?\(\s?(\d{1,3})\s?,\s?(\d{1,3})\s?\)")
_CONSTANT = re.compile(r"(?:[-+*/^().,\d\s{}]|\\(?:frac|sqrt|cdot|times|pi)(?![A-Za-z])|\\?\$)+")
_INTEGER = re.compile(r"(?<![A-Za-z\\])(?P<letter>[a-z])\s?\\in\s?\\mathbb\s?\{\s?(?P<set>[NZ])")
_POINT = re.compile(r"(?P<label>[A-Z](?:_\w|_\{\w{1,20}\})?)?\s?(?P<point>\([^()]*,[^()]*\))")
_NESTED_CALL = re.compile(r"[A-Za-z]\((?:[A-Za-z]\(){1,4}[^A-Za-z()]{1,40}\){2,5}")


def simpler(gold: str, answer: str) -> Iterator[tuple[str, str]]:
    """(gold, answer) in the forms above; a pair that comes is simpler than the one that was given."""
    known, given = content_of(gold), content_of(answer)
    (left, one), (right, other) = _conditioned(known), _conditioned(given)
    bounds = [_INEQUALITY.search(condition) for condition in (one, other)]
    contradict = all(bounds) and len({"".join(bound[0].split()) for bound in bounds if bound}) > 1
    if (one or other) and not contradict:
        yield box(left), box(_renamed(one, other, right))
    for left, right in (*_residues(known, given), *_chosen(known, given)):
        yield box(left), box(right)
    if _CONSTANT.fullmatch(known) and (number := bare_number(given)):
        yield gold, box(number)
    points = [_POINT.fullmatch(text) for text in (known, given)]
    if points[0] and points[1] and bool(points[0]["label"]) != bool(points[1]["label"]):
        yield box(points[0]["point"]), box(points[1]["point"])
    left, equals, right = known.rpartition("=")
    # compositions, points and functions with names of several letters
    unreadable = "(" in left and left.lstrip().startswith(("(", r"\operatorname", r"\mathrm"))
    if equals and "=" not in given and (unreadable or _NESTED_CALL.fullmatch(left.strip())):
        yield box(right), answer


def approximations(text: str) -> list[str]:
    """What stands on the two sides of one sign of approximation; empty without it."""
    sides = [side.strip() for side in _APPROXIMATELY.split(content_of(text))]
    return [box(side) for side in sides] if len(sides) == 2 and all(sides) else []


def is_rounded(text: str, exact: complex, rounded: complex) -> bool:
    """Whether the value of `text` is another one rounded or cut at its last place, or within half a per cent of it."""
    decimal = _DECIMAL.match(content_of(text).rpartition("=")[2].strip())
    unit = 10.0 ** -len(decimal["digits"]) if decimal else 1.0
    cut = 0 <= abs(exact) - abs(rounded) < unit
    return abs(exact - rounded) <= max(0.5001 * unit, abs(exact) / 200) or (cut and abs(exact - rounded) < unit)


def _conditioned(text: str) -> tuple[str, str]:
    r"""`a_n = 2n-1` and `n \geq 1`; the whole and "" if no condition on its letters stands."""
    if quantified := _QUANTIFIED.fullmatch(text):
        return quantified[2], quantified[1]
    start = 0
    for _ in range(MOST_PLACES):
        found = _CONDITION.search(text, start)
        if not found:
            break
        start = found.start() + 1
        main, condition = text[: found.start()].strip().rstrip("("), text[found.start() :]
        if r"\begin" in main or _NO_VALUE.search(main) or not _is_condition(condition):
            return text, ""
        body, symbols = main.rpartition("=")[2], _FIRST_SYMBOLS.search(condition)
        letters = _LETTER.findall(symbols[0].partition("\\")[0]) if symbols else []
        if _IN_WORDS.search(found[0]) and (_LETTER.search(body) or "=" in main):
            return main, condition
        if letters and all(letter in body for letter in letters):
            return main, condition
    return text, ""


def _renamed(one: str, other: str, text: str) -> str:
    """The text with the letter for any integer that the reference answer has: `n\\pi` of all n is `k\\pi` of all k."""
    known, given = _INTEGER.search(one), _INTEGER.search(other)
    if not (known and given) or known["set"] != given["set"] or known["letter"] in _LETTER.findall(text):
        return text
    return _LETTER.sub(lambda found: known["letter"] if found[0] == given["letter"] else found[0], text)


def _is_condition(text: str) -> bool:
    """Whether nothing in it is a second answer, or one for another case."""
    others = re.split(r"(?<!\\)[,;](?![^{]{0,80}\})", text.lstrip(" ,;"))[1:]
    return not _CASE.search(text) and all(_ALSO.fullmatch(other) for other in others)


def _residues(known: str, given: str) -> Iterator[tuple[str, str]]:
    gold, answer = _CONGRUENCE.fullmatch(known), _CONGRUENCE.fullmatch(given)
    if gold and answer:
        names = {match["name"] for match in (gold, answer)} - {None}
        if gold["modulus"] == answer["modulus"] and len(names) <= 1:
            yield _least(gold), _least(answer)
    elif gold or answer:
        yield (gold["body"].strip() if gold else known), (answer["body"].strip() if answer else given)


def _least(congruence: re.Match[str]) -> str:
    """The residues, the least where they are integers."""
    modulus, residues = congruence["modulus"], congruence["body"].split(",")
    if not modulus.isdigit() or int(modulus) == 0 or not all(re.fullmatch(r"\s*-?\d{1,40}\s*", r) for r in residues):
        return congruence["body"].strip()
    return ", ".join(map(str, sorted({int(residue) % int(modulus) for residue in residues})))


def _chosen(known: str, given: str) -> Iterator[tuple[str, str]]:
    def written(call: re.Match[str]) -> str:
        n, k = int(call[2]), int(call[3])
        return call[0] if k > n else arrangements(call[1], n, k)

    left, right = _CHOSEN.sub(written, known), _CHOSEN.sub(written, given)
    if (left, right) != (known, given):
        yield left, right
