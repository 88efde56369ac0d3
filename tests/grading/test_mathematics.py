import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from diver.core.types import Grade, Problem
from diver.grading.bounds import PendingComparison, bounded, within
from diver.grading.equivalence import equivalent
from diver.grading.extraction import after_thought, boxed, last_number
from diver.grading.grading import verdicts
from diver.grading.mathematics import GSM8K, Mathematics, gold_texts
from diver.grading.notation import respell
from diver.grading.settings import Bounds


def problem(answer):
    return Problem(id="p", prompt="q", answer=answer)


MATH = Mathematics()


def decide(response, gold, verifier=MATH.grade):
    """The grade as `diver.grading` forms it, with the worker's part in this process."""
    found = verifier(response, problem(gold))
    if isinstance(found, PendingComparison):
        found = bounded(found, Bounds())
    if isinstance(found, PendingComparison):
        found = {True: "correct", False: "wrong", None: "no_answer"}[equivalent(found.answers, found.golds)]
    return str(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"so \boxed{5}.", ["5"]),
        (r"\boxed{\frac{1}{2}}", [r"\frac{1}{2}"]),
        (r"first \boxed{3}, long after it we see that it must be \boxed{4}", ["4"]),
        (r"\boxed 5", ["5"]),
        (r"\boxed5 .", ["5"]),
        (r"\fbox{7}", ["7"]),
        (r"\boxed {8}", ["8"]),
        (r"\boxed{\{1,2\}}", [r"\{1,2\}"]),
        (r"\boxed{\boxed{9}}", ["9"]),
        (r"\boxed{1}, \boxed{2}", ["1, 2"]),
        (r"$\boxed{1}$ and $\boxed{2}$", ["1, 2"]),
        (r"$x=\boxed{1}$ and $y_2 = \boxed{2}$", ["x=1, y_2=2", "1, 2"]),
        (r"\boxed{1} and the other is $y = \boxed{2}$", ["1, 2"]),
        (r"$x=\boxed{1}$, so $x+1=\boxed{2}$", ["2"]),
        (r"\boxed{(\boxed{1}, \fbox 2)}", ["(1, 2)"]),
        (r"\boxed{6}, then \boxed{6}", ["6"]),
        (r"\boxed{4} and \boxed{5", ["4"]),
        (r"\boxed{5", []),
        ("no box", []),
        (r"\boxed{}", [""]),
        (r"} stray \boxed{5} {", ["5"]),
    ],
)
def test_boxes(text, found):
    assert boxed(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("16 - 7 = 9 dollars.", ["9"]),
        ("#### 1,234", ["1234"]),
        ("it costs $70,000.", ["70000"]),
        ("A: -3.50", ["-3.50"]),
        ("from 5-3 on", ["3"]),
        ("about .75", [".75"]),
        ("1,2", ["2"]),
        (r"it is $11,\!090$", ["11090"]),
        ("She has 5, or maybe 6.", ["5, 6"]),
        ("She has 5, or by noon 6.", ["6"]),
        ("none", []),
    ],
)
def test_last_number(text, found):
    assert last_number(text) == found


