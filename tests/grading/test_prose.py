import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from diver.grading.equivalence import _parse
from diver.grading.exact import plain_number
from diver.grading.languages import TABLE
from diver.grading.prose import SAID, picked_number, statements

# Each word that begins a statement, and words that only look like one.
STATED = [f"So {word.replace('?', '')} is 7." for word in TABLE["answer"]]
STATED += [
    "Wait, actually it is 6",
    "no, 6",
    "Hmm, it should be 6.",
    "sorry, I meant 6",
    "oops: it is 6",
    "correction: 6",
]
STATED += ["scratch that, 6", "Actually, 6.", "I know nobody who notes it is 6", "another hmmm. 6", "no answer"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("so there are\n#### 1,234", "1234"),
        ("Thus $5 + $6.\nA: 11", "11"),
        ("The answer is 10 miles per hour.", "10"),
        ("The answer is $4. #### 5", "4"),
        ("The answer is 8 + 4 = 12.", "12"),
        ("To answer as a percentage: 1220 of 1600 = 76%\nA: 80", "76%"),
        ("So she has 88 - 36 = 52. She bought 52 more tins of it.", "52"),
        ("It is 2 x 70 = 140 miles. 140 miles is the answer.", "140"),
        ("It was 1/5 pound of almonds and 1/3 pound of nuts.", "1/3"),
        ("They lost -3.50 in all", "-3.50"),
        ("the cost = 0.5 * cost_per_pound", "0.5"),
    ],
)
def test_picked(text, number):
    assert picked_number(text).replace(",", "") == number
    assert float(_parse(text)[0].doit()) == pytest.approx(
        float(plain_number(number.rstrip("%"))) / (100 if "%" in number else 1)
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "5 - 11",
        "we see that it is 5 - 11",
        "so 12 34",
        "so 3,5",
        "so $5$ or $6$",
        "it is 5 [4] ",
        "the answer 5 is an answer, 6",
        "The final answer is 5",
        r"\boxed{5 and {x} is 5",
        r"the answer is 5, as \(x = 6\)",
        "the answer: (5",
        "It is x5",
        "so it is 1/3 .",  # math-verify takes the 1
    ],
)
def test_left_to_math_verify(text):
    assert picked_number(text) == ""


WORDS = (
    "so she has|the answer is|Answer:|and|it is|=|+|-|- 7|$5|$16|%|percent|1/3|5/|12|1,234|"
    "2 000|3,5|.5|0.25|**|(|8)|[4]|x|miles|.|,|\n|#### 9|= 4|= $6|×|A:|per cent|72%|10%.|answer"
)


@hypothesis_settings(max_examples=2 * hypothesis_settings().max_examples)
@given(st.lists(st.sampled_from(WORDS.split("|")), min_size=2, max_size=9))
def test_math_verify_picks_the_same(words):
    text = " ".join(words).strip()
    if number := picked_number(text):
        value = float(plain_number(number.rstrip("%"))) / (100 if number.endswith("%") else 1)
        assert float(_parse(text)[0].doit()) == pytest.approx(value)


HOSTILE = """
import sys
from diver.grading.languages import TABLE
from diver.grading.prose import SAID, picked_number, statements
for text in ("1 ", "answer ", "= ", "5 + ", " ", "9"):
    text = text * int(sys.argv[1]) + "x"
    picked_number("so we have 5 " + text)
    picked_number("The answer is 5 " + text)
    picked_number(text + " so 5")
"""


@pytest.mark.parametrize("times", [200_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_hostile_text_is_read_in_one_pass(times):
    """In about a second; a pattern that is quadratic in any of them would take many minutes, and is ended here."""
    subprocess.run([sys.executable, "-c", HOSTILE, str(times)], check=True, timeout=240)


@pytest.mark.parametrize("text", STATED)
def test_statements_begin_at_no_later_word_than_the_pattern(text):
    for written in (text, text.upper(), f"It is 5.\n{text}", f"The answer is 1. {text}"):
        assert [m.span("said") for m in statements(written)] == [m.span("said") for m in SAID.finditer(written)]
