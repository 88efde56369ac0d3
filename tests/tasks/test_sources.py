import json
import os
import sys
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from rows import write_rows

from diver.core.types import DiverError, Problem
from diver.grading import get_grader
from diver.grading.choice import options_of
from diver.recipe.data import Data, Source
from diver.tasks.sources import deduplicate, load_problems
from diver.tasks.splits import load

DATA = Path(os.environ.get("DIVER_DATA", Path(__file__).parents[3] / "shared" / "data"))
CHAT = [{"role": "system", "content": "Think."}, {"role": "user", "content": "2+2?"}]


def jsonl(folder, *rows, name="problems.jsonl"):
    path = folder / name
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return str(path)


def parquet(folder, rows, name="problems.parquet"):
    import pyarrow
    from pyarrow.parquet import write_table

    path = folder / name
    write_table(pyarrow.Table.from_pylist(rows), path)
    return str(path)


def test_our_rows(tmp_path):
    path = jsonl(tmp_path, {"id": "a", "problem": "1+1?", "answer": "2", "source": "mine", "meta": {"level": 1}}, "")
    (problem,) = load_problems(path)
    assert (problem.id, problem.prompt, problem.answer, problem.source) == ("a", "1+1?", "2", "mine")
    assert problem.verifier == "math" and problem.meta == {"level": 1}


def test_gsm8k_rows(tmp_path):
    solution = "In April 48, in May <<48/2=24>>24.\n#### 1,072"
    (problem,) = load_problems(jsonl(tmp_path, {"question": "How many?", "answer": solution}))
    assert (problem.answer, problem.verifier, problem.id, problem.source) == (
        "1,072",
        "gsm8k",
        "problems-0",
        "problems",
    )


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "2+2?", "solution": "4"},
        {"prompt": "2+2?", "answer": 4},
        {"question": "2+2?", "ground_truth": "4"},
        {"prompt": "2+2?", "answer": ["4"]},
    ],
)
def test_other_names(tmp_path, row):
    (problem,) = load_problems(jsonl(tmp_path, row))
    assert (problem.prompt, problem.answer) == ("2+2?", "4")


def test_named_columns(tmp_path):
    path = jsonl(tmp_path, {"q": {"text": "1+1?"}, "answer": "a lie", "gold": 2, "nr": 7})
    (problem,) = load_problems(Source(path=path, columns={"prompt": "q.text", "answer": "gold", "id": "nr"}))
    assert (problem.prompt, problem.answer, problem.id) == ("1+1?", "2", "7")


def test_verls_parquet(tmp_path):
    row = {
        "data_source": "openai/gsm8k",
        "prompt": CHAT,
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "4"},
        "extra_info": {"index": 12, "split": "train"},
    }
    (problem,) = load_problems(parquet(tmp_path, [row]))
    assert problem.prompt == tuple(CHAT) and problem.answer == "4"
    assert (problem.source, problem.verifier, problem.id) == ("openai/gsm8k", "gsm8k", "12")
    assert problem.meta["split"] == "train"


def test_messages_in_parts(tmp_path):
    parts = [{"type": "text", "text": "Use 17 "}, {"type": "text", "text": "and 3."}]
    row = {"prompt": [CHAT[0], {"role": "user", "content": parts}], "answer": "20"}
    (problem,) = load_problems(jsonl(tmp_path, row))
    assert problem.prompt == (CHAT[0], {"role": "user", "content": "Use 17 and 3."})


def test_trls_parquet(tmp_path):
    rows = [{"prompt": CHAT, "solution": r"$\frac{1}{2}$", "answer": None}]
    rows.append({"prompt": CHAT[1:], "solution": "1 + 1 is 2.", "answer": "2"})
    problems = load_problems(parquet(tmp_path, rows))
    assert [p.prompt for p in problems] == [tuple(CHAT), tuple(CHAT[1:])]
    assert [p.answer for p in problems] == [r"$\frac{1}{2}$", "2"] and problems[0].verifier == "math"