@pytest.mark.parametrize(
    ("response", "gold", "grade"),
    [
        (r"\boxed{42}", "42", "correct"),
        (r"\boxed{043}", "43", "correct"),
        (r"\boxed{42}", r"$\boxed{42}$", "correct"),
        (r"\boxed{\frac{2}{4}}", "0.5", "correct"),
        (r"\boxed{\dfrac{1}{2}}", r"$\frac{1}{2}$", "correct"),
        (r"\boxed{0.333333}", "1/3", "correct"),
        (r"\boxed{0.33}", "1/3", "wrong"),
        (r"\boxed{43}", "42", "wrong"),
        (r"\boxed{}", "42", "no_answer"),
        ("", "42", "no_answer"),
        ("I give up", "42", "wrong"),  # math-verify reads one line of words as a product of letters
        ("I give up.\nReally!", "42", "no_answer"),
        ("So the answer is 42.\nDone", "42", "correct"),
        (r"\boxed{(x+1)^2}", "x^2+2x+1", "correct"),
        (r"\boxed{\text{Monday}}", "Monday", "correct"),
        (r"\boxed{\sqrt{\sqrt{2}}}", "2**(1/4)", "correct"),
        (r"\boxed{1+2i}", "i(2-i)", "correct"),
        (r"\boxed{1-2i}", "i(2-i)", "wrong"),
        (r"\boxed{\frac{q_0}{2}}", r"I_{\max}=\frac{q_0}{2}", "correct"),
        (r"\boxed{f(x) = 2x + 3}", "y = 2x + 3", "correct"),
        (r"\boxed{z = 5}", "y = 5", "wrong"),
        (r"\boxed{\sin(90^{\circ}-x)}", r"\cos(x)", "correct"),
        (r"\boxed{(1,2)}", r"\begin{pmatrix}1\\2\end{pmatrix}", "correct"),
        (r"\boxed{(2,1)}", r"\begin{pmatrix}1\\2\end{pmatrix}", "wrong"),
        (r"\boxed{9.9 \times 10^{-10}}", "3.3e-10", "wrong"),
        (r"\boxed{0.00000000099}", r"3.3 \times 10^{-10}", "wrong"),  # both are 0 to six places
        (r"\boxed{4343_7}", "4343_6", "wrong"),
        (r"\boxed{x}", "|x|", "wrong"),
        (r"\boxed{-5}", "−5", "correct"),
        (r"\boxed{√2}", r"\sqrt{2}", "correct"),
        (r"\boxed{2 million}", "2", "wrong"),
        (r"\boxed{18.90}", r"\$18.90", "correct"),
        (r"\boxed{x+\$3}", r"\$3+x", "correct"),
        (r"\boxed{11111111100}", r"11,\! 111,\! 111,\! 100", "correct"),
        (r"\boxed{10{,}000}", "10000", "correct"),
        (r"\boxed{\begin{pmatrix}1\\ 2\end{pmatrix}}", r"\begin{pmatrix}1\\2\end{pmatrix}", "correct"),
        (r"\boxed{90^\circ}", r"\frac{\pi}{2}", "correct"),
        (r"\boxed{\pi}", r"180^{\circ}", "correct"),
        (r"\boxed{60^\circ}", r"\frac{\pi}{2}", "wrong"),
        (r"\boxed{33\frac{1}{3}\%}", r"\frac{100}{3}\%", "correct"),
        (r"\boxed{33\frac{1}{3}\%}", r"\frac{1}{3}", "correct"),
        (r"\boxed{33\frac{1}{3}\%}", r"34\frac{1}{3}\%", "wrong"),
        (r"\boxed{1\frac{1}{2}}", "1.5", "correct"),
        (r"\boxed{12\%}", "12", "correct"),
        (r"\boxed{12\%}", "0.12", "correct"),
        (r"\boxed{12\%}", "13", "wrong"),
        (r"\boxed{x<3}", r"(-\infty,3)", "correct"),
        (r"$\boxed{3}$ and $\boxed{4}$", "3,4", "correct"),
        (r"\boxed{3} no wait \boxed{4}", "3", "wrong"),
        (r"\boxed{9}. Final Answer: The final answer is $8$. I hope it is correct.", "8", "correct"),
        (r"The final answer is $8$. I hope it is correct. Or \boxed{9}", "8", "wrong"),
    ],
)
def test_grades(response, gold, grade):
    assert decide(response, gold) == grade


def test_only_what_follows_the_thought_counts():
    assert after_thought("a</think>b</think>c") == "c"
    assert decide(r"I guess \boxed{1}.</think> It is \boxed{2}.", "1") == "wrong"
    assert decide(r"I know: \boxed{1}.</think>", "1") == "no_answer"


@pytest.mark.parametrize(
    ("response", "gold", "grade"),
    [
        ("She has 16 - 7 = 9 eggs, so $18.", "18", "correct"),
        ("#### 1,234", "1234", "correct"),
        ("18.00 dollars", "18", "correct"),
        (r"\boxed{18} of 20", "18", "correct"),
        (r"\boxed{18 \text{ dollars}} of 20", "18", "correct"),
        ("twenty", "20", "no_answer"),
        ("so 17", "18", "wrong"),
    ],
)
def test_gsm8k(response, gold, grade):
    assert decide(response, gold, GSM8K().grade) == grade


NUMBERS = st.one_of(
    st.integers(-20, 2000).map(str),
    st.integers(1000, 10**7).map("{:,}".format),
    st.tuples(st.integers(-30, 30), st.integers(1, 12)).map(lambda p: rf"\frac{{{p[0]}}}{{{p[1]}}}"),
    st.tuples(st.integers(0, 30), st.integers(1, 12)).map("{0[0]}/{0[1]}".format),
    st.decimals(-50, 50, places=2).map(str),
    st.tuples(st.integers(0, 9), st.integers(1, 6)).map(lambda p: rf"{p[0]}\frac{{{p[1]}}}{{7}}"),
    st.integers(0, 120).map(r"{}\%".format),
    st.integers(0, 120).map(r"{} \text{{ miles}}".format),
    st.sampled_from(["0.5", "1/2", ".5", "0.333333", "1/3", "1,000", "1000", "1000.0", "-0.25", "007"]),
)


