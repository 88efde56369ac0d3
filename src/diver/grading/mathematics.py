"""Mathematical answers: the last `\\boxed{...}`, compared with the reference answer by math-verify 0.9.0.

What counts as the answer, in this order:

1. Only what follows the last `</think>`, if there is one: an answer inside the thought does not count then.
   (For every grader, a thought that is not closed holds no answer. A response that was cut only counts with a complete
   answer: `grading`.)
2. The last of: the boxes (`\\boxed{...}`, `\\boxed 5`, `\\fbox{...}`), `<answer>` tags, Minerva's closing sentence
   "The final answer is ... I hope it is correct." Boxes that stand together as a list (`\\boxed{1}, \\boxed{2}`;
   `x=\\boxed{1}` and `y=\\boxed{2}`) are one answer: all of them, or none. See `extraction`.
3. Without these, a sentence "the answer is 5." in any language, of which the last counts; and for a reference answer
   in words the last sentence. See `prose`.
4. "math": what math-verify finds in the last 4,096 characters ("the answer is ...", else the last formula, else the
   last number). "gsm8k": the number of its last line "#### n", before 3; else the last number of the response.

`grade` decides answers that need no algebra (`exact`, `prose`). Any other answer is a `PendingComparison`, which
`equivalence` decides in a worker process (`workers`). `bounded` keeps from SymPy what only costs time and memory.
An answer beyond the bounds is wrong; a reference answer beyond them is an error. An answer that is written exactly as
the reference answer is correct, whatever its size. A formula of the problem that is not worked out is wrong (`echo`).
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from diver.core.extras import require
from diver.core.types import Grade, Problem
from diver.grading import answer_end, prose
from diver.grading.base import Grader, PendingCall, defer
from diver.grading.bounds import PendingComparison
from diver.grading.echo import is_echo, without_echoes
from diver.grading.exact import compare_exactly, plain
from diver.grading.extraction import (
    NUMBER,
    TAIL,
    WORD,
    after_thought,
    boxed,
    known_answer,
    last_line,
    last_number,
    stated,
)
from diver.grading.notation import box

_LIST = re.compile(r",\s|;|\b(?:and|or)\b")
_DELIMITER = re.compile(r"(?<!\\)\$|\\\(|\\\[")


class Mathematics(Grader):
    """Grader "math"."""

    name = "math"
    rules: int | str = 21
    packages: tuple[str, ...] = ("math-verify", "latex2sympy2-extended", "sympy")
    template = "boxed"

    def grade(self, response: str, problem: Problem) -> Grade | PendingComparison | PendingCall:
        text = after_thought(response)
        statement = stated(text)
        if statement and not statement.prose:
            return _settle(statement.readings, problem)
        tail = (statement.readings[0] if statement else text)[-TAIL:].strip()
        if not tail:
            return Grade.WRONG if statement and statement.given_up else Grade.NO_ANSWER
        return _of_free_text(tail, problem)

    def final_answer(self, response: str, problem: Problem) -> str | None:
        answers = self._answers(response)
        return plain(answers[0]) or None if answers else None

    def answer_end(self, response: str, problem: Problem, correct: bool) -> int | None:
        return answer_end.stated_answer(response, problem.answer, correct)

    def _answers(self, response: str) -> Sequence[str]:
        """The readings of the last box, else the last number."""
        text = after_thought(response)
        statement = stated(text)
        return statement.readings if statement and not statement.prose else last_number(text)


class GSM8K(Mathematics):
    """Grader "gsm8k": as "math", but without a box the last number of the response is the answer."""

    name = "gsm8k"

    def holds_answer(self, response: str) -> bool:
        return super().holds_answer(response) or bool(last_line(after_thought(response), ended=True))

    def grade(self, response: str, problem: Problem) -> Grade | PendingComparison:
        answers = self._answers(response)
        return _settle(answers, problem) if answers else Grade.NO_ANSWER

    def _answers(self, response: str) -> Sequence[str]:
        """The graded answer, for which the response votes."""
        text = after_thought(response)
        statement = stated(text)
        if statement and not statement.prose:
            return statement.readings
        text = statement.readings[0] if statement else text
        if line := last_line(text):
            return line
        content = plain(prose.said(text[-TAIL:]))
        value = content if _LIST.search(content) else content.rpartition("=")[2].strip()
        if prose.is_expression(content) and not NUMBER.fullmatch(value):
            return [content]
        return last_number(content) or last_number(text)


def _of_free_text(tail: str, problem: Problem) -> Grade | PendingComparison:
    """The last characters of a response, or a statement in prose, against the reference answer."""
    gold = problem.answer
    reference = known_answer(gold)
    if (named := prose.says(tail, reference)) is not None:
        return Grade.CORRECT if named else Grade.WRONG
    if not (tail := without_echoes(tail, problem)):
        return Grade.WRONG
    if content := prose.said(tail):
        return _settle([content], problem)
    golds, number = gold_texts(gold), prose.picked_number(tail)
    if number and number in (numbers := last_number(tail)[0].split(", ")) and len(numbers) > 1:
        return _settle([", ".join(numbers)], problem)  # "5, or maybe 6"
    settled = compare_exactly(number, reference) if number else None
    if Grade.CORRECT in (settled, compare_exactly(tail, reference)):
        return Grade.CORRECT
    if "\n" in tail or len(tail) > 256 or _DELIMITER.search(tail) or len(WORD.findall(tail)) > 2:
        return settled or PendingComparison((tail,), golds)
    # A short line without delimiters is LaTeX without its dollars if it has a command, else LaTeX or a sentence.
    texts = (box(tail),) if "\\" in tail else (tail, box(tail))
    return PendingComparison(texts, golds)


def _settle(answers: Sequence[str], problem: Problem) -> Grade | PendingComparison:
    gold = problem.answer
    if known_answer(gold).count("=") > 1:  # named values are compared by name
        answers = answers[:1]
    if not any(plain(answer) for answer in answers):
        return Grade.NO_ANSWER
    answers = [answer for answer in answers if not is_echo(answer, problem)]
    grades = [compare_exactly(answer, known_answer(gold)) for answer in answers]
    if Grade.CORRECT in grades:
        return Grade.CORRECT
    if all(grade is Grade.WRONG for grade in grades):
        return Grade.WRONG
    return PendingComparison(tuple(box(answer) for answer in answers), gold_texts(gold))


@lru_cache(maxsize=4096)
def gold_texts(gold: str) -> tuple[str, ...]:
    """The reference answer as math-verify reads it; it may come boxed, between dollars, in prose, or bare."""
    formula = known_answer(gold).strip().strip("$")
    return (gold,) if _DELIMITER.search(formula) and not boxed(gold) else (box(formula),)


class MathVerify(Mathematics):
    """Grader "math-verify", for comparison with ours, whose final answers and solutions it shares.

    math-verify by itself: what it finds in the whole response, against what it finds in the reference answer. Its own
    timeouts are off, since they need the main thread and do not stop SymPy: the worker process is killed instead.
    """

    name = "math-verify"
    rules = 1

    def grade(self, response: str, problem: Problem) -> PendingCall:
        require("math_verify")
        return defer(by_math_verify, response, problem, warm="math_verify")  # its import takes a second


def by_math_verify(response: str, problem: Problem) -> Grade:
    """In a worker: no answer if math-verify finds none, and an error if it cannot read the reference answer."""
    from math_verify import parse, verify

    texts = [problem.answer, f"${problem.answer}$", f"\\boxed{{{problem.answer}}}"]
    golds = [parse(text, parsing_timeout=None) for text in texts]
    gold = next((g for g in sorted(golds, key=len, reverse=True) if g), None)
    if gold is None:
        return Grade.ERROR
    answer = parse(response, parsing_timeout=None)
    if not answer:
        return Grade.NO_ANSWER
    return Grade.CORRECT if verify(gold, answer, timeout_seconds=None) else Grade.WRONG
