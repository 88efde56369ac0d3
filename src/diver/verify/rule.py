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
from fractions import Fraction

from diver.types import Grade, Problem
from diver.verify.exact import plain, plain_number
from diver.verify.mathematics import boxed

LONGEST = 2000  # characters of an answer; a longer one is compared as it stands

_UNWRAP = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox|boldsymbol)\s*\{([^{}]*)\}")
_UNIT = re.compile(r"(?<=[\d}])\s*\\(?:text|mathrm|mbox)\s*\{[^{}\d]*\}(?:\^\{?[23]\}?)?$")
_DEGREES = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)")
_SHORT_FRACTION = re.compile(r"\\frac\s*(?:\{([^{}]+)\}|(\w))\s*(?:\{([^{}]+)\}|(\w))")
_SHORT_ROOT = re.compile(r"\\sqrt\s*(\w)")
_NAME = re.compile(r"^(?:[A-Za-z]|[A-Za-z]\([A-Za-z]\))\s*(?:=|\\in(?![a-z]))\s*")
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
    text = _DEGREES.sub("", _UNIT.sub("", plain(answer)))
    text = _UNWRAP.sub(r"\1", text).replace(r"\%", "").replace("%", "").replace(r"\$", "").replace("$", "")
    text = _NAME.sub("", text)
    text = _SHORT_FRACTION.sub(lambda m: rf"\frac{{{m[1] or m[2]}}}{{{m[3] or m[4]}}}", text)
    text = _SHORT_ROOT.sub(r"\\sqrt{\1}", text)
    return re.sub(r"\s+", "", text).rstrip(".")


def same(answer: str, gold: str) -> bool:
    """Equal texts, equal numbers to one part in a million, or sequences in equal brackets whose parts are the same."""
    if answer == gold or _same_number(answer, gold):
        return True
    if max(len(answer), len(gold)) > LONGEST:
        return False
    if answer.casefold() == gold.casefold() and answer.isalpha() and len(answer) > 1:
        return True
    return _same_sequence(answer, gold)


def _same_sequence(answer: str, gold: str) -> bool:
    left, right = _SEQUENCE.fullmatch(answer), _SEQUENCE.fullmatch(gold)
    if not left or not right or (left[1], left[3]) != (right[1], right[3]):
        return False
    parts = left[2].split(","), right[2].split(",")
    if len(parts[0]) != len(parts[1]) or len(parts[0]) < 2:
        return False
    return all(a == g or _same_number(a, g) for a, g in zip(*parts, strict=True))


def _same_number(answer: str, gold: str) -> bool:
    x, y = plain_number(answer), plain_number(gold)
    return x is not None and y is not None and abs(x - y) <= abs(y) * Fraction(1, 10**6)
