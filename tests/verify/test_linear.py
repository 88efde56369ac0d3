"""Whatever reads a model's text before the killable workers do takes time in proportion to its length."""

import importlib
import inspect
import pkgutil
import re
import time
from collections import deque
from functools import partial

import pytest

import diver.verify
from diver.data import countdown
from diver.types import Problem
from diver.verify import bounds, choice, equivalence, exact, extraction, mathematics, notation, prose, thought

SMALL, LARGE = 500, 8_000  # characters; work that is quadratic grows 256 times between them, linear work 16 times
MOST = 64
NOISE_S = 2e-4  # of the processor, below which growth cannot be told

MATH, OPTIONS = Problem("p", "q", "5"), Problem("p", "Which?\nA) red\nB) green", "B", verifier="choice")
SCANNERS = [
    *(extraction.stated, extraction.is_stated, extraction.boxed, extraction.last_line, extraction.last_number),
    *(extraction.last_box, extraction.unboxed, notation.unify, notation.respell, exact.plain, exact.plain_number),
    *(prose.picked_number, thought.in_thought, thought.after_thought, equivalence._parts, notation.content_of),
    *(equivalence._counted, equivalence._name, mathematics.has_answer, mathematics.has_gsm8k_answer, choice.listed),
    *(countdown.parse, lambda text: bounds.within(text, bounds.Bounds(length=10**9))),
    lambda text: exact.compare(text, "5"),
    lambda text: mathematics.grade(text, MATH),
    lambda text: mathematics.grade_gsm8k(text, MATH),
    lambda text: mathematics.final_answer(text, MATH),
    lambda text: choice.grade(text, OPTIONS),
]
UNITS = r"""
1|1 |1,|1.|1/1 |1 1/2 |1 000|-1|9^|^|_{|{|}|{}|(|)|[|()|$|$1$|\|\\|\ |\,|\text{|\text{ and }|5 \text{a}|\frac{|\frac{1}{2}
\boxed|\boxed{|\boxed{1}|\boxed{1}, |\boxed 1 |\fbox{|√|√(|√ |**(|\hspace{|\mathbb |1e1|1\times 10^{1|\gcd(|\gcd(1,1)
=|x=|x = 1, |x_{a}(b)=|a|ab |and |or |for part (a)|is |answer |the answer is |final answer is |i hope|final answer is 1 i hope
####|#### 1|<think>|</think>|A) |(A) |A|A |**A|*|option |option A is |%|:|;|.|,|\{x|\{x|x<|90^\circ|million |\left|~
""".strip().replace("\n", "|")
UNITS_OF_LINES = ["|", " ", "\n", " \n", "A\n", "A) 1\n", "#### 1\n", "answer\n"]
NESTED = [
    ("\\boxed{", "}"),
    ("\\boxed{\\text{", "}}"),
    ("{", "}"),
    ("\\boxed{√(", ")}"),
    ("9^{", "}"),
    ("\\frac{1}{", "}"),
]
BEGUN = [("answer", " "), ("answer is", "\n"), ("option A", " ")]


def texts(size, before, after):
    """One unit again and again, nested ones, and one after a word, each between `before` and `after`."""
    units = [*UNITS.split("|"), *UNITS_OF_LINES]
    inner = [unit * (size // max(1, len(unit))) for unit in units]
    inner += [left * (size // len(left + right)) + right * (size // len(left + right)) for left, right in NESTED]
    inner += [word + unit * size for word, unit in BEGUN]
    return [before + text + after for text in inner]


def uses():
    """Every compiled regular expression of the package with each method by which it is used, or sub in a list of rules."""
    modules = [importlib.import_module(m.name) for m in pkgutil.iter_modules(diver.verify.__path__, "diver.verify.")]
    source = "".join(inspect.getsource(module) for module in modules)
    functions = {}
    for module in modules:
        for name, value in vars(module).items():
            rules = [rule[0] for rule in value] if isinstance(value, list) and name.isupper() else []
            for number, pattern in enumerate([value] if isinstance(value, re.Pattern) else rules):
                methods = {"finditer"} if rules else {*re.findall(rf"\b{name}(?:\.(\w+)|, )", source)}
                assert methods, name
                for method in methods:
                    run = getattr(pattern, method.replace("sub", "finditer") or "finditer")
                    functions[f"{module.__name__}.{name} {number} {method}"] = partial(through, run)
    return functions


def through(run, text):
    result = run(text)
    if result is not None and not isinstance(result, re.Match | list):
        deque(result, maxlen=0)


def seconds(function, text):
    start = time.process_time()
    function(text)
    return time.process_time() - start


def grows(function, small, large):
    """Whether it takes more than MOST times as long on the large text, the least of three times."""
    for _ in range(3):
        spent = seconds(function, large)
        if spent <= MOST * NOISE_S or spent <= MOST * seconds(function, small):
            return False
    return True


@pytest.mark.parametrize(
    "frame", [("", ""), pytest.param(("\\boxed{5 ", " x}"), marks=pytest.mark.slow)], ids=["bare", "boxed"]
)
def test_every_pattern_and_scanner_is_linear(frame):
    """The processor's time on one text against that on a shorter one of the same kind, so that no machine is too slow."""
    functions = uses()
    assert len(functions) > 60
    functions |= {f"scanner {i}": scanner for i, scanner in enumerate(SCANNERS)}
    slow = [
        (name, large[:40])
        for small, large in zip(texts(SMALL, *frame), texts(LARGE, *frame), strict=True)
        for name, function in functions.items()
        if grows(function, small, large)
    ]
    assert slow == []