def test_a_folder(tmp_path):
    jsonl(tmp_path, {"problem": "b", "answer": "2"}, name="b.jsonl")
    parquet(tmp_path, [{"prompt": "c", "answer": "3"}], name="c.parquet")
    jsonl(tmp_path, {"problem": "a", "answer": "1"}, name="a.jsonl")
    (tmp_path / "notes.txt").write_text("not a problem")
    (tmp_path / "info.json").write_text("{}")
    problems = load_problems(str(tmp_path))
    assert [p.prompt for p in problems] == ["a", "b", "c"]
    told = "info.json not read: in a folder a .json file mostly describes the others; name it itself"
    assert problems.notes == [f"{tmp_path}: {told}"]
    (tmp_path / "only").mkdir()
    (tmp_path / "info.json").rename(tmp_path / "only" / "info.json")
    with pytest.raises(DiverError, match=f"only: no .jsonl or .parquet or .csv file in this folder; {told}"):
        load_problems(str(tmp_path / "only"))


def test_duplicate_rows_are_left_out_and_counted(tmp_path):
    rows = [{"problem": "1+1?", "answer": "2"}] * 32 + [{"problem": "2+2?", "answer": "4"}] * 32
    problems = load_problems(jsonl(tmp_path, *rows, {"problem": "1+1?", "answer": "3"}))
    assert [(p.prompt, p.answer) for p in problems] == [("1+1?", "2"), ("2+2?", "4")]
    assert "62 duplicate rows left out, 2 problems remain" in problems.notes[0]
    assert "1 rows repeat a prompt with another answer" in problems.notes[1]


def test_a_passage_that_is_no_part_of_the_prompt_is_named(tmp_path):
    """The policy would be asked about a text that it does not see."""
    passage = "The book was written by Mary Shelley."
    rows = [
        {"question": "Who wrote it?", "context": passage, "answer": "Mary Shelley"},
        {"question": f"{passage} Who wrote it?", "context": passage, "answer": "Mary Shelley"},
        {"question": "What is 2 + 3?", "context": "arithmetic", "answer": "5"},
    ]
    path = jsonl(tmp_path, *rows)
    note = f"{path}: the policy does not see column 'context' of 1 rows; write its text into the question"
    assert load_problems(path).notes == [note]
    assert load_problems(jsonl(tmp_path, *rows[1:])).notes == []


def test_problems_to_evaluate_on_that_another_grader_grades_are_named(tmp_path):
    train = Data(path=jsonl(tmp_path, {"problem": "1+1?", "answer": "2"}), verifier="math-verify")
    test = Source(path=jsonl(tmp_path, {"problem": "2+2?", "answer": "4"}, name="test.jsonl"))
    notes = load(train, test, 1)[2]
    said = (
        f"{test.path}: graded by math, and {train.path} by math-verify; evaluate.source.verifier names another grader"
    )
    sets = f"problems: 1 of {train.path} to train on, 1 of {test.path} to evaluate on (evaluate.problems = 1)"
    assert notes == [sets, said]


def test_ids_are_unique(tmp_path):
    rows = [{"id": "x", "problem": str(i), "answer": "1"} for i in range(3)]
    assert [p.id for p in load_problems(jsonl(tmp_path, *rows))] == ["x", "x#1", "x#2"]
    rows = [{"id": name, "problem": str(i), "answer": "1"} for i, name in enumerate(("x#2", "x", "x"))]
    assert [p.id for p in load_problems(jsonl(tmp_path, *rows))] == ["x#2", "x", "x#2#2"]


