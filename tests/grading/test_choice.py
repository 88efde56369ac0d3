import pytest

from diver.core.types import Grade, Problem
from diver.grading.choice import Choice, options_of

PROMPT = "Which gas do plants take in?\n\nA) oxygen\nB) carbon dioxide\nC) helium\nD) a noble gas"
NUMBERED = "Which is even?\n\n1) three\n2) four\n3) five\n4) seven"


def grade(response, answer="B", prompt=PROMPT, **meta):
    return Choice().grade(response, Problem(id="p", prompt=prompt, answer=answer, verifier="choice", meta=meta)).value


@pytest.mark.parametrize(
    "response",
    [
        r"\boxed{B}",
        r"Not \boxed{A}, and after some more thought, clearly \boxed{\text{B}}",
        r"$\boxed{(B)}$",
        r"\boxed{\textbf{B.}}",
        r"\boxed{b}",
        r"\boxed{B) carbon dioxide}",
        r"\boxed{\text{carbon dioxide}}",
        r"\boxed{(\text{B})}",
        r"\boxed{\left(\mathrm{B}\right)}",
        r"\boxed{$\text{B}$}",
        r"\boxed{\textbf{(B)}\ 44}",
        r"\boxed{\mathrm{(B)}\ 44}",
        r"\boxed{Option B}",
        r"\boxed{\text{Answer: B}}",
        "The answer is B, I think",
        "The answer is B and C is a noble gas.",
        "Both (A) and (D) are wrong, so (B).",
        "Of A, B, C and D it must be B",
        r"\boxed{Carbon  dioxide.}",
        "The answer is (B).",
        "the answer is B",
        "The answer is b.",
        "**Answer: B**",
        "Answer:\nB",
        "Answer: $\\text{B}$",
        "A is wrong, so the correct option is B, because C and D are not.",
        "The answer is A? No. The answer is B.",
        "B",
        "(B)",
        "B.",
        "B) carbon dioxide",
        "It follows that\n\nB. carbon dioxide",
        "I would say **B** here",
        "it must be B",
        "A plant takes in carbon dioxide, so B",
        "carbon dioxide",
        "Answer: carbon dioxide",
        "It follows.\nThe correct answer is carbon dioxide.",
        "The answer is C? No, B.",
        "The answer is B?",
        "Not A, so B",
        "The answer is B, maybe a surprise.",
        "We can rule out (C), so (B).",
        "(A) is wrong.</think>(B)",
        "The answer is (B).\n\nOption A is incorrect because plants make it. Option D is incorrect, too.",
        "The answer is B, not option C.",
        "**Option B** is the correct answer. Option C is not.",
        "Choice: B. Choice C is tempting.",
        "I'd go with option B since C is noble",
        "It is option B. Option (C) is wrong, option **D** isn't a gas, and it is not option A.",
        "Option A: made by plants.\nOption C: noble.\nB",
        "Option A: made by plants. Option B: needed. Option C: noble. So B.",
        "The answer is A. Hmm, no. It is B.",
        "I choose B because it is not A.",
    ],
)
def test_b(response):
    assert grade(response) == "correct"


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (r"\boxed{C}", "wrong"),
        (r"The answer is B. \boxed{C}", "wrong"),
        (r"The answer is B. \boxed{5}", "wrong"),
        (r"\boxed{}", "no_answer"),
        ("The answer is (C).", "wrong"),
        ("(B) is what I think.</think>So it is (C)", "wrong"),
        ("", "no_answer"),
        ("I do not know.", "no_answer"),
        ("A plant knows.", "no_answer"),
        ("The answer is a plant.", "no_answer"),
        ("The answer is Bob.", "no_answer"),
        ("The answer is (A). Option B is incorrect.", "wrong"),
        ("Option B is wrong.", "no_answer"),
        ("H", "no_answer"),  # there are four options
        ("The answer is A or B", "no_answer"),
        ("The answer is B or (A).", "no_answer"),
        ("(A), (B)", "no_answer"),
        ("A and B", "no_answer"),
        ("A, B, C, D", "no_answer"),
        ("The answer is not B", "no_answer"),
        ("It isn't (B)", "no_answer"),
        ("Not B", "no_answer"),
        ("It is not option B.", "no_answer"),
        ("We can rule out (B).", "no_answer"),
        ("Rule out option B.", "no_answer"),
        ("The answer is B? No, C.", "wrong"),
        ("Answer: B or maybe C", "no_answer"),
        ("Answer: B, or perhaps (C)", "no_answer"),
        ("(B), possibly (C)", "no_answer"),
        ("Answer: helium", "wrong"),
        ("The answer is not carbon dioxide", "no_answer"),
        (r"\boxed{(B) carbon dioxide (C) argon}", "wrong"),
        (r"\boxed{A, B}", "wrong"),
        ("The answer is B. Wait, actually it is C.", "wrong"),
        ("The answer is B. Option A: made by plants. So C.", "wrong"),
        ("I choose A because B is noble.", "wrong"),
    ],
)
def test_not_b(response, expected):
    assert grade(response) == expected


