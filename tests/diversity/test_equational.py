import re
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diver.core.types import DiverError
from diver.diversity import equational_diversity, formulas


def test_equational_diversity_by_hand():
    group = [
        r"\(a\) and \[b\] and $c$",  # c alone is its own: 1/3
        r"$$ a $$, \(b\), \(b\)",  # nothing: 0/2
        r"so \( d \), then $d$",  # d: 1/1
        "no formula, 5 dollars",  # 0 by definition
    ]
    assert equational_diversity(group).tolist() == [1 / 3, 0, 1, 0]


def test_spaces():
    group = [r"\(x+1\)", r"\(x + 1\)", r"\( x+1 \)"]
    assert equational_diversity(group).tolist() == [0, 1, 0]
    assert equational_diversity(group, ignore_space=True).tolist() == [0, 0, 0]
    assert formulas("$a\n b$", ignore_space=True) == {"ab"}


def test_degenerate_groups():
    assert equational_diversity([r"\(x\)"]).tolist() == [0]
    assert equational_diversity([r"\(x\)"] * 3).tolist() == [0, 0, 0]
    assert equational_diversity(["", r"\(x\)"]).tolist() == [0, 1]
    with pytest.raises(ValueError, match="at least one response"):
        equational_diversity([])
    with pytest.raises(DiverError, match="choices: nested, paper"):
        formulas("", extractor="regex")  # type: ignore[arg-type]


NESTED = {
    # the four kinds, and their content stripped of white space
    r"\(a\) \[b\] $c$ $$d$$": {"a", "b", "c", "d"},
    "\\[\n  x = [1, (2)]\n\\]": {"x = [1, (2)]"},
    "$$\nx\n$$ and $ y $, $\nz\n$": {"x", "y", "z"},
    r"$x$$y$ and $$z$$$$w$$": {"x", "y", "z", "w"},
    r"\(\) $$ $$ $ $ \[ \]": set(),
    # escapes
    r"\$5 and \$6": set(),
    r"\\(a\\) \\[2pt] b \\]": set(),
    r"\\\(a\\\)": {"a\\\\"},
    r"$\$5 + \$6$": {r"\$5 + \$6"},
    r"\( \{ \) }": {r"\{"},
    # what stands inside belongs to the outer formula
    r"\[ x \text{ if $y$ and \(z\)} \]": {r"x \text{ if $y$ and \(z\)}"},
    r"$a \text{ if $b$ or $c$} d$ e $f$": {r"a \text{ if $b$ or $c$} d", "f"},
    r"$$a \text{ if $b$}$$": {r"a \text{ if $b$}"},
    r"\( a \( b \) c \)": {r"a \( b \) c"},
    r"\[ 3 \times $25 = $75 \]": {r"3 \times $25 = $75"},
    r"$$ 3 \times $25 = $75$$ x": {r"3 \times $25 = $75"},
    # what is never closed swallows nothing
    r"\[ a and \(b\) and $c$": {"b", "c"},
    r"\( a and \(b\)": {"b"},
    r"a \) and \(b\) \]": {"b"},
    r"$${ a $b$": {"b"},
    "$$ a \n \n $$b$$ and $c$": {"b", "c"},
    "$a\n\nb$ and $c$": {"c"},
    r"$f = {1, 2$ and $x$": {"x"},
    r"\(a} b\) $c} d$": {"a} b", "c} d"},
    # prices
    "costs $5 and $6": set(),
    "$5/$6, $5-$6, ($5)($6)": set(),
    "It costs $5, so $x = 5$ and $y$ too": {"x = 5", "y"},
    "pay $ 5 and $ 6.": set(),
    "$5 and $x$ is 3$.": {"x"},
    r"$\text{a $5} b$ c": {r"\text{a $5} b"},
    "then $ x $, $ 2y = 3 $.": {"x", "2y = 3"},
    "$3.50 each\n```\n56.0\n```\nThe cost is $\\boxed{56.0}$ dollars.": {r"\boxed{56.0}"},
    "$150 x 5 = $<<150*5=750>>750.": set(),
    "$5$, $2a + 4b = 70$, the $n$th": {"5", "2a + 4b = 70", "n"},
}