def test_limit_counts_problems(tmp_path):
    path = jsonl(tmp_path, *[{"problem": str(i // 2), "answer": "1"} for i in range(10)])
    assert [p.prompt for p in load_problems(Source(path=path, limit=3))] == ["0", "1", "2"]


def test_verifiers(tmp_path):
    choice = {"problem": "Which?\n\nA) x\nB) y", "answer": "B"}
    path = jsonl(tmp_path, choice, {"problem": "Which letter is next?", "answer": "B"})
    assert [p.verifier for p in load_problems(path)] == ["choice", "math"]
    assert [p.verifier for p in load_problems(Source(path=path, verifier="gsm8k"))] == ["gsm8k", "gsm8k"]


def test_a_numbered_list_makes_no_choice(tmp_path):
    """Only a letter does, among lettered options: a number may be what was asked for."""
    listed = {"problem": "How many are even?\n1. four\n2. six\n3. nine", "answer": "2"}
    path = jsonl(tmp_path, listed, {"problem": "How many are A?\nA) x\nB) y", "answer": 2})
    assert [p.verifier for p in load_problems(path)] == ["math", "math"]
    assert [p.verifier for p in load_problems(Source(path=path, verifier="choice"))] == ["choice", "choice"]


def test_options_in_a_column_are_asked_for(tmp_path):
    """Two questions with the same words are two problems where their options differ."""
    which = "Which is true?"
    rows = [
        {"question": which, "choices": ["iron floats", "tin melts"], "answer": "B"},
        {"question": which, "choices": ["cats bark", "owls fly"], "answer": "B"},
        {"question": "Which? (a) iron (b) tin", "choices": ["iron", "tin"], "answer": "A"},
        {"messages": [CHAT[0], {"role": "user", "content": "2+2?"}], "A": "3", "B": "4", "answer": "B"},
        {"question": "How many of 1 or 2?", "options": ["1", "2"], "answer": "7"},
    ]
    problems = load_problems(jsonl(tmp_path, *rows))
    assert [p.prompt for p in problems] == [
        "Which is true?\n\nA) iron floats\nB) tin melts",
        "Which is true?\n\nA) cats bark\nB) owls fly",
        "Which? (a) iron (b) tin",
        (CHAT[0], {"role": "user", "content": "2+2?\n\nA) 3\nB) 4"}),
        "How many of 1 or 2?",
    ]
    assert [p.verifier for p in problems] == ["choice"] * 4 + ["math"]
    assert problems.notes == [
        f"{tmp_path}/problems.jsonl: the options of 3 problems, which are in a column, follow their questions"
    ]


def test_numbers_of_columns(tmp_path):
    """Parquet has decimals, and floats where a column lacks some numbers. Options are written as the answer is."""
    rows = [{"problem": f"{i}?", "answer": Decimal(answer)} for i, answer in enumerate(("3.50", "4.00", "1e3"))]
    assert [p.answer for p in load_problems(parquet(tmp_path, rows, "decimals.parquet"))] == ["3.50", "4", "1000"]
    rows = [{"problem": "2+2?", "options": [3.0, 4.0, 4.5], "answer": 4.0}]
    (problem,) = load_problems(parquet(tmp_path, rows, "floats.parquet"))
    assert (problem.prompt, problem.answer, problem.verifier) == ("2+2?\n\nA) 3\nB) 4\nC) 4.5", "4", "choice")
    path = jsonl(tmp_path, {"problem": "10^400?", "answer": 10**400})
    assert load_problems(path)[0].answer == f"1{'0' * 400}"


def test_an_environment_may_ask_by_other_columns(tmp_path, monkeypatch):
    """Equal prompts are one problem only where all that the environment is given is equal, too."""
    (tmp_path / "levels.py").write_text(
        "from diver.core.environment import Environment\n"
        "class Level(Environment):\n"
        "    def reset(self, problem): return f'Level {problem.meta[\"level\"]}'\n"
        "    def step(self, text): return '', True, 1.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    rows = [{"id": "a", "prompt": "Play.", "answer": "-", "meta": {"level": level}} for level in (1, 2, 1)]
    problems = load_problems(Source(path=jsonl(tmp_path, *rows), verifier="levels:Level"))
    assert [p.meta["level"] for p in problems] == [1, 2]
    by = get_grader("levels:Level")
    again = [replace(p, id="a") for p in problems]  # as a problem of another file may have
    assert [by.posed(p).prompt for p in again] == ["Level 1", "Level 2"]


@pytest.mark.parametrize(("first", "verifier"), [(0, "auto"), (1, "auto"), (0, "choice")])
def test_reference_answers_that_count_the_options(tmp_path, first, verifier):
    """As MMLU's do, also where another option has the number as its text."""
    texts = [["iron", "tin", "lead"], ["2", "3", "4"], ["oak", "elm", "ash"]]
    rows = [{"question": f"Which {i}?", "choices": texts[i], "answer": i + first} for i in range(3)]
    problems = load_problems(Source(path=jsonl(tmp_path, *rows), verifier=verifier))
    assert [(p.answer, p.verifier) for p in problems] == [("A", "choice"), ("B", "choice"), ("C", "choice")]
    assert f"3 reference answers count the options from {first}; they are letters now" in problems.notes[0]


def test_reference_answers_that_may_count_from_0_or_from_1_are_refused(tmp_path):
    """The first rows of MMLU may have no answer 0; graded as mathematics, without options, all responses are wrong."""
    rows = [{"question": f"Which {i}?", "choices": ["iron", "tin", "lead"], "answer": i} for i in (1, 1, 0)]
    rows[1]["question"] = "Which of these?"
    path = jsonl(tmp_path, *rows)
    with pytest.raises(DiverError, match=r"answers of 2 problems count their options, and whether from 0 or from 1"):
        load_problems(Source(path=path, limit=2))
    assert [p.answer for p in load_problems(path)] == ["B", "B", "A"]
    assert [p.verifier for p in load_problems(Source(path=path, limit=2, verifier="math"))] == ["math", "math"]


def test_reference_answers_that_are_the_numbers_of_options(tmp_path):
    rows = [{"question": f"Which {i}?", "choices": ["0", "1", "2"], "answer": i} for i in range(3)]
    assert [p.answer for p in load_problems(jsonl(tmp_path, *rows))] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("prompt", "options"),
    [
        ("Q\n(A) x\n(B) y", {"A": "x", "B": "y"}),
        ("Q\n1. x\n2. y\n4. z", {"1": "x", "2": "y\n4. z"}),
        ("Q\nA) x", {}),
        ("no options", {}),
    ],
)
def test_listed_options(prompt, options):
    assert options_of(Problem("p", prompt, "A")) == options


def test_problems_have_the_columns_of_rollouts(tmp_path):
    """ARC has `answerKey` and `choices`, OpenMathReasoning `expected_answer`, BIG-bench `input` and `target`."""
    rows = [
        {"question": "Which rusts?", "choices": {"text": ["iron", "gold"], "label": ["A", "B"]}, "answerKey": "A"},
        {"problem": "1 + 1?", "expected_answer": "2", "answer": "3"},
        {"input": "not true", "target": "false"},
    ]
    problems = load_problems(str(write_rows(tmp_path / "x.jsonl", rows)))
    assert [(p.answer, p.verifier) for p in problems] == [("A", "choice"), ("2", "math"), ("false", "math")]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"problem": "a", "answer": "1"}, "{broken"], "problems.jsonl:2: not JSON"),
        ([{"problem": "a", "answer": "1"}, "", [1]], "problems.jsonl:3: a list, not an object"),
        (
            [{"problem": "a", "answer": "1"}, {"problem": "b"}],
            r"problems.jsonl:2: no answer: found problem; accepted ground_truth, .*, answer, solution, target",
        ),
        (
            [{"text": "a", "answer": "1"}],
            r"problems.jsonl:1: no prompt: found text, answer; accepted problem, question, prompt",
        ),
        ([{"problem": "a", "answer": " "}], "problems.jsonl:1: the answer must be text or a number, not ' '"),
        ([{"problem": "a", "answer": None}], "problems.jsonl:1: no answer: answer is empty"),
        ([{"problem": "a", "answer": "proof"}], "problems.jsonl:1: no answer: 'proof' says that none is given"),
        (
            [{"problem": "a", "answer": "1", "images": [{"bytes": ""}]}],
            "problems.jsonl:1: images, and only text is read",
        ),
        (['{"problem": "a", "answer": NaN}'], "problems.jsonl:1: the answer must be text or a number, not nan"),
        (['{"problem": "a", "answer": -Infinity}'], "problems.jsonl:1: the answer must be text or a number, not -inf"),
        (
            [r'{"problem": "lone \ud83d x", "answer": "60"}'],
            r"problems.jsonl:1: the prompt has half of a surrogate pair, '\\ud83d'",
        ),
        (
            [{"prompt": [{"role": "user", "content": "\udc80"}], "answer": "1"}],
            "problems.jsonl:1: the prompt has half of",
        ),
        ([{"problem": "a", "answer": "\udc80"}], "problems.jsonl:1: the answer has half of a surrogate pair"),
        (
            [{"prompt": [{"role": "user", "content": None}], "answer": "1"}],
            "problems.jsonl:1: the content of a message must be text or parts of text, not None",
        ),
        (
            [{"prompt": [{"role": "user", "content": [{"type": "image", "text": None}]}], "answer": "1"}],
            r"problems.jsonl:1: the content of a message must be text or parts of text, not \[\{'type': 'image'",
        ),
        ([{"problem": "a", "answer": {"x": 1}}], "problems.jsonl:1: the answer must be"),
        ([{"problem": "  ", "answer": "1"}], "problems.jsonl:1: the prompt must be text or a list of messages"),
        ([{"prompt": [{"role": "user"}], "answer": "1"}], "problems.jsonl:1: the prompt must be"),
        ([], "problems.jsonl: empty, not one problem"),
        (["[" * 100_000], "problems.jsonl:1: not JSON"),
        (
            [{"problem": "a", "answer": "1"}, f'{{"problem": "b", "answer": {"9" * 5000}}}'],
            "problems.jsonl:2: not JSON",
        ),
    ],
)
def test_bad_rows_name_file_and_line(tmp_path, lines, message):
    with pytest.raises(DiverError, match=message) as caught:
        load_problems(jsonl(tmp_path, *lines))
    assert "\n" not in str(caught.value)


