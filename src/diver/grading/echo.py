r"""Whether an answer repeats the question: a formula of the problem that is not worked out.

To "What is 17 x 23?" the answer `17 \times 23` has the right value and solves nothing, and a policy that is rewarded
for it learns to copy (tests/grading/hacks.toml). An answer is an echo if it holds an operation, the problem has
its signs next to each other in any order, and the reference answer is written differently. A number is no echo in any
form: `-2/5`, `1\frac12`, `25\%`, `3.2 \times 10^5`, `0.\overline{3}`. A fraction that can be reduced is a division.
"""

import math
import re
from functools import lru_cache

from diver.core.types import Problem
from diver.grading.exact import plain, quantity
from diver.grading.extraction import known_answer
from diver.grading.spelling import unify

LONGEST = 512  # characters of an answer that may be an echo

_OPERATIONS = frozenset(
    "+ - * / ^ ! | binom sqrt log ln exp sin cos tan cot sec csc arcsin arccos arctan gcd lcm max min bmod pmod lfloor"
    " lceil".split()
)
_TIMES = re.compile(r"\\(?:times|cdot)(?![A-Za-z])|(?<=\d)\s?[xX]\s?(?=\d)")
_TOKEN = re.compile(  # words after a number, brackets, spaces and punctuation are no tokens
    r"\\(?:text|mathrm|mbox)\{[^{}\d]*\}|\\[^A-Za-z]|[\s(){}$~.:?]|(?P<token>\\[A-Za-z]+|\d+(?:\.\d+)?|.)"
)
_WRITTEN = re.compile(r"\$[^$]{1,256}\$|\\[(\[].{1,256}?\\[)\]]|\d[-\d\s.+*/^()×÷!]*[\d)!]", re.DOTALL)
_PARTS = re.compile(r"[,;]")
_INTEGER = re.compile(r"[-\s$]*\d+[\s$]*")
_NUMBER = re.compile(r"-?[1-9](?:\.\d+)?\s?(?:\\times|\\cdot|\*)\s?10\^\{?-?\d+\}?|-?\d*\.\d*\\overline\{\d+\}")
_FRACTION = re.compile(r"(\d{1,40})(?:/|\}\{)(\d{1,40})")


def is_echo(answer: str, problem: Problem) -> bool:
    """Whether `answer` is a formula of the problem, not worked out; also after a name, `N = 17 \\times 23`."""
    sides = answer.split("=")
    if len(answer) > LONGEST or any(map(_INTEGER.fullmatch, sides)):  # a cheap test that decides most answers
        return False
    formulas = [sorted(tokens) for side in sides if not _OPERATIONS.isdisjoint(tokens := _tokens(side))]
    if not formulas or any(map(_is_number, sides)):
        return False
    question, gold = _tokens(problem.question), known_answer(problem.answer)
    gold_formulas = [sorted(_tokens(side)) for side in (gold, *gold.split("="))]
    return all(_stands_in(formula, question) and formula not in gold_formulas for formula in formulas)


def without_echoes(text: str, problem: Problem) -> str:
    """The text without the formulas and the arithmetic that are echoes."""
    return _WRITTEN.sub(lambda match: " " if is_echo(match[0], problem) else match[0], text).strip()


def _is_number(side: str) -> bool:
    """Whether a side of an equation is a number, or a list or a point of numbers."""
    return all(_is_one(entry.strip()) for entry in _PARTS.split(plain(side).strip("()[]")))


def _is_one(text: str) -> bool:
    division = _FRACTION.search(text)
    is_reduced = not division or math.gcd(*map(int, division.groups())) == 1
    return is_reduced and (quantity(text)[0] is not None or bool(_NUMBER.fullmatch(text)))


def _stands_in(formula: list[str], question: tuple[str, ...]) -> bool:
    n = len(formula)
    return {*formula} <= {*question} and any(
        sorted(question[i : i + n]) == formula for i in range(len(question) - n + 1)
    )


@lru_cache(maxsize=4096)
def _tokens(text: str) -> tuple[str, ...]:
    """The numbers, letters, commands and operations of a formula or of a text with formulas."""
    text = _TIMES.sub("*", unify(text)).replace(r"\frac", "/")
    return tuple(match["token"].lstrip("\\") for match in _TOKEN.finditer(text) if match["token"])
