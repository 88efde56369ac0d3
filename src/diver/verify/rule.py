"""A rule grader of the kind the paper's release graded with: the last box after the thought, strings and numbers, no
algebra. For numbers that are to be compared with the release's, not for the truth.

    </think> So the answer is \\boxed{\\dfrac 12}.      correct for \\frac{1}{2}, 1/2 and 0.5
    </think> So the answer is 1/2.                     no answer: no box
    So the answer is \\boxed{1/2}.                      no answer: the thought never ended
    </think> \\boxed{(x+1)^2}                           wrong for x^2+2x+1: that takes algebra

A prompt that ends with an opening `<think>` starts the response inside the thought, so only `</think>` is required.
Known answers come boxed, between dollars or bare; any of several boxes that stand together as a list counts as a list.
"""

from __future__ import annotations

import re

from diver.types import Grade, Problem
from diver.verify.exact import plain, plain_number
from diver.verify.mathematics import boxed

LONGEST = 2000  # characters of an answer; a longer one is compared as it stands

_REWRITES = [
    (re.compile(r"(?<=[\d}])\s*\\(?:text|mathrm|mbox)\s*\{[^{}\d]*\}(?:\^\{?[23]\}?)?$"), ""),  # a unit
    (re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)"), ""),
    (re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox|boldsymbol)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\?[%$]"), ""),
    (re.compile(r"^(?:[A-Za-z]|[A-Za-z]\([A-Za-z]\))\s*(?:=|\\in(?![a-z]))\s*"), ""),  # x =
    (re.compile(r"\\frac\s*(?:\{([^{}]+)\}|(\w))\s*(?:\{([^{}]+)\}|(\w))"), r"\\frac{\1\2}{\3\4}"),
    (re.compile(r"\\sqrt\s*(\w)"), r"\\sqrt{\1}"),
    (re.compile(r"\s+"), ""),
]
_SEQUENCE = re.compile(r"(\\\{|[(\[])?(.*?)(\\\}|[)\]])?", re.DOTALL)


def grade(response: str, problem: Problem) -> Grade:
    """Grader "rule": correct, wrong or no_answer. Linear in the length of the response."""
    _, end, text = response.rpartition("</think>")
    answers = boxed(text) if end else []
    if not any(answer.strip() for answer in answers):
        return Grade.NO_ANSWER
    gold = normalise((boxed(problem.answer) or [problem.answer])[0])
    return Grade.CORRECT if any(same(normalise(answer), gold) for answer in answers) else Grade.WRONG


def normalise(answer: str) -> str:
    """The answer without units, signs of money, per cent and degrees, "x =", spaces, and with one way to write a fraction."""
    if len(answer) > LONGEST:
        return answer
    text = plain(answer)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text.rstrip(".")


def same(answer: str, gold: str) -> bool:
    """Equal texts, equal numbers to one part in a million, or sequences in equal brackets whose parts are the same."""
    if _equal(answer, gold) or (len(answer) > 1 and answer.isalpha() and answer.casefold() == gold.casefold()):
        return True
    left, right = _SEQUENCE.fullmatch(answer), _SEQUENCE.fullmatch(gold)
    if not left or not right or (left[1], left[3]) != (right[1], right[3]):
        return False
    parts, others = left[2].split(","), right[2].split(",")
    return 1 < len(parts) == len(others) and all(map(_equal, parts, others))


def _equal(answer: str, gold: str) -> bool:
    x, y = plain_number(answer), plain_number(gold)
    return answer == gold or (x is not None and y is not None and abs(x - y) <= abs(y) / 10**6)
