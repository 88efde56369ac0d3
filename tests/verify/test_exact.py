import math
import string

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from diver.types import Grade
from diver.verify.equivalence import equivalent
from diver.verify.exact import compare, value_of
from diver.verify.mathematics import gold_texts


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-0.5", -0.5),
        (r"\frac{3}{4}", 0.75),
        (r"\sqrt{34} + 3\sqrt{10}", math.sqrt(34) + 3 * math.sqrt(10)),
        (r"\frac{1}{2} - \frac{\sqrt{5}}{2}", (1 - math.sqrt(5)) / 2),
        (r"-2\pi", -2 * math.pi),
        (r"3 \cdot 10^{2}", 300),
        (r"(1+\sqrt{2})^2", (1 + math.sqrt(2)) ** 2),
        (r"-2^2", -4),
        (r"9^{\frac{1}{2}}", 3),
        (r"10^{-2} \times 5", 0.05),
    ],
)
def test_values(text, value):
    assert value_of(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "x",
            "2x",
            "2^10",
            "2^1.5",
            "1,2",
            "+3",
            "2--3",
            "1 2",
            "3(4)",
            "12%",
            "9^{9^{9^{9}}}",
            "(" * 5000,
            "7" * 10**6,
        ),
        *(r"\frac12", r"\sqrt2", r"\pi(2)", r"1/2\pi", r"\pi \frac{1}{2}", r"\sqrt{-1}", r"\sqrt{", r"\frac{1}{0}"),
        r"(-8)^{\frac{1}{3}}",
    ],
    ids=lambda text: repr(text[:16]),
)
def test_what_can_be_read_in_two_ways_or_has_no_real_value(text):
    assert value_of(text) is None


ATOMS = st.one_of(
    st.integers(0, 40).map(str),
    st.decimals(0, 20, places=2).map(str),
    st.just(r"\pi"),
    st.tuples(st.integers(0, 20), st.integers(1, 9)).map(r"\frac{{{0[0]}}}{{{0[1]}}}".format),
)
CLOSED = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        inner.map(r"\sqrt{{{}}}".format),
        inner.map("({})".format),
        st.tuples(inner, inner).map(r"\frac{{{0[0]}}}{{{0[1]}}}".format),
        st.tuples(inner, st.integers(-3, 9)).map("({0[0]})^{{{0[1]}}}".format),
        st.tuples(inner, st.integers(0, 12)).map("({0[0]})^{0[1]}".format),
        st.tuples(inner, st.sampled_from([" + ", "-", r" \cdot ", r"\times ", "*", "", " "]), inner).map("".join),
    ),
    max_leaves=4,
)


@hypothesis_settings(max_examples=hypothesis_settings().max_examples // 2)
@given(CLOSED, CLOSED)
def test_math_verify_agrees_with_every_decision(answer, gold):
    if compare(answer, gold) is Grade.WRONG:
        assert equivalent([rf"\boxed{{{answer}}}"], gold_texts(gold)) is False
    assert compare(answer, answer) is Grade.CORRECT


@pytest.mark.parametrize(
    ("answer", "gold", "grade"),
    [
        (r"12\%", "12", Grade.CORRECT),
        (r"12.5\%", "12.5", Grade.CORRECT),
        ("0.12", "12%", Grade.CORRECT),
        (r"50\%", r"\frac{1}{2}", Grade.CORRECT),
        (r"\frac{1}{2}\%", r"0.5\%", Grade.CORRECT),
        (r"0\%", "0", Grade.CORRECT),
        (r"12\%", "1.2", Grade.WRONG),
        (r"0.5\%", r"\frac{1}{2}", None),
        (r"0.5\%", "0.50", None),
        (r"\frac{1}{2}\%", "1/2", None),
        ("3/2", r"1.5\%", None),
        (r"2\frac{0}{4}", "2", None),
    ],
)
def test_per_cent_is_a_count_or_a_share_and_math_verify_decides_the_rest(answer, gold, grade):
    assert compare(answer, gold) is grade
    if grade is None:
        assert equivalent([rf"\boxed{{{answer}}}"], gold_texts(gold)) is False


def test_math_verify_takes_no_capital_for_another():
    first, *others = string.ascii_uppercase
    assert all(compare(first, other) is Grade.WRONG for other in others) and compare("e", "f") is None
    boxes = [rf"\boxed{{{letter}}}" for letter in string.ascii_uppercase]
    assert all(equivalent([a for a in boxes if a != gold], [gold]) is False for gold in boxes)


def test_a_long_answer_is_compared_but_not_kept():
    assert compare("7" * 10**6, "5") is None
    assert compare("7" * 10**6, "7" * 10**6) is Grade.CORRECT
