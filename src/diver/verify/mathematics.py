"""Mathematical answers: the last `\\boxed{...}`, compared with the known answer by math-verify 0.9.0.

What counts as the answer, in this order:

1. Only what follows the last `</think>`, where there is one: an answer inside the thought does not count then.
   (A thought that is not closed, and a response that hit its length limit, hold no answer for any grader: `grading`.)
2. The content of the last box that closes (`\\boxed{...}`, `\\boxed 5`, `\\fbox{...}`). Boxes that stand together as a
   list (`\\boxed{1}, \\boxed{2}`) are also tried as one answer. Minerva's closing sentence "The final answer is ... I
   hope it is correct." overrules a box before it.
3. "math": without a box, what math-verify finds in the last 4,096 characters ("the answer is ...", else the last
   formula, else the last number).
   "gsm8k": without a box, the last number of the response.

`grade` settles what needs no algebra (`exact`, `prose`); the rest is a `PendingComparison`, which `equivalence` decides in
a worker process (`workers`). `bounded` keeps from SymPy what would only cost time and memory: an answer beyond the bounds is
wrong, a known answer beyond them an error; an answer written exactly as the known one is correct whatever its size.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from diver.diversity import formulas
from diver.types import Grade, Problem
from diver.verify.bounds import PendingComparison
from diver.verify.exact import compare, plain
from diver.verify.prose import picked_number

TAIL = 4096  # characters of free text in which an answer is looked for


def grade(response: str, problem: Problem) -> Grade | PendingComparison:
    """Verifier "math": a grade, or the comparison that is left to decide."""
    text = after_thought(response)
    if statement := _closing(text):
        return PendingComparison((statement,), gold_texts(problem.answer))
    if answers := boxed(text):
        return _settle(answers, problem.answer)
    tail = text[-TAIL:].strip()
    if not tail:
        return Grade.NO_ANSWER
    golds, number = gold_texts(problem.answer), picked_number(tail)
    settled = compare(number, _known(problem.answer)) if number else None
    if "\n" in tail or len(tail) > 256 or _DELIMITER.search(tail) or len(_WORD.findall(tail)) > 2:
        return settled or PendingComparison((tail,), golds)
    if Grade.CORRECT in (settled, compare(tail, _known(problem.answer))):
        return Grade.CORRECT
    # One short line without delimiters: LaTeX without its dollars, where it has a command; else that or a sentence.
    texts = (_box(tail),) if "\\" in tail else (tail, _box(tail))
    return PendingComparison(texts, golds)


def grade_gsm8k(response: str, problem: Problem) -> Grade | PendingComparison:
    """Verifier "gsm8k": as "math", but without a box the last number of the response is the answer."""
    text = after_thought(response)
    answers = boxed(text) or last_number(text)
    return _settle(answers, problem.answer) if answers else Grade.NO_ANSWER


def _settle(answers: Sequence[str], gold: str) -> Grade | PendingComparison:
    grades = [compare(answer, _known(gold)) for answer in answers]
    if Grade.CORRECT in grades:
        return Grade.CORRECT
    if not any(plain(answer) for answer in answers):
        return Grade.NO_ANSWER
    if all(v is Grade.WRONG for v in grades):
        return Grade.WRONG
    return PendingComparison(tuple(_box(answer) for answer in answers), gold_texts(gold))


# ---- extraction, linear in the length of the text --------------------------------------------------------------------

_BRACE = re.compile(r"\\(?:boxed|fbox)\s*(?P<open>\{)|\\(?:boxed|fbox)\s*(?P<bare>[^\s{}$\\]+)|\\.|[{}]", re.DOTALL)
_CLOSING = re.compile(r"(?i:final answer is)(?:(?!final answer is|\\boxed).)*I hope", re.DOTALL | re.IGNORECASE)
_ANY_BOX = re.compile(r"\\(?:boxed|fbox)\b")
_NESTED = re.compile(r"\\(?:boxed|fbox)\b\s*")
_LIST_GAP = re.compile(r"(?:[\s$,;&]|\\[()\[\],;:! ]|\\q?quad|\\text\{|\}|\b(?:and|or)\b|for part \(\w\))*")
_PERCENT = re.compile(r"[\s$]*(?:\\\)|\\\])?\s*(?:\\?%|[Pp]ercent|[Pp]ct)")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_NUMBER = re.compile(r"(?:(?<![\w)\]}])-)?(?:\\?\$)?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|(?<![\w.])\.\d+")


class _Box(NamedTuple):
    """Where a box and its content begin and end."""

    start: int
    opened: int
    closed: int
    end: int


def after_thought(response: str) -> str:
    return response.rpartition("</think>")[2]


def is_thinking(response: str) -> bool:
    """Whether the response ends inside a thought that it opened itself."""
    return "<think>" in after_thought(response)


def boxed(text: str) -> list[str]:
    """The content of the last box, and the list it ends if there is one; empty where no box closes."""
    boxes = _boxes(text)
    if not boxes:
        return []
    run = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        gap = run[-1].start - box.end
        if gap > 70 or not _LIST_GAP.fullmatch(text, box.end, run[-1].start):
            break
        run.append(box)
    contents = [_NESTED.sub("", text[box.opened : box.closed]).strip() for box in reversed(run)]
    percent = r"\%" if _PERCENT.match(text, run[0].end, run[0].end + 16) else ""
    contents[-1] = (contents[-1].rstrip(".,;") if text[run[0].end - 1] != "}" else contents[-1]) + percent
    distinct = list(dict.fromkeys(contents))
    return distinct if len(distinct) == 1 else [contents[-1], ",".join(distinct)]


def _boxes(text: str) -> list[_Box]:
    """Every outermost box that closes, in order."""
    starts = [start for start in (text.find(r"\boxed"), text.find(r"\fbox")) if start >= 0]
    if not starts:
        return []
    boxes: list[_Box] = []
    opened: list[tuple[int, int] | None] = []  # for each open brace: where its \\boxed began, where its content begins
    for token in _BRACE.finditer(text, min(starts)):
        if token["open"]:
            opened.append((token.start(), token.end()))
        elif token["bare"]:
            boxes.append(_Box(token.start(), *token.span("bare"), token.end()))
        elif token[0] == "{":
            opened.append(None)
        elif token[0] == "}" and opened and (box := opened.pop()):
            start, content = box
            while boxes and boxes[-1].start > start:
                boxes.pop()
            boxes.append(_Box(start, content, token.start(), token.end()))
    return boxes


def _closing(text: str) -> str | None:
    """Minerva's closing sentence, where no box follows it."""
    tail = text[-TAIL:]
    if "hope" not in tail.lower():
        return None
    statements = list(_CLOSING.finditer(tail))
    if not statements or _ANY_BOX.search(tail, statements[-1].end()):
        return None
    return statements[-1][0]


