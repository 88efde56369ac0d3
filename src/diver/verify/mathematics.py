"""Mathematical answers: the last `\\boxed{...}`, compared with the reference answer by math-verify 0.9.0.

What counts as the answer, in this order:

1. Only what follows the last `</think>`, where there is one: an answer inside the thought does not count then.
   (A thought that is not closed holds no answer for any grader, a response that was cut only one that it had finished:
   `grading`.)
2. Minerva's closing sentence "The final answer is ... I hope it is correct.", where no box follows it.
3. The content of the last box that closes (`\\boxed{...}`, `\\boxed 5`, `\\fbox{...}`). Boxes that stand together as a
   list (`\\boxed{1}, \\boxed{2}`; `x=\\boxed{1}` and `y=\\boxed{2}`) are one answer: all of them, or none.
4. "math": without a box, what math-verify finds in the last 4,096 characters ("the answer is ...", else the last
   formula, else the last number).
   "gsm8k": without a box, the number of its last line "#### n", else the last number of the response.

`grade` settles what needs no algebra (`exact`, `prose`); the rest is a `PendingComparison`, which `equivalence` decides in
a worker process (`workers`). `bounded` keeps from SymPy what would only cost time and memory: an answer beyond the bounds is
wrong, a reference answer beyond them an error; an answer written exactly as the known one is correct whatever its size.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from diver.diversity import formulas
from diver.types import Grade, Problem
from diver.verify.bounds import PendingComparison
from diver.verify.exact import compare, plain
from diver.verify.extraction import TAIL, WORD, boxed, is_stated, last_line, last_number, stated
from diver.verify.notation import box
from diver.verify.prose import picked_number
from diver.verify.thought import after_thought

_DELIMITER = re.compile(r"(?<!\\)\$|\\\(|\\\[")


def grade(response: str, problem: Problem) -> Grade | PendingComparison:
    """Verifier "math": a grade, or the comparison that is left to decide."""
    text = after_thought(response)
    if answers := stated(text):
        return _settle(answers, problem.answer)
    tail = text[-TAIL:].strip()
    if not tail:
        return Grade.NO_ANSWER
    golds, number = gold_texts(problem.answer), picked_number(tail)
    if number and " or " in tail and number in (either := last_number(tail)[0].split(", ")) and len(either) > 1:
        return _settle([", ".join(either)], problem.answer)
    settled = compare(number, _known(problem.answer)) if number else None
    if "\n" in tail or len(tail) > 256 or _DELIMITER.search(tail) or len(WORD.findall(tail)) > 2:
        return settled or PendingComparison((tail,), golds)
    if Grade.CORRECT in (settled, compare(tail, _known(problem.answer))):
        return Grade.CORRECT
    # One short line without delimiters: LaTeX without its dollars, where it has a command; else that or a sentence.
    texts = (box(tail),) if "\\" in tail else (tail, box(tail))
    return PendingComparison(texts, golds)


def grade_gsm8k(response: str, problem: Problem) -> Grade | PendingComparison:
    """Verifier "gsm8k": as "math", but without a box the last number of the response is the answer."""
    answers = _gsm8k_answers(response)
    return _settle(answers, problem.answer) if answers else Grade.NO_ANSWER


def _gsm8k_answers(response: str) -> Sequence[str]:
    text = after_thought(response)
    return stated(text) or last_line(text) or last_number(text)


def has_answer(response: str) -> bool:
    """Whether a response that was cut holds an answer that it had finished: a box that closes, or Minerva's sentence."""
    return is_stated(after_thought(response))


def has_gsm8k_answer(response: str) -> bool:
    text = after_thought(response)
    return is_stated(text) or bool(last_line(text, ended=True))


def final_answer(response: str, problem: Problem) -> str | None:
    """What a response votes for in maj@k: its last box, else its last number; None where it has neither."""
    text = after_thought(response)
    answers = stated(text) or last_number(text)
    return plain(answers[0]) or None if answers else None


def final_gsm8k_answer(response: str, problem: Problem) -> str | None:
    """The same for "gsm8k", of the answer that it grades."""
    answers = _gsm8k_answers(response)
    return plain(answers[0]) or None if answers else None


def written_formulas(response: str, problem: Problem) -> str:
    """What makes two correct solutions the same: the formulas that they write; without any, the text."""
    return same_formulas(response, formulas(response))


def same_formulas(response: str, written: Iterable[str]) -> str:
    """`written_formulas` of a response whose formulas are known."""
    return "\n".join(sorted({"".join(formula.split()) for formula in written})) or " ".join(response.split())


def _settle(answers: Sequence[str], gold: str) -> Grade | PendingComparison:
    if _known(gold).count("=") > 1:  # names against names, where the answer has them
        answers = answers[:1]
    grades = [compare(answer, _known(gold)) for answer in answers]
    if Grade.CORRECT in grades:
        return Grade.CORRECT
    if not any(plain(answer) for answer in answers):
        return Grade.NO_ANSWER
    if all(v is Grade.WRONG for v in grades):
        return Grade.WRONG
    return PendingComparison(tuple(box(answer) for answer in answers), gold_texts(gold))


@lru_cache(maxsize=4096)
def _known(gold: str) -> str:
    return (boxed(gold) or [gold])[0]


@lru_cache(maxsize=4096)
def gold_texts(gold: str) -> tuple[str, ...]:
    """The reference answer as math-verify reads it; it may come boxed, between dollars, in prose, or bare."""
    if boxes := boxed(gold):
        return (box(boxes[0]),)
    formula = gold.strip().strip("$")
    return (gold,) if _DELIMITER.search(formula) else (box(formula),)
