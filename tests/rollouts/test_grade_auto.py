"""Which grader `--grader auto` takes: by the reference answers, the options and the responses of a file."""

import csv
import io
import json

import pytest
from diver_command import succeeds
from rows import write_rows

from diver.core.types import DiverError
from diver.grading.references import answer_and_verifier, final_answer, options_in
from diver.recipe.data import Source
from diver.rollouts.grade import GradeConfig, run
from diver.tasks.sources import load_problems

METALS = ["iron", "copper", "zinc", "gold"]


def rows_graded(tmp_path, capsys, rows, **settings):
    file = tmp_path / "x.jsonl"
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(GradeConfig(rollouts=str(file), out=tmp_path / "out", **settings))
    graded = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").open()]
    return [(row["grader"].partition("@")[0], row["grade"]) for row in graded], "".join(capsys.readouterr())


def asked(number, answer, response, **more):
    return {"question": f"Which metal is number {number}?", "answer": answer, "response": response, **more}


BY_LETTER = [asked(1, "B", "I say:\nANSWER: B"), asked(2, "D", "ANSWER: D"), asked(3, "A", "ANSWER: C")]
OPTIONS = {
    "a list": {"choices": METALS},
    "a list with letters": {"options": [f"{letter}) {metal}" for letter, metal in zip("ABCD", METALS, strict=True)]},
    "a mapping": {"options": dict(zip("ABCD", METALS, strict=True))},
    "texts and labels": {"choices": {"text": METALS, "label": list("ABCD")}},
    "rows": {"options": [{"label": label, "text": metal} for label, metal in zip("ABCD", METALS, strict=True)]},
    "a text": {"choices": str(METALS)},
    "a NumPy text": {"choices": "['iron' 'copper'\n 'zinc' 'gold']"},
    "a text of arrays": {
        "choices": f"{{'text': array({METALS}, dtype=object), 'label': array(['A', 'B', 'C', 'D'],\n   dtype=object)}}"
    },
    "a text with labels": {"options": "a ) iron , b ) copper , c ) zinc , d ) gold"},
    "metadata": {"metadata": {"choices": METALS}},
    "columns": dict(zip("ABCD", METALS, strict=True)),
    "columns with small letters": dict(zip("abcd", METALS, strict=True)),
    "columns option_a": {f"option_{letter}": metal for letter, metal in zip("abcd", METALS, strict=True)},
    "columns of MedMCQA": {f"op{letter}": metal for letter, metal in zip("abcd", METALS, strict=True)},
    "none": {},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_letter_of_options_in_a_column(tmp_path, capsys, name):
    grades, said = rows_graded(tmp_path, capsys, [{**row, **OPTIONS[name]} for row in BY_LETTER])
    assert grades == [("choice", "correct"), ("choice", "correct"), ("choice", "wrong")]
    why = "letter, and 3 of 3 responses choose one" if name == "none" else "letter of an option in a column"
    assert f"x.jsonl: --grader auto: choice grades 3 of 3 problems (the reference answer is a {why})" in said.replace(
        "is the letter", "is a letter"
    )


def test_an_eleventh_option(tmp_path, capsys):
    """BIG-bench Hard has options up to (R). A later letter without options may be a variable."""
    letters = "ABCDEFGHIJK"
    listed = "\n".join(f"({letter}) shape {letter.lower()}" for letter in letters)
    rows = [asked(1, "(K)", "So the answer is (K)."), asked(2, "(K)", "So the answer is (J).")]
    rows = [{**row, "question": f"{row['question']}\nOptions:\n{listed}"} for row in rows]
    assert rows_graded(tmp_path, capsys, rows)[0] == [("choice", "correct"), ("choice", "wrong")]
    in_columns = {f"option_{letter}": f"shape {letter}" for letter in letters}
    rows = [asked(1, "K", "The answer is K.", **in_columns, option_z=""), asked(2, "K", "Z", **in_columns, option_z="")]
    assert rows_graded(tmp_path / "c", capsys, rows)[0] == [("choice", "correct"), ("choice", "no_answer")]
    rows = [asked(1, "X", r"\boxed{X}"), asked(2, "K", r"\boxed{X}")]
    assert rows_graded(tmp_path / "v", capsys, rows)[0] == [("math", "correct"), ("math", "wrong")]


SMALL = [asked(1, "b", "The answer is b."), asked(2, "d)", "d) gold"), asked(3, "a", "The answer is c.")]


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "none"])
def test_a_small_letter_of_options_in_a_column(tmp_path, capsys, name):
    grades, said = rows_graded(tmp_path, capsys, [{**row, **OPTIONS[name]} for row in SMALL])
    assert grades == [("choice", "correct"), ("choice", "correct"), ("choice", "wrong")]
    assert "letter of an option in a column" in said


