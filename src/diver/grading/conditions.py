r"""An answer and the reference answer without the conditions on their letters.

f(x) = 2x, \forall x \in \mathbb{R}                   f(x) = 2x
a_n = 2n-1, n \geq 1                                  a_n = 2n-1
f(x) = cx^2 \text{ for some constant } c              f(x) = cx^2

Two answers with different conditions are not changed.
"""

import re
from collections.abc import Iterator

from diver.grading.notation import box, content_of

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


def without_conditions(gold: str, answer: str) -> Iterator[tuple[str, str]]:
    """(gold, answer) without their conditions, if they have any and these do not contradict each other."""
    (left, left_condition), (right, right_condition) = _conditioned(content_of(gold)), _conditioned(content_of(answer))
    bounds = [_INEQUALITY.search(condition) for condition in (left_condition, right_condition)]
    contradict = all(bounds) and len({"".join(bound[0].split()) for bound in bounds if bound}) > 1
    if (left_condition or right_condition) and not contradict:
        yield box(left), box(right)


def _conditioned(text: str) -> tuple[str, str]:
    r"""The answer and its condition, `a_n = 2n-1` and `n \geq 1`; the text and "" without one on its letters."""
    if quantified := _QUANTIFIED.fullmatch(text):
        return quantified[2], quantified[1]
    start = 0
    for _ in range(MOST_PLACES):
        match = _CONDITION.search(text, start)
        if not match:
            break
        start = match.start() + 1
        main, condition = text[: match.start()].strip().rstrip("("), text[match.start() :]
        if r"\begin" in main or _NO_VALUE.search(main) or not _is_condition(condition):
            return text, ""
        body, symbols = main.rpartition("=")[2], _FIRST_SYMBOLS.search(condition)
        letters = _LETTER.findall(symbols[0].partition("\\")[0]) if symbols else []
        if _IN_WORDS.search(match[0]) and (_LETTER.search(body) or "=" in main):
            return main, condition
        if letters and all(letter in body for letter in letters):
            return main, condition
    return text, ""


def _is_condition(text: str) -> bool:
    """Whether a text holds no second answer, and no answer for another case."""
    clauses = re.split(r"(?<!\\)[,;](?![^{]{0,80}\})", text.lstrip(" ,;"))[1:]
    return not _CASE.search(text) and all(_ALSO.fullmatch(clause) for clause in clauses)