def test_bad_sources(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.txt").write_text("a,b")
    (tmp_path / "x.parquet").write_text("not parquet")
    (tmp_path / "x.jsonl").write_bytes(b'{"problem": "\xff"}')
    for source, message in [
        (
            Source(path=str(tmp_path / "no.jsonl")),
            "no.jsonl: no such file or folder in .*, and not the id of a data set",
        ),
        (Source(path="no/such.jsonl"), "no/such.jsonl: no such file"),
        (Source(path=str(tmp_path / "empty")), "no .jsonl or .parquet or .csv file in this folder"),
        (Source(path=str(tmp_path / "x.txt")), "must be .jsonl or .parquet or .csv or .json, not .txt"),
        (Source(path=str(tmp_path / "x.parquet")), "x.parquet: not a readable parquet file"),
        (Source(path=str(tmp_path / "x.jsonl")), "x.jsonl:1: not UTF-8"),
        (Source(), "path: name a .jsonl, .json, .csv or .parquet file"),
        (Source(path="a", columns={"solution": "x"}), "columns: unknown choice 'solution'; choices: prompt, answer"),
        (
            Source(path="a", verifier="oracle"),
            "verifier: unknown choice 'oracle'; choices: math, gsm8k, choice",
        ),
    ]:
        with pytest.raises(DiverError, match=message):
            load_problems(source)
    with pytest.raises(ValueError, match="limit must be at least 1, not 0"):
        Source(path="a", limit=0)


@pytest.mark.parametrize("given", [{"split": "test"}, {"config": "main"}, {"revision": "abc"}])
def test_what_the_hub_alone_has_is_refused_for_several_files_and_a_note_for_one(given, tmp_path):
    """`split` may mean the test file of a folder, of which every file is read;
    a recipe for the hub may be given another file."""
    (name,) = given
    file = write_rows(tmp_path / "train.jsonl", [{"problem": "1 + 1?", "answer": "2"}])
    note = f": every row is read; {name} is for a data set on the hub"
    for path in (file, tmp_path):
        problems = load_problems(Source(path=str(path), **given))
        assert len(problems) == 1 and problems.notes[-1] == f"{path}{note}"
    write_rows(tmp_path / "test.jsonl", [{"problem": "1 + 2?", "answer": "3"}])
    with pytest.raises(DiverError, match=f"^{name}: is for a data set on the hub.*name the file to read as path"):
        load_problems(Source(path=str(tmp_path), **given))


def test_the_hub_without_datasets(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DiverError, match=r"openai/gsm8k: a data set on the hub: datasets: not installed.*\[train\]"):
        load_problems(Source(path="openai/gsm8k", config="main"))


HUB_ROWS = [
    {"question": "How many?", "answer": "It is 8.\n#### 8"},
    {"question": "How many?", "answer": "It is 8.\n#### 8"},
    {"question": "How much?", "answer": "9\n#### 9"},
]


def test_rows_of_the_hub():
    source = Source(path="openai/gsm8k", config="main")
    rows = [(f"row {number}", row) for number, row in enumerate(HUB_ROWS, start=1)]
    problems = deduplicate(rows, source, source.path, ["openai/gsm8k: revision e53f048"])
    assert [(p.answer, p.verifier, p.id) for p in problems] == [("8", "gsm8k", "gsm8k-0"), ("9", "gsm8k", "gsm8k-2")]
    assert problems.notes == [
        "openai/gsm8k: revision e53f048",
        "openai/gsm8k: 1 duplicate rows left out, 2 problems remain",
    ]
    with pytest.raises(DiverError, match="row 1: no answer"):
        deduplicate([("row 1", {"question": "?"})], source, source.path)


@pytest.mark.parametrize(
    ("name", "verifiers"),
    [
        ("gsm8k_train", {"gsm8k": 7473}),
        ("math500", {"math": 500}),
        ("arc_challenge_test", {"choice": 1150, "math": 22}),  # the 22 have numbered options
        ("olympiadbench", {"math": 675}),
    ],
)
def test_real_data(name, verifiers):
    path = DATA / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"{path.name} is not in DIVER_DATA")
    problems = load_problems(str(path))
    assert Counter(p.verifier for p in problems) == verifiers and problems.notes == []
    assert len({p.id for p in problems}) == len(problems)