def test_numbers():
    for response in (r"\boxed{2}", "The answer is 2.", "(2)", "2) four", r"\boxed{\text{four}}"):
        assert grade(response, "2", NUMBERED) == "correct", response
    assert grade("The answer is 2.5", "2", NUMBERED) == "no_answer"
    assert grade(r"\boxed{3}", "2", NUMBERED) == "wrong"


def test_options_from_meta():
    listed = {"options": ["red", "green", "blue"] + [f"colour {i}" for i in range(7)]}
    assert grade(r"\boxed{blue}", "C", "Which?", **listed) == "correct"
    assert grade(r"\boxed{J}", "J", "Which?", **listed) == "correct"
    assert grade(r"\boxed{green}", "B", "Which?", options={"a": "red", "b": "green"}) == "correct"
    assert grade(r"\boxed{C}", "blue", "Which?", **listed) == "correct"  # the reference answer may be the text


def test_a_label_that_parquet_added_is_no_option():
    """Rows of other lengths share a struct: what a row has not is None there."""
    of_three = Problem(id="p", prompt="Which?", answer="A", meta={"options": {"A": "x", "B": "y", "C": None}})
    assert options_of(of_three) == {"A": "x", "B": "y"}


def test_no_list_of_options():
    assert grade("The answer is (B).", "B", "Which?") == "correct"
    assert grade("So 7 of them, hence G", "G", "Which?") == "correct"


def test_a_letter_is_a_label_and_not_the_text_of_another_option():
    letters = {"options": ["v", "c", "a", "b"]}
    assert grade("Answer: B", "B", "Which?", **letters) == "correct"
    assert grade("Answer: C", "B", "Which?", **letters) == "wrong"


def test_a_minus_is_no_dash():
    signed = {"options": ["-1.0", "1.0"]}
    assert grade("A. -1.0", "A", "Which?", **signed) == grade(r"\boxed{B - 1.0}", "B", "Which?", **signed) == "correct"
    assert grade("A. -1.0", "B", "Which?", **signed) == grade(r"\boxed{B. -1.0}", "B", "Which?", **signed) == "wrong"


def test_an_answer_that_is_no_option_is_an_error_of_the_data():
    with pytest.raises(ValueError, match="neither the label nor the text"):
        grade("B", "forty-two")


def test_the_last_list_counts():
    prompt = "Given:\nA. one\nB. two\nwhat follows?\n(A) x\n(B) y\n(C) z"
    assert options_of(Problem(id="p", prompt=prompt, answer="A")) == {"A": "x", "B": "y", "C": "z"}


