import pytest

from diver.core.types import Grade
from diver.grading.equivalence import equivalent
from diver.grading.exact import compare
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
    assert compare(answer, gold) is grade
    if grade is None:
        assert equivalent([rf"\boxed{{{answer}}}"], gold_texts(gold)) is False


@pytest.mark.parametrize(
    ("answer", "gold", "grade"),
    [
        ("no~solution", r"\text{no solution}", Grade.CORRECT),
        (r"\text{ABC}", "abc", None),  # letters that may be variables, whose capitals are others
        ("abc", r"\text{ABC}", Grade.CORRECT),
        (r"\text{1 12 apples}", r"\text{112 apples}", None),
        ("CBA", "ABC", Grade.WRONG),
        ("BA", "AB", None),
        (r"\triangle ABC", "ABC", None),
        (r"5 \text{ million dollars}", r"500 \text{ million cents}", Grade.CORRECT),
        (r"5 \text{ million dollars}", r"5 \text{ million cents}", Grade.WRONG),
        (r"5 \text{ cm}", r"5 \text{ cents}", Grade.WRONG),
        (r"5 \text{ bags}", r"5 \text{ boxes}", Grade.CORRECT),  # other units are not compared
        (r"6 \text{ to } 10", r"3 \text{ to } 5", Grade.WRONG),  # as ranges; as ratios they are the same
        (r"6 \text{ to } 10", "3:5", Grade.CORRECT),
        ("10 a.m.", "10:00 AM", Grade.CORRECT),
        (r"10\%\text{ decrease}", r"20\%\text{ decrease}", None),
    ],
)
def test_words_are_compared_where_both_answers_have_them(answer, gold, grade):
    assert compare(answer, gold) is grade


def test_a_long_answer_is_compared_but_not_kept():
    assert compare("7" * 10**6, "5") is None
    assert compare("7" * 10**6, "7" * 10**6) is Grade.CORRECT