@pytest.mark.parametrize("text", NESTED)
def test_nested(text):
    assert formulas(text) == NESTED[text]


PAPER = (r"\\\[([^\]]*?)\\\]", r"\\\(([^\)]*?)\\\)", r"\$([^\$]*?)\$")
TEXTS = st.lists(st.sampled_from([*"\\[]()${} x\n", r"\[", r"\]", r"\(", r"\)", "$$", r"\$"]), max_size=40).map("".join)


@given(TEXTS)
@example(r"\[\]\[]\]\[[\]")
@example(r"\(\)\()\)\(\\)")
@settings(max_examples=5 * settings().max_examples)
def test_paper_is_the_three_regular_expressions(text):
    assert formulas(text, "paper") == {f for pattern in PAPER for f in re.findall(pattern, text)}


def test_paper_faults_are_kept():
    assert formulas("$$x$$", "paper") == {""}
    assert formulas(r"\(f(x) = 1\) \[ [1, 2] \]", "paper") == set()
    assert formulas("$5 and $6", "paper") == {"5 and "}


@given(TEXTS)
@settings(max_examples=5 * settings().max_examples)
def test_nested_gives_stripped_parts_of_any_text(text):
    assert all(f and f == f.strip() and f in text for f in formulas(text))


OPENERS = st.lists(st.sampled_from([r"\(", r"\[", "{", " x ", "5", r"\\", r"\$"]), max_size=10).map("".join)


@given(OPENERS, st.sampled_from(["", "$", "$$"]), OPENERS, st.sampled_from(["$z_0$", r"\(z_0\)", r"\[z_0\]"]))
@settings(max_examples=5 * settings().max_examples)
def test_openers_never_closed_swallow_nothing(before, dollar, after, formula):
    assert formulas(before + dollar + after + "\n\n" + formula) == {"z_0"}


ADVERSARIAL = {
    "dollars": "$",
    "spaced dollars": "$ ",
    "dollars and text": "$a",
    "display openers": r"\[",
    "inline openers": r"\(",
    "openers mixed": r"\(\[$ $$",
    "open braces": "${",
    "openers closed by the other": r"\(\[\]",
    "closers": r"\)\]}$$",
    "backslashes": "\\",
    "blank lines": "\n",
    "lines": "\n \t",
    "unclosed text": r"\[\text{$x",
}
MILLION = 1_000_000


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("extractor", ["nested", "paper"])
@pytest.mark.parametrize("size", [MILLION // 30, pytest.param(MILLION, marks=pytest.mark.slow)])
def test_a_million_characters(name, extractor, size):
    """Quadratic work would take hours here, and of a thirtieth of them minutes."""
    unit = ADVERSARIAL[name]
    text = unit * (size // len(unit))
    formulas(text, extractor)
    formulas(text + r" ] ) } \] \) $", extractor)
    assert len(formulas(r"\(z\) " + text, extractor)) >= 1


def test_deep_nesting():
    depth = MILLION // 20
    assert formulas(r"\(" * depth + "x" + r"\)" * depth) == {r"\(" * (depth - 1) + "x" + r"\)" * (depth - 1)}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_work_grows_with_the_text(name):
    """Function calls, counted: twice the text, about twice the calls."""

    def calls(repetitions):
        count = 0

        def tick(*_):
            nonlocal count
            count += 1

        text = ADVERSARIAL[name] * repetitions
        sys.setprofile(tick)
        try:
            formulas(text)
        finally:
            sys.setprofile(None)
        return count

    few, many = calls(2_000), calls(4_000)
    assert many <= 2.1 * few + 100
    assert many <= 30 * 4_000 * len(ADVERSARIAL[name])


def test_result_type():
    ed = equational_diversity([r"\(x\)", r"\(y\)"])
    assert ed.dtype == np.float64 and ed.shape == (2,)