OWN = """
from diver.core.types import Problem
def rows():
    for i in range(3):
        yield {"problem": f"{i}+1?", "answer": i + 1}
    yield {"problem": "0+1?", "answer": "1"}
def problems():
    return [Problem("a", "1+1?", "2", verifier="gsm8k"), Problem("b", "1+2?", "3", verifier="nonsense")]
def endless():
    n = 0
    while True:
        yield {"problem": f"{n}+1?", "answer": n + 1}
        n += 1
def number(): return 5
def strings(): return ["a"]
def with_argument(n): ...
"""


def test_a_function_of_problems(tmp_path, monkeypatch):
    (tmp_path / "own_problems.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    loaded = load_problems("own_problems:rows")
    (first, *_), count = loaded, len(loaded)
    assert (first.id, first.prompt, first.answer, first.verifier) == ("own_problems:rows-0", "0+1?", "1", "math")
    assert count == 3 and loaded.notes == ["own_problems:rows: 1 duplicate rows left out, 3 problems remain"]
    ruled = load_problems(Source(path="own_problems:problems", verifier="gsm8k"))
    assert [(p.id, p.verifier) for p in ruled] == [("a", "gsm8k"), ("b", "gsm8k")]
    assert len(load_problems(Source(path="own_problems:endless", limit=7))) == 7
    for path, message in {
        "own_problems:problems": "data.verifier: unknown choice 'nonsense'",
        "own_problems:none": "data.path: 'own_problems:none' cannot be imported",
        "own_problems:number": "data.path: 'own_problems:number' must return or yield problems, not int",
        "own_problems:strings": "own_problems:strings, problem 1: a str, not a Problem or a dict",
        "own_problems:with_argument": r"data.path: 'own_problems:with_argument' must take \(\)",
    }.items():
        with pytest.raises(DiverError, match=message):
            load_problems(Source(path=path), "data")


INVALID = [
    {"problem": "1+1?", "answer": "2"},
    {"problem": "1+2?"},
    "{broken",
    {"problem": "1+3?", "answer": None},
    {"problem": " ", "answer": "5"},
    {"problem": "1+4?", "answer": {"x": 5}},
    [1],
    {"problem": "1+5?", "answer": "6"},
    r'{"problem": "1+6 \ud83d", "answer": "7"}',
]


def test_invalid_rows_are_skipped_and_counted_where_that_is_asked_for(tmp_path):
    path = jsonl(tmp_path, *INVALID)
    problems = load_problems(Source(path=path, skip_invalid_rows=True))
    assert [(p.id, p.answer) for p in problems] == [("problems-0", "2"), ("problems-7", "6")]
    assert problems.notes == [
        f"{path}: 7 invalid rows left out (skip_invalid_rows): 2 no answer (first at {path}:2), 1 not JSON (first at "
        f"{path}:3), 1 the prompt must be text or a list of messages with role and content (first at {path}:5), 1 the "
        f"answer must be text or a number (first at {path}:6), 1 a list, not an object (first at {path}:7), "
        f"1 the prompt has half of a surrogate pair (first at {path}:9)"
    ]
    told = (
        f"{path}:2: no answer: .*; data.columns names other columns; data.skip_invalid_rows = true leaves out such rows"
    )
    with pytest.raises(DiverError, match=told):
        load_problems(Source(path=path), "data")
    with pytest.raises(
        DiverError, match=f"{path}:1: no column 'gold' for the answer: found .*; data.columns names it$"
    ):
        load_problems(Source(path=path, columns={"answer": "gold"}), "data")


@pytest.mark.parametrize("name", ["id", "source"])
def test_a_named_column_of_ids_or_sources_that_is_missing_is_an_error(tmp_path, name):
    rows = [{"problem": "1+1?", "answer": "2", "meta": {"uid": 7, "of": None}}]
    path = str(write_rows(tmp_path / "a.jsonl", rows))
    for column in ("uuid", "uid.of"):
        told = f"a.jsonl:1: no column '{column}' for the {name}: found problem, answer, meta; data.columns names it"
        with pytest.raises(DiverError, match=told):
            load_problems(Source(path=path, columns={name: column}), "data")
    (problem,) = load_problems(Source(path=path, columns={name: "meta.uid"}), "data")
    assert getattr(problem, name) == "7"
    (problem,) = load_problems(Source(path=path, columns={"source": "meta.of"}), "data")
    assert problem.source == "a"


def test_a_file_without_a_valid_row_and_an_unreadable_one_are_errors_also_where_rows_are_skipped(tmp_path):
    path = jsonl(tmp_path, {"problem": "1+1?"}, {"problem": "1+2?"})
    with pytest.raises(DiverError, match=r"problems.jsonl: empty, not one problem; .*problems.jsonl:1: no answer"):
        load_problems(Source(path=path, skip_invalid_rows=True))
    (tmp_path / "torn.parquet").write_text("not parquet")
    with pytest.raises(DiverError, match="torn.parquet: not a readable parquet file"):
        load_problems(Source(path=str(tmp_path / "torn.parquet"), skip_invalid_rows=True))


def test_a_problem_of_ones_own_whose_answer_is_a_number_is_told(tmp_path, monkeypatch):
    (tmp_path / "numbers_for_answers.py").write_text(
        "from diver.core.types import Problem\n\ndef problems():\n    return [Problem('p1', 'What?', 42)]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DiverError, match=r"problem 1: the answer must be text, not 42"):
        load_problems(Source(path="numbers_for_answers:problems"))


def test_a_broken_file_is_no_row_that_is_left_out(tmp_path):
    (tmp_path / "x.json").write_text('[{"question": "1 + 1?", "answer": "2"}')
    for skips in (False, True):
        with pytest.raises(DiverError, match=r"^\S+x.json: not JSON \(Expecting[^;]*$"):
            load_problems(Source(path=str(tmp_path / "x.json"), skip_invalid_rows=skips))