@pytest.mark.parametrize(
    ("between", "close"), [("\n", ")"), ("\n\n", ")"), (" ", ")"), (" , ", " )"), ("\n", "."), ("\n- ", ".")]
)
def test_a_small_letter_of_options_in_the_question(tmp_path, capsys, between, close):
    listed = between.join(f"{letter}{close} {metal}" for letter, metal in zip("abcd", METALS, strict=True))
    rows = [{**row, "question": f"{number}. Which?{between}{listed}"} for number, row in enumerate(SMALL)]
    grades, said = rows_graded(tmp_path, capsys, rows)
    assert grades == [("choice", "correct"), ("choice", "correct"), ("choice", "wrong")]
    assert "letter of an option in the question" in said


def test_a_text_of_one_chinese_character(tmp_path, capsys):
    rows = [{"question": f"{n}：\nA．铁  B．铜\nC．锌  D．金", "answer": "铜", "response": f"答案是{n}"} for n in "BA"]
    assert rows_graded(tmp_path, capsys, rows)[0] == [("choice", "correct"), ("choice", "wrong")]


def test_the_text_of_an_option_as_the_reference_answer(tmp_path, capsys):
    listed = "Which?\n" + "\n".join(f"{letter}) {metal}" for letter, metal in zip("ABCD", METALS, strict=True))
    rows = [
        {"question": f"1. {listed}", "answer": "zinc", "response": "The answer is zinc."},
        {"question": f"2. {listed}", "answer": "gold", "response": r"\boxed{D}"},
        {"question": f"3. {listed}", "answer": "gold", "response": r"\boxed{C}"},
    ]
    grades, said = rows_graded(tmp_path, capsys, rows)
    assert grades == [("choice", "correct"), ("choice", "correct"), ("choice", "wrong")]
    assert "the text of an option in the question" in said


def test_options_in_one_line_with_small_letters(tmp_path, capsys):
    question = "Which? (a) iron (b) copper (c) zinc (d) gold"
    rows = [
        {"question": f"1. {question}", "answer": "(c)", "response": "The answer is (c)."},
        {"question": f"2. {question}", "answer": "(a)", "response": "It is iron, so (a)."},
        {"question": f"3. {question}", "answer": "(a)", "response": "The answer is (b)."},
    ]
    assert rows_graded(tmp_path, capsys, rows)[0] == [("choice", g) for g in ("correct", "correct", "wrong")]


def test_an_index_that_counts_from_zero(tmp_path, capsys):
    rows = [asked(1, 0, "ANSWER: A", choices=METALS), asked(2, 3, "ANSWER: D", choices=METALS)]
    grades, said = rows_graded(tmp_path, capsys, [*rows, asked(3, 2, "ANSWER: B", choices=METALS)])
    assert grades == [("choice", "correct"), ("choice", "correct"), ("choice", "wrong")]
    assert "counts the options in a column from 0" in said


