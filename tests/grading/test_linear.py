"""Whatever reads a model's text before the killable workers do takes steps in proportion to its length.

Steps and not seconds: a ratio of times depends on the processor, on its caches and on what else runs. The steps are
those of a backtracking matcher that gives the same matches as `re` (`steps.py`), and they are equal on every machine.
From one text to one of twice its length, linear work grows 2 times and quadratic work 4 times.
"""

import importlib
import inspect
import pkgutil
import re
import sys
from collections import deque
from functools import partial

import pytest
from steps import CountedText, Steps, TooMany, count, counted, matcher_of

import diver.grading
from diver.core.patterns import Later
from diver.core.types import Problem
from diver.grading import (
    bounds,
    choice,
    clock,
    conditions,
    echo,
    equivalence,
    exact,
    extraction,
    get_grader,
    measures,
    names,
    notation,
    prose,
    spelling,
)
from diver.tasks import countdown

SMALL, LARGE = 300, 600  # characters; longer than the bounds of repetitions, up to which work may grow faster
MOST, FREE = 3, 500  # the growth that is refused, and the steps that are not compared
HUGE = 200_000  # steps that no linear work takes on SMALL characters

MATH, OPTIONS = Problem("p", "q", "5"), Problem("p", "Which?\nA) red\nB) green", "B", verifier="choice")
SCANNERS = [
    *(extraction.stated, extraction.boxed, extraction.last_line, extraction.last_number),
    *(extraction.last_box, extraction.unboxed, spelling.unify, notation.respell, exact.plain, exact.plain_number),
    *(prose.picked_number, extraction.in_thought, extraction.after_thought, equivalence._parts, notation.content_of),
    *(get_grader("math").holds_answer, get_grader("gsm8k").holds_answer, choice.listed),
    *(countdown.parse, lambda text: bounds.within(text, bounds.Bounds(length=10**9))),
    lambda text: bounds.bounded(bounds.PendingComparison((text,), ("5",)), bounds.Bounds(length=10**9)),
    *(measures.unit_free, names.with_backslashes, spelling.plain_signs),
    lambda text: clock.compare_times(text, "9:30"),
    lambda text: deque(conditions.without_conditions("a_n = 2n, n \\geq 1", text), maxlen=0),
    *(prose.said, lambda text: prose.says(text, "even")),
    *(
        lambda text, by=by: by.answer_end(text, MATH, True)
        for by in (get_grader("math"), get_grader("maze"), get_grader("reasoning-gym"))
    ),
    lambda text: get_grader("choice").answer_end(text, OPTIONS, True),
    lambda text: exact.compare_exactly(text, "5"),
    lambda text: echo.without_echoes(text, MATH),
    echo._tokens.__wrapped__,
    lambda text: get_grader("math").grade(text, MATH),
    lambda text: get_grader("gsm8k").grade(text, MATH),
    lambda text: get_grader("math").final_answer(text, MATH),
    lambda text: get_grader("choice").grade(text, OPTIONS),
]
UNITS = r"""
1|1 |1,|1.|1/1 |1 1/2 |1 000|-1|9^|^|_{|{|}|{}|(|)|[|()|$|$1$|\|\\|\ |\,|\text{|\text{ and }
5 \text{a}|\frac{|\frac{1}{2}
\boxed|\boxed{|\boxed{1}|\boxed{1}, |\boxed 1 |\fbox{|√|√(|√ |**(|\hspace{|\mathbb |1e1|1\times 10^{1|\gcd(|\gcd(1,1)
=|x=|x = 1, |x_{a}(b)=|a
ab |and |or |for part (a)|is |answer |the answer is |final answer is |i hope|final answer is 1 i hope
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


def modules():
    found = pkgutil.iter_modules(diver.grading.__path__, "diver.grading.")
    return [*(importlib.import_module(module.name) for module in found), countdown]


def forget():
    """Empty what the package remembers about texts: a text that an earlier test has read would take fewer steps."""
    for module in modules():
        for value in vars(module).values():
            if hasattr(value, "cache_info") and value.cache_info().maxsize is not None:
                value.cache_clear()


def uses():
    """Name -> every regular expression of the package and a method by which it is used; those of a list by finditer."""
    sources = {module: inspect.getsource(module) for module in modules()}
    found = {}
    for module, source in sources.items():
        for name, given in vars(module).items():
            value = given.compiled if isinstance(given, Later) else given
            used = source if name.startswith("_") else "".join(sources.values())
            rows = value if isinstance(value, list) and name.isupper() else []
            rules = [row[0] for row in rows if isinstance(row[0], re.Pattern)]
            for number, pattern in enumerate([value] if isinstance(value, re.Pattern) else rules):
                methods = {"finditer"} if rules else {*re.findall(rf"\b{name}(?:\.(\w+)|[,)])", used)}
                assert methods, name
                for method in sorted({m if m in ("match", "fullmatch", "search") else "finditer" for m in methods}):
                    found[f"{module.__name__}.{name} {number} {method}"] = (pattern, method)
    return found


USES = uses()


def steps_of(pattern, method):
    """A function of a text and a limit: the steps of one call."""

    steps = Steps()
    matcher = matcher_of(pattern, steps)

    def run(text, limit):
        steps.taken, steps.limit = 0, limit
        getattr(matcher, method)(text)
        return steps.taken

    return run


def is_linear(run, small, large):
    try:
        run(large, MOST * run(small, HUGE) + FREE)
    except TooMany:
        return False
    return True


@pytest.fixture(autouse=True)
def deep():
    """A match of n repetitions is n calls deep."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.slow