@hypothesis_settings(max_examples=3 * hypothesis_settings().max_examples // 2)
@given(NUMBERS, NUMBERS)
@example("1/2", "0.5")
@example("1,000", "1000")
def test_the_short_cuts_agree_with_math_verify(answer, gold):
    found = MATH.grade(rf"\boxed{{{answer}}}", problem(gold))
    if not isinstance(found, PendingComparison):
        said = equivalent([respell(rf"\boxed{{{answer}}}")], [*map(respell, gold_texts(gold))])
        assert (found is Grade.CORRECT) == (said is True)


ENDINGS = [
    "#### {}",
    "A: {}",
    "The answer is {}.",
    "the answer is: ${}",
    "so we have {}",
    "x = {}",
    "5 - {}",
    "answer {}",
]
STARTS = [
    "She has $16 - $7.\n",
    "Let $x = 3$ be\n",
    "The answer is hard.\n",
    "16 x 3 = <<16*3=48>>48.\n",
    "[1] 5%\n",
    "",
]


@hypothesis_settings(max_examples=3 * hypothesis_settings().max_examples // 2)
@given(
    st.sampled_from(STARTS), st.sampled_from(ENDINGS), st.integers(-5, 12000).map(str), st.integers(-5, 12000).map(str)
)
@example(STARTS[1], ENDINGS[2], "48", "48")
def test_the_closing_number_is_what_math_verify_picks(start, ending, number, gold):
    for answer in (number, gold):
        text = f"{start}So then we find, as was asked, {ending.format(answer)}"
        found = MATH.grade(text, problem(gold))
        if isinstance(found, Grade):
            said = equivalent([text.strip()], gold_texts(gold))
            assert (found is Grade.CORRECT) == (said is True)


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("Thus $5 + $6.\nA: 11", True),
        ("so there are\n#### 11", True),
        ("and so we see that the answer is 11.", True),
        ("the answer is 5.\nOr is it\n#### 11", True),
        ("we see that 5 - 11", False),
        ("we see that it is 11 percent", True),
    ],
)
def test_what_free_text_settles_without_algebra(text, settled):
    found = MATH.grade(text, problem("11"))
    assert isinstance(found, Grade) is settled


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("x" * 4096, True),
        ("x" * 4097, False),
        ("{" * 64 + "}" * 64, True),
        ("{" * 65 + "}" * 65, False),
        ("7" * 256, True),
        ("7" * 257, False),
        ("7," * 257, False),
        ("2^{1000}", True),
        ("2^{2^{10}}", True),
        ("e^{-x^{2}}", True),
        ("x^{2^{n}}", True),
        ("2024^{4046}", True),
        ("2^{1000000}", False),
        ("9^{9^{9}}", False),
        ("9^{9^9}", False),
        ("9^9^9", False),
        ("9**9**9", False),
        ("x^{9^{9}}", False),
        ("9^{(9^{9})}", False),
        ("10^{10^{10^{10}}}", False),
        ("2^" * 1000 + "2", False),
        ("^", True),
    ],
)
def test_bounds(text, inside):
    assert within(text, Bounds()) is inside


def test_beyond_the_bounds():
    tower = "10^{10^{10^{10}}}"
    assert decide(rf"\boxed{{{tower}}}", "5") == "wrong"
    assert decide(r"\boxed{10^{10}}", tower) == "error"
    assert decide(rf"\boxed{{{tower}}}", tower) == "correct"
    assert decide(r"\boxed{" + "{" * 70 + "5" + "}" * 70 + "}", "5") == "wrong"


@pytest.mark.parametrize(
    "parts",  # the second and the third are repeated until they have the size together
    [
        ["", "\\boxed{", ""],
        ["", "\\boxed", ""],
        ["", "{", ""],
        ["", "}", ""],
        ["", "1,", ""],
        ["", "9", ""],
        ["", "$", ""],
        ["", "\\boxed{1}", ""],
        ["", "\\boxed{1}, ", ""],
        ["", "\\boxed{", "}"],
        ["", "final answer is ", ""],
        ["\\boxed{", "9^", "", "}"],
        ["\\boxed{", "{", "}", "}"],
        ["", " ", ""],
        ["", "\\boxed{√(", ""],
    ],
    ids=lambda parts: "".join(parts)[:12],
)
@pytest.mark.parametrize("size", [10**5, pytest.param(10**6, marks=pytest.mark.slow)])
def test_a_million_characters_are_graded(parts, size):
    before, left, right, *after = parts
    repetitions = size // len(left + right)
    text = before + left * repetitions + right * repetitions + "".join(after)
    for verifier in (MATH.grade, GSM8K().grade):
        found = verifier(text, problem("5"))
        if isinstance(found, PendingComparison):
            bounded(found, Bounds())


@pytest.mark.parametrize(
    "chat",
    [
        [{"role": "user", "content": "What is 17 x 23?"}],
        [{"role": "user", "content": "What is 17 x 23?"}, {"role": "assistant", "content": "Let us see."}],
        [{"role": "user", "content": [{"type": "text", "text": "What is 17 x 23?"}]}],
    ],
    ids=["the question is last", "the answer is begun", "parts"],
)
def test_the_question_of_a_chat_is_no_answer(chat):
    """The last message of the user is the question, whatever follows it and however its text is given."""
    problem = Problem("p", tuple(chat), "391")
    found = [v.grade for v in verdicts([(rf"\boxed{{{text}}}", problem) for text in (r"17 \times 23", "391")])]
    assert found == [Grade.WRONG, Grade.CORRECT]