def test_an_index_that_is_also_the_text_of_another_option(tmp_path, capsys):
    rows = [asked(1, 0, "ANSWER: A", choices=METALS), asked(2, 3, "ANSWER: D", choices=METALS)]
    grades, _ = rows_graded(tmp_path, capsys, [*rows, asked(3, 2, "ANSWER: C", choices=["2", "3", "4"])])
    assert grades == [("choice", "correct")] * 3


def test_what_is_no_choice(tmp_path, capsys):
    rows = [
        {"question": "A set has two elements. Name it.", "answer": "A", "response": "It has two elements."},
        {"question": "The set? It is C.", "answer": "C", "response": r"\boxed{\{1, 2\}}"},
        {"question": "(a) Find x. (b) Find y.", "answer": "7", "response": r"\boxed{7}"},
        {"question": "1) one 2) two", "answer": "2", "response": r"\boxed{2}"},
        {"question": r"$\textbf{(A)}\ 3 \qquad \textbf{(B)}\ 4$", "answer": "4", "response": r"\boxed{4}"},
    ]
    grades, said = rows_graded(tmp_path, capsys, rows)
    assert {grader for grader, _ in grades} == {"math"} and [g for _, g in grades[2:]] == ["correct"] * 3
    assert "math grades 5 of 5 problems" in said


def test_a_file_of_both(tmp_path, capsys):
    rows = [asked(1, "B", "ANSWER: B", choices=METALS), asked(2, "6", r"\boxed{6}")]
    grades, said = rows_graded(tmp_path, capsys, rows)
    assert grades == [("choice", "correct"), ("math", "correct")]
    assert "choice grades 1 of 2" in said and "math grades 1 of 2" in said


def test_grades_that_contradict_the_labels_are_doubted(tmp_path, capsys):
    rows = [asked(n, "5", "It is five.", correct=n < 2) for n in range(4)]  # of two labelled correct none is graded so
    _, said = rows_graded(tmp_path, capsys, rows, grader="math")
    assert "warning: the grades contradict 2 of the 2 labels that say correct and 0 of the 2 others; if" in said
    assert "--grader auto" not in said


def test_grades_that_agree_are_not_doubted(tmp_path, capsys):
    rows = [asked(n, "5", r"\boxed{5}" if n else "five", correct=True) for n in range(3)]  # two of three
    assert "warning" not in rows_graded(tmp_path, capsys, rows)[1]


@pytest.mark.parametrize(
    ("given", "answer", "verifier"),
    [
        ("2 + 5 = <<2+5=7>>7\n#### 7", "7", "gsm8k"),
        ("2 + 5 = <<2+5=7>>7 hens\nA: 7", "7", "gsm8k"),
        ("Two and five make seven.\nThe answer is: 7", "7", "math"),
        ("Two and five make seven.\n**Answer:** 7.", "7", "math"),
        (r"We add and find $\boxed{7}$.", "7", "math"),
        ("<answer>7</answer>", "7", "math"),
        ("7", "7", "math"),
        ("x = 7", "x = 7", "math"),
        ("A: 7", "A: 7", "math"),  # one line: it may as well be the name of a value
        ("Two and five.\nThat is 7", "Two and five.\nThat is 7", "math"),
    ],
)
def test_a_whole_solution_as_the_reference_answer(given, answer, verifier):
    assert final_answer(given) == answer
    assert answer_and_verifier("How many?", given, "hens")[:2] == (answer, verifier)


def test_options_that_are_none():
    for row in ({"options": "fast"}, {"choices": ["one"]}, {"A": "x"}, {"A": 1, "B": 2}, {"choices": "[1, 2"}, {}):
        assert options_in(row) is None


def test_training_data_with_options_in_a_column(tmp_path):
    file = tmp_path / "metals.jsonl"
    file.write_text(json.dumps({"question": "Which?", "choices": METALS, "answer": "zinc"}) + "\n")
    (problem,) = load_problems(str(file))
    assert problem.verifier == "choice" and problem.meta["options"] == METALS