@pytest.mark.parametrize("frame", [("", ""), ("\\boxed{5 ", " x}")], ids=["bare", "boxed"])
@pytest.mark.parametrize("name", USES)
def test_every_pattern_is_linear(frame, name):
    run, pairs = steps_of(*USES[name]), zip(texts(SMALL, *frame), texts(LARGE, *frame), strict=True)
    slow = [large[:40] for small, large in pairs if not is_linear(run, small, large)]
    assert slow == []


def test_the_patterns_are_found():
    assert len(USES) > 60 and any("choice._STATEMENT" in name for name in USES)


@pytest.fixture
def steps_of_scanner(monkeypatch):
    """A function of a scanner, a text and a limit: the steps of one call, whatever was read before."""
    steps, files = Steps(), {inspect.getfile(module) for module in modules()}
    monkeypatch.setattr(
        bounds, "MOST_POWERS", 16
    )  # each is followed to its end; as the bound of a repetition, below SMALL

    def run(scanner, text, limit):
        forget()
        steps.taken, steps.limit = 0, limit
        return count(scanner, text, steps, files)

    with counted(modules(), steps, monkeypatch):
        yield run


@pytest.mark.first
@pytest.mark.slow
@pytest.mark.parametrize("scanner", SCANNERS, ids=range(len(SCANNERS)))
def test_every_scanner_is_linear(scanner, steps_of_scanner):
    run, pairs = partial(steps_of_scanner, scanner), zip(texts(SMALL, "", ""), texts(LARGE, "", ""), strict=True)
    slow = [large[:40] for small, large in pairs if not is_linear(run, small, large)]
    assert slow == []


def test_a_text_that_was_read_before_takes_as_many_steps(steps_of_scanner):
    text = "\\boxed{\\text{" * 20 + "}}" * 20
    first, second = (steps_of_scanner(lambda text: get_grader("math").grade(text, MATH), text, HUGE) for _ in range(2))
    assert first == second > 1000


@pytest.mark.parametrize("pattern", [r"\s+$", r"(a|ab)*c", r"(?:a+)+b", r"\(.*?\)y", r"a[^b]*c", r"(?<=a)b*c|b+c"])
def test_a_quadratic_or_exponential_pattern_is_caught(pattern):
    texts = [(unit * 100 + "x", unit * 200 + "x") for unit in (" ", "a", "(", "b")]
    assert not all(is_linear(steps_of(re.compile(pattern), "search"), *pair) for pair in texts)


def cuts(text):
    while text:
        text = text[1:]


def looks_back(text):
    return [text.find("b") for _ in text]


def searches_again(text):
    return [re.search("b", text[i:]) for i in range(len(text))]


def matches_on(text):
    return [re.compile(r"a*b").match(text, i) for i in range(len(text))]


def goes_twice(text):
    return sum(a == b for a in text for b in text)


def goes_once(text):
    return [re.sub("b+", "", text), *(a for a in text if a == "b")]


@pytest.mark.parametrize("function", [cuts, looks_back, searches_again, matches_on, goes_twice, goes_once])
def test_a_quadratic_function_is_caught(function, monkeypatch):
    steps = Steps()

    def run(text, limit):
        steps.taken, steps.limit = 0, limit
        return count(function, CountedText(text), steps, {__file__})

    with counted([], steps, monkeypatch):
        assert is_linear(run, "a" * 100, "a" * 200) == (function is goes_once)


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)], ids=lambda n: f"1 of {n}")
def test_the_matcher_gives_the_matches_of_re(every):
    """So its steps are those of the same search: the patterns of the package, and a few forms beside, on every text."""
    forms = [r"(a|ab)(c|bcd)*", r"(?>a+)b?", r"a*?b", r"(?:a{2,3}?){1,2}", r"(?i)AB+", r"(?P<x>a+)b(?P=x)", r"\bA|$"]
    patterns = [*dict.fromkeys(pattern for pattern, _ in USES.values())][::every] + [re.compile(form) for form in forms]
    words = [*texts(12, "", ""), *texts(12, "\\boxed{5 ", " x}"), "abcabaabcdaabaa\nAaB", ""]
    for pattern in patterns:
        matcher = matcher_of(pattern, Steps())
        for text in words:
            assert matcher.finditer(text) == [found.span() for found in pattern.finditer(text)], (pattern, text)
            for method in ("match", "fullmatch"):
                found = getattr(pattern, method)(text)
                assert getattr(matcher, method)(text) == (found.end() if found else None), (pattern, method, text)
