import pytest

from diver.core.types import Grade
from diver.grading.equivalence import equivalent
from diver.grading.exact import compare_exactly
from diver.grading.mathematics import gold_texts


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
        ("3/2", r"1.5\%", Grade.CORRECT),
        (r"2\frac{0}{4}", "2", None),
    ],
)
def test_per_cent_is_a_count_or_a_share_and_math_verify_decides_the_rest(answer, gold, grade):
    assert compare_exactly(answer, gold) is grade
    if grade is None:
        assert equivalent([rf"\boxed{{{answer}}}"], gold_texts(gold)) is False


@pytest.mark.parametrize(
    ("answer", "gold", "grade"),
    [
        (r"\text{ABC}", "abc", None),  # letters that may be variables, whose capitals are others
        (r"\triangle ABC", "ABC", None),
        (r"5 \text{ bags}", r"5 \text{ boxes}", Grade.CORRECT),  # units are not compared
        ("10 a.m.", "10:00 AM", Grade.CORRECT),
        ("4343_7", "4343_6", Grade.WRONG),
    ],
)
def test_fonts_and_units_do_not_matter(answer, gold, grade):
    assert compare_exactly(answer, gold) is grade


def test_a_long_answer_is_compared_but_not_kept():
    assert compare_exactly("7" * 10**6, "5") is None
    assert compare_exactly("7" * 10**6, "7" * 10**6) is Grade.CORRECT