def final_answer(response: str, problem: Problem) -> str | None:
    """What a response votes for in maj@k: its last box, else its last number; None where it has neither."""
    text = after_thought(response)
    answers = boxed(text) or last_number(text)
    return plain(answers[0]) or None if answers else None


def written_formulas(response: str, problem: Problem) -> str:
    """What makes two correct solutions the same: the formulas that they write; without any, the text."""
    return "\n".join(sorted(formulas(response, ignore_space=True))) or " ".join(response.split())


def last_number(text: str) -> list[str]:
    number = ""
    for start in (text.rstrip().rfind("\n") + 1, 0):  # the last line, then all
        for match in _NUMBER.finditer(text, start):
            number = match[0]
        if number:
            break
    return [re.sub(r"[\\$,]", "", number)] if number else []


# ---- as math-verify reads it ---------------------------------------------------------------------------------------------

_DELIMITER = re.compile(r"(?<!\\)\$|\\\(|\\\[")


@lru_cache(maxsize=4096)
def _known(gold: str) -> str:
    return (boxed(gold) or [gold])[0]


@lru_cache(maxsize=4096)
def gold_texts(gold: str) -> tuple[str, ...]:
    """The known answer as math-verify reads it; it may come boxed, between dollars, in prose, or bare."""
    if boxes := boxed(gold):
        return (_box(boxes[-1]),)
    return (gold,) if _DELIMITER.search(gold) else (_box(gold),)


def _box(content: str) -> str:
    return rf"\boxed{{{content}}}"