def test_a_verifier_of_ones_own_reads_the_whole_reference(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text(json.dumps({"question": "Which?", "answer": r"It is \boxed{7}"}) + "\n")
    (problem,) = load_problems(Source(path=str(file), verifier="operator:eq"))
    assert problem.answer == r"It is \boxed{7}"


def test_an_index_that_counts_from_one(tmp_path, capsys):
    rows = [asked(1, 1, "ANSWER: A", choices=METALS), asked(2, 4, "ANSWER: D", choices=METALS)]
    grades, said = rows_graded(tmp_path, capsys, [*rows, asked(3, 2, "ANSWER: C", choices=METALS)])
    assert grades == [("choice", "correct"), ("choice", "correct"), ("choice", "wrong")]
    assert "counts the options in a column from 1" in said


@pytest.mark.parametrize("first", [0, 1])
def test_an_index_of_options_in_columns(tmp_path, capsys, first):
    columns = {f"op{letter}": metal for letter, metal in zip("abcd", METALS, strict=True)}
    said_letters = {"A": 0, "D": 3, "C": 1}
    rows = [asked(n, i + first, f"ANSWER: {letter}", **columns) for n, (letter, i) in enumerate(said_letters.items())]
    grades, said = rows_graded(tmp_path, capsys, rows)
    assert grades == [("choice", "correct"), ("choice", "correct"), ("choice", "wrong")]
    assert f"counts the options in a column from {first}" in said


def test_what_columns_of_options_are_not(tmp_path, capsys):
    coefficients = [asked(n, "2", r"\boxed{2}", a="1", b="2", c="3") for n in range(2)]
    assert rows_graded(tmp_path, capsys, coefficients)[0] == [("math", "correct")] * 2


def test_letters_that_math_does_not_find_are_told(tmp_path, capsys):
    rows = [asked(n, letter, f"It is {letter}, I think.") for n, letter in enumerate("bad")]
    _, said = rows_graded(tmp_path, capsys, rows)
    assert "the reference answers of 3 responses are letters, and math calls 0 of these" in said
    assert "--grader choice grades them" in said
    rows = [asked(n, letter, rf"\boxed{{{letter}}}") for n, letter in enumerate("xyab")]  # variables
    assert "warning" not in rows_graded(tmp_path / "variables", capsys, rows)[1]


def test_responses_that_say_the_number_of_an_option(tmp_path, capsys):
    rows = [asked(1, 0, "The answer is 0.", choices=METALS), asked(2, 3, r"\boxed{3}", choices=METALS)]
    grades, _ = rows_graded(tmp_path, capsys, [*rows, asked(3, 2, "The answer is 1.", choices=METALS)])
    assert grades == [("math", "correct"), ("math", "correct"), ("math", "wrong")]


def test_a_small_letter_of_options_with_capitals():
    listed = "Which metal?\nA) iron\nB) copper\nC) zinc"
    assert answer_and_verifier(listed, "c", "x").verifier == "choice"
    assert answer_and_verifier(listed, "c)", "x").verifier == "choice"
    assert answer_and_verifier("The speed of light is\nA) v\nB) c\nC) a", "c", "x").verifier == "math"
    assert answer_and_verifier("Sides a, b and c. Which is the longest?", "c", "x").verifier == "math"


def test_a_small_letter_of_options_in_one_line(tmp_path, capsys):
    question = "Which? (a) iron (b) copper (c) zinc (d) gold"
    rows = [
        {"question": f"1. {question}", "answer": "c", "response": "The answer is (c)."},
        {"question": f"2. {question}", "answer": "a", "response": "a"},
        {"question": f"3. {question}", "answer": "a", "response": "The answer is (b)."},
    ]
    grades, said = rows_graded(tmp_path, capsys, rows)
    assert grades == [("choice", g) for g in ("correct", "correct", "wrong")]
    assert "the letter of an option in the question" in said


@pytest.mark.parametrize("name", ["ground_truth", "reference_answer", "expected_answer", "correct_answer"])
def test_beside_a_reference_answer_the_column_answer_may_be_that_of_the_model(tmp_path, name):
    """Each response was graded against what it says itself, and each answer was a problem of its own."""
    rows = [
        {
            "question": f"What is {p} + 0?",
            "response": rf"\boxed{{{a}}}",
            "answer": str(a),
            name: str(p),
            "correct": a == p,
        }
        for p in (1, 2)
        for a in (p, p, 8, 9)
    ]
    printed = succeeds("grade", write_rows(tmp_path / "x.jsonl", rows), "--k", "1,2", "--format", "csv")
    (record,) = csv.DictReader(io.StringIO(printed))
    assert (record["problems"], record["pass@1"], record["label_pass@1"], record["agreement"]) == (
        "2",
        *["0.5"] * 2,
        "1.0",
    )
    assert float(record["pass@2"]) == pytest.approx(1 - 1 / 6)
    (record,) = csv.DictReader(io.StringIO(succeeds("measure", tmp_path / "x.jsonl", "--k", "1", "--format", "csv")))
    assert (record["problems"], record["pass@1"]) == ("2", "0.5")


def test_the_reference_answers_of_other_projects(tmp_path, capsys):
    for name in ("expected_answer", "reference_answer", "correct_answer", "answerKey"):
        row = {"question": "1+1?", name: "2", "response": r"\boxed{2}"}
        assert rows_graded(tmp_path / name, capsys, [row])[0] == [("math", "correct")]


def test_one_row_of_a_problem_says_its_answer(tmp_path, capsys):
    rows = [asked(1, answer, r"\boxed{2}") for answer in (None, "2")]
    assert rows_graded(tmp_path, capsys, rows)[0] == [("math", "correct")] * 2


def test_any_target_of_an_inspect_log_is_right(tmp_path, capsys):
    """Several targets were joined, so that none of them alone was right. A choice of several options needs all."""
    texts = [r"\boxed{5}", r"\boxed{4}", r"\boxed{6}", r"\boxed{4, 5}"]
    samples = [
        {
            "id": 1, "epoch": epoch, "input": "Which?", "target": ["4", "5"], "scores": {},
            "output": {"choices": [{"message": {"role": "assistant", "content": text}, "stop_reason": "stop"}]},
        }
        for epoch, text in enumerate(texts)
    ]  # fmt: skip
    expected = [("math", grade) for grade in ("correct", "correct", "wrong", "wrong")]
    assert rows_graded(tmp_path, capsys, samples)[0] == expected
    again = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").open()]
    assert rows_graded(tmp_path / "again", capsys, again)[0] == expected
    lettered = [{**sample, "target": ["A", "B"], "choices": METALS} for sample in samples]
    with pytest.raises(DiverError, match="problem '1' has a list for its reference answer"):
        rows_graded(tmp_path / "letters", capsys, lettered)


def test_several_targets_of_lm_eval_are_refused(tmp_path, capsys):
    """They were one text, `['4', '5']`, which no response equals."""
    arguments = {"gen_args_0": {"arg_0": "Which?", "arg_1": {"until": []}}}
    row = {"doc_id": 0, "target": ["4", "5"], "arguments": arguments, "resps": [["4"]], "filter": "none"}
    with pytest.raises(DiverError, match="has a list for its reference answer"):
        rows_graded(tmp_path, capsys, [row])


def test_options_of_an_inspect_log(tmp_path, capsys):
    """By its options "iron" is a choice; "B" as a reference answer, without a response that chooses, too."""
    sample = {
        "id": 1, "epoch": 1, "input": "Which?", "choices": METALS, "target": "B", "scores": {},
        "output": {"choices": [{"message": {"role": "assistant", "content": "Hm."}, "stop_reason": "stop"}]},
    }  # fmt: skip
    assert rows_graded(tmp_path, capsys, [sample])[0] == [("choice", "no_answer")]