@pytest.mark.parametrize(
    "prompt",
    [
        "Which?\na) iron\nb) copper\nc) zinc",
        "Which?\n\na. iron\n\nb. copper\n\nc. zinc\n\nAnswer with a letter.",
        "Which? a) iron, b) copper, c) zinc",
        "a ) iron , b ) copper , c ) zinc",
        "- a. iron\n- b. copper\n- c. zinc",
        "A．iron  B．copper\nC．zinc",
        "Of A、B、C one rusts. A、iron B、copper C、zinc",
        "A：iron\nB：copper\nC：zinc",
    ],
)
def test_labels_of_other_forms(prompt):
    assert options_of(Problem("p", prompt, "b")) == {"A": "iron", "B": "copper", "C": "zinc"}


def test_a_letter_inside_an_option_does_not_end_it():
    for prompt in ("(a) rap (x) music (b) song (c) dance", "A. rap (x) music B. song C. dance"):
        assert options_of(Problem("p", prompt, "b")) == {"A": "rap (x) music", "B": "song", "C": "dance"}


@pytest.mark.parametrize(
    "prompt",
    [
        "f rises on [0, a) and falls on [a, b).",
        "gcd(n, a) = 1 and gcd(n, b) = 2",
        "Name the base b) of it. a) Hm",
        "a) b) c)",
        "Find x = a. Then y = b. Add.",
        "A、B、C are three points.",
        "1、one\n2、two",
    ],
)
def test_letters_that_are_no_labels(prompt):
    assert options_of(Problem("p", prompt, "b")) == {}


def test_a_list_whose_texts_begin_with_labels():
    for texts in (["A)38", "B)27.675"], ["a ) 38", "b ) 27.675"], ["(A) 38", "(B) 27.675"], ["A．38", "B．27.675"]):
        assert options_of(Problem("p", "Which?", "B", meta={"options": texts})) == {"A": "38", "B": "27.675"}
        assert grade("So the answer is 27.675.", "B", "Which?", options=texts) == "correct"
        assert grade("So the answer is 38.", "B", "Which?", options=texts) == "wrong"
    assert options_of(Problem("p", "Which?", "B", meta={"options": ["A.5", "6"]})) == {"A": "A.5", "B": "6"}


def test_the_options_of_a_long_prompt_are_read_in_linear_time():
    for unit in (" ", "(a)", "a) x ", "A、", "\\qquad ", ", "):
        options_of(Problem("p", "(a)x" + unit * (10**5 // len(unit)) + "y", "b"))


@pytest.mark.parametrize(
    "parts",  # the second and the third are repeated until they have the size together
    [
        ["", "\\boxed{", ""],
        ["", "answer ", ""],
        ["", "(", ""],
        ["", "A ", ""],
        ["", " ", ""],
        ["", "\n", ""],
        ["", "*", ""],
        ["", "the answer is ", ""],
        ["answer", " ", ""],
        ["answer is", "\n", ""],
        ["", "option ", ""],
        ["option A", " ", ""],
        ["", "option A is ", ""],
        ["", "x", ""],
        ["", " \n", ""],
        ["", "A\n", ""],
        ["\\boxed{", "\\text{", "}", "}"],
    ],
    ids=lambda parts: repr("".join(parts)[:10]),
)
@pytest.mark.parametrize("size", [10**5, pytest.param(10**6, marks=pytest.mark.slow)])
def test_a_million_characters_are_graded(parts, size):
    before, left, right, *after = parts
    repetitions = size // len(left + right)
    text = before + left * repetitions + right * repetitions + "".join(after)
    assert isinstance(Choice().grade(text, Problem(id="p", prompt=PROMPT, answer="B")), Grade)


def test_a_choice_is_looked_for_in_the_last_16384_characters():
    """A bound of what is read, since a grade is given where nothing can be killed."""
    problem, rest = Problem(id="p", prompt=PROMPT, answer="B"), " so" * 5462  # 16,386 characters
    assert Choice().grade(f"The answer is B.{rest}", problem) is Grade.NO_ANSWER
    assert Choice().grade(f"{rest} The answer is B.", problem) is Grade.CORRECT


def test_a_statement_under_an_assumption_is_one():
    for stated in ("If light is given, the answer is B.", "B is correct if it is green.", "We think the answer is B."):
        assert grade(f"The answer is A. No, wait. {stated}") == "correct"
