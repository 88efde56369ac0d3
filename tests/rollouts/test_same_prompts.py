"""Different problems with equal prompts: what tells them apart, and what only looks as if it did."""

import json
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from diver_command import fails, succeeds
from rows import write_rows

from diver.rollouts import Columns, read_rollouts

WORDS = [("crane", "crane", 1), ("slate", "crane", 0), ("slate", "slate", 1), ("stone", "slate", 0)]


def rows_of(*columns, prompts=("Guess.",) * 4, answers=False):
    """Four responses; each column is (name, its four values)."""
    rows = []
    for i, (said, answer, reward) in enumerate(WORDS):
        more = {name: values[i] for name, values in columns} | ({"answer": answer} if answers else {})
        rows.append({"prompt": prompts[i], "completion": said, "reward": reward, **more})
    return rows


def responses(path, **columns):
    return [group.responses for group in read_rollouts(path, Columns(**columns))]


TWO = [["crane", "slate"], ["slate", "stone"]]
ONE = [["crane", "slate", "slate", "stone"]]


@pytest.mark.parametrize(
    "name",
    [
        "example_id", "question_id", "idx", "unique_id", "_ng_task_index", "uid", "id", "index", "problem_idx",
        "task_id", "prompt_id", "questionId", "doc_hash", "problem-uid", "data_id", "pid", "query_id", "dataset_index",
        "source_id", "source_idx", "orig_idx", "original_index", "case_id", "puzzle_id", "record_id", "row_id",
        "sample_id", "game_id", "challenge_id", "episode_id",
    ],
)  # fmt: skip
@pytest.mark.parametrize("values", [(0, 0, 1, 1), ("a", "a", "b", "b"), ("a_0_0", "a_1_0", "b_0_0", "b_1_0")])
def test_an_id_that_responses_share_tells_problems_apart(tmp_path, name, values):
    """`a_0_0` is verl's: group, number of the rollout, number of its output; elsewhere one number stands at the end."""
    if name != "uid" and "_" in str(values[0]):
        values = [value.removesuffix("_0") for value in values]
    path = write_rows(tmp_path / "x.jsonl", rows_of((name, values)))
    found = read_rollouts(path)
    assert [g.responses for g in found] == TWO and [g.outcomes.tolist() for g in found] == [[1, 0], [1, 0]]
    assert len({g.problem.id for g in found}) == 2
    assert found.notes[1].startswith(f"{path}: different problems have the same prompt: column '{name}")


@pytest.mark.parametrize("values", [([1, 2], [1, 3]), ({"set": "a", "n": 1}, {"set": "b", "n": 1}), (0.5, 1.5)])
def test_an_id_of_several_parts_tells_problems_apart(tmp_path, values):
    """They were no ids, and the problems one group."""
    path = write_rows(tmp_path / "x.jsonl", rows_of(("problem_id", (values[0], values[0], values[1], values[1]))))
    assert [g.responses for g in read_rollouts(path)] == TWO


@pytest.mark.parametrize("name", ["context", "system", "input", "passage", "table"])
def test_what_stands_beside_a_prompt_tells_problems_apart(tmp_path, name):
    """The prompt may be a template, and a passage may have several questions."""
    rows = rows_of((name, ("one", "one", "two", "two")))
    path = write_rows(tmp_path / "x.jsonl", rows)
    found = read_rollouts(path)
    assert [g.responses for g in found] == TWO
    assert found.notes[1].startswith(f"{path}: different problems have the same prompt: column '{name}' tells them")
    assert len({g.problem.id for g in found}) == 2
    two_questions = [{**row, "prompt": prompt} for prompt in "PQ" for row in rows]
    assert responses(write_rows(tmp_path / "x.jsonl", two_questions)) == TWO * 2
    assert responses(write_rows(tmp_path / "x.jsonl", two_questions), problem="prompt") == ONE * 2


@pytest.mark.parametrize("name, problems", [("passage", 4), ("db_id", 4), ("system", 1), ("input", 1)])
def test_a_passage_of_one_response_is_of_a_problem_and_a_system_prompt_may_be_of_a_response(tmp_path, name, problems):
    path = write_rows(tmp_path / "x.jsonl", rows_of((name, ("one", "two", "three", "four"))))
    assert responses(path) == (ONE if problems == 1 else [["crane"], ["slate"], ["slate"], ["stone"]])


@pytest.mark.parametrize("name", ["input", "query", "instruction"])
def test_a_question_beside_a_constant_prompt_is_named(tmp_path, name):
    path = write_rows(tmp_path / "x.jsonl", rows_of((name, ("one", "two", "three", "four"))))
    found = read_rollouts(path)
    said = f"{path}: column {name!r} differs between the responses to a prompt: read as one problem; --problem {name}"
    assert [g.responses for g in found] == ONE and found.notes[1].startswith(said)
    assert len(read_rollouts(path, Columns(problem=name))) == 4


def test_a_passage_may_be_a_list(tmp_path):
    """HotpotQA's context has titles and sentences."""
    passages = [["Mars", ["It is red."]], ["Venus", ["It is hot."]]]
    rows = rows_of(("context", (passages[0], passages[0], passages[1], passages[1])))
    assert responses(write_rows(tmp_path / "x.jsonl", rows)) == TWO


def test_options_tell_problems_apart_but_not_their_order(tmp_path):
    """Many questions ask which of the following is true."""
    metals, gases = ["iron", "zinc"], ["neon", "argon"]
    path = write_rows(tmp_path / "x.jsonl", rows_of(("options", (metals, metals[::-1], gases, gases))))
    assert [g.responses for g in read_rollouts(path)] == TWO
    path = write_rows(tmp_path / "x.jsonl", rows_of(("options", (metals, gases, metals[::-1], ["lead", "tin"]))))
    assert responses(path) == [["crane", "slate"], ["slate"], ["stone"]]


def test_equal_options_do_not_hide_an_id(tmp_path):
    """Many questions on a passage have the options yes and no."""
    both = rows_of(("options", (["yes", "no"],) * 4), ("passage", ("one", "one", "two", "two")))
    assert responses(write_rows(tmp_path / "x.jsonl", both)) == TWO


def test_numbers_as_texts_are_the_ids_of_the_same_problem(tmp_path):
    rows = [
        {"problem_id": number, "response": text, "reward": 1} for number, text in ((1, "a"), ("1", "b"), (1.0, "c"))
    ]
    assert responses(write_rows(tmp_path / "x.jsonl", rows)) == [["a", "b", "c"]]


def test_ids_and_outcomes_of_parquet_may_be_decimals_and_dates(tmp_path):
    """BigQuery and Spark write numbers as decimals, which were no outcomes."""
    numbers = [Decimal("1.00"), Decimal("1.00"), Decimal("2.00"), Decimal("2.00")]
    dates = [date(2020, 1, 1), date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 2)]
    for name, ids in (("uuid", numbers), ("problem_id", dates)):
        columns = {name: ids, "prompt": ["Guess."] * 4, "response": [*"abcd"]}
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table(columns | {"reward": [Decimal("1.0"), Decimal("0.0")] * 2}), path)
        found = read_rollouts(path)
        assert [g.responses for g in found] == [["a", "b"], ["c", "d"]]
        assert [g.outcomes.tolist() for g in found] == [[1, 0], [1, 0]]


@pytest.mark.parametrize(
    "values, said",
    [
        ((7, 8, 9, 10), "the number of the row"),
        ((0, 0, 0, 0), "one problem"),
        ((None, None, None, None), "nothing"),
        ((5, 5, None, ""), "one problem, and of two responses nothing"),
        ((float("nan"), None, "", "None"), "nothing"),
    ],
)
@pytest.mark.parametrize("name", ["idx", "example_id", "uid"])
def test_a_column_of_ids_that_numbers_rows_or_says_nothing_leaves_the_prompt(tmp_path, name, values, said):
    path = write_rows(tmp_path / "x.jsonl", rows_of((name, values)))
    found = read_rollouts(path)
    assert [g.responses for g in found] == ONE
    another = f"{path}: column 'example_id' has another value in every response to a prompt: read as one problem; "
    another += "--problem example_id reads a problem for each value (prompt 'Guess.')"
    of_problems = name == "example_id" and said == "the number of the row"  # by its name, which may be wrong
    assert found.notes[1:] == [another] * of_problems
    assert not of_problems or responses(path, problem=name) == [["crane"], ["slate"], ["slate"], ["stone"]]


@pytest.mark.parametrize("name", ["idx", "row_id", "sample_id", "sample_idx", "record_id", "episode_id", "data_id"])
def test_a_column_that_may_number_rollouts_and_has_another_value_in_each_is_not_worth_a_note(tmp_path, name):
    found = read_rollouts(write_rows(tmp_path / "x.jsonl", rows_of((name, (0, 1, 2, 3)))))
    assert [g.responses for g in found] == ONE and len(found.notes) == 1


@pytest.mark.parametrize(
    "columns",
    [
        [("example_id", (0, 1, 2, 3)), ("task", ("wordle",) * 4)],  # verifiers, one rollout a problem
        [("_ng_task_index", (0, 1, 2, 3)), ("_ng_rollout_index", (0,) * 4)],  # NeMo-Gym
        [("image", ("0.png", "1.png", "2.png", "3.png"))],
    ],
)
def test_a_column_that_is_of_problems_for_certain_needs_no_second_response(tmp_path, columns):
    path = write_rows(tmp_path / "x.jsonl", rows_of(*columns))
    found = read_rollouts(path)
    assert [g.responses for g in found] == [["crane"], ["slate"], ["slate"], ["stone"]]
    assert f"different problems have the same prompt: column '{columns[0][0]}' tells them apart" in found.notes[1]
    assert responses(path, problem="prompt") == ONE


@pytest.mark.parametrize(
    "images",
    [
        {"image": "%d.png"},
        {"images": ["%d.png"]},
        {"image_path": "%d.png"},
        {"image": {"bytes": None, "path": "%d.png"}},
        {"images": ["%d.png", "map.png"]},
        {"multi_modal_data": {"image": ["%d.png"]}},
    ],
)
def test_problems_that_differ_in_an_image_alone(tmp_path, images):
    """Of two images with the same question, each is a problem; so is each of two questions on one image."""
    (column, value), *_ = images.items()
    of = [json.loads(json.dumps(value).replace("%d", i)) for i in "0011"]
    assert responses(write_rows(tmp_path / "x.jsonl", rows_of((column, of)))) == TWO
    assert responses(write_rows(tmp_path / "x.jsonl", rows_of((column, of[:1] * 4), prompts="PPQQ"))) == TWO
    assert responses(write_rows(tmp_path / "x.jsonl", rows_of((column, of[:1] * 4)))) == ONE


def test_images_that_a_rollout_has_seen_are_none_of_its_problem(tmp_path):
    seen = [["start.png", f"{i}.png"] for i in range(4)]
    assert responses(write_rows(tmp_path / "x.jsonl", rows_of(("images", seen)))) == ONE
    for nothing in (None, "", [], 1, True):
        of = (nothing, None, nothing, nothing)
        assert responses(write_rows(tmp_path / "x.jsonl", rows_of(("images", of)))) == ONE


def test_prompts_that_differ_in_an_image_alone_are_two_problems(tmp_path):
    """In their messages, whose text is the same; at every step they have the same names."""
    for step in (1, 2):
        rows = [
            {"prompt": [{"role": "user", "content": [{"type": kind, kind: i}, {"type": "text", "text": "Find x"}]}]}
            for kind in ("image_url", "input_image")
            for i in ("a.png", "b.png", "a.png")
        ]
        write_rows(tmp_path / f"step_{step}.jsonl", [{**row, "completion": "x"} for row in rows[::step]])
    groups = read_rollouts(tmp_path)
    assert "9 responses to 4 problems in" in groups.notes[0]
    assert all(g.problem.prompt == ({"role": "user", "content": "Find x"},) for g in groups)


@pytest.mark.parametrize("name", ["idx", "index", "sample_id", "row_id", "data_id"])
def test_the_number_of_a_sample_repeats_with_every_prompt_and_is_no_problem(tmp_path, name):
    """By hand: P and Q have samples 0 and 1, each written twice, as by two models that nobody keeps apart."""
    rows = [{"prompt": p, "completion": f"{p}{i}{m}", name: i} for p in "PQ" for m in "xy" for i in (0, 1)]
    path = write_rows(tmp_path / "x.jsonl", rows)
    assert responses(path) == [["P0x", "P1x", "P0y", "P1y"], ["Q0x", "Q1x", "Q0y", "Q1y"]]


def test_different_prompts_stay_different_whatever_their_id(tmp_path):
    path = write_rows(tmp_path / "x.jsonl", rows_of(("example_id", (0, 0, 0, 0)), prompts="PPQQ"))
    assert responses(path) == TWO


def test_two_benchmarks_that_number_their_problems_alike_keep_their_ids(tmp_path):
    """Task b asks another question under the ids of task a, which still tell apart the problems of a."""
    rows = [{**row, "task": "a"} for row in rows_of(("example_id", (0, 0, 1, 1)))]
    rows += [{"prompt": "Other.", "completion": "x", "task": "b", "example_id": i} for i in (0, 0)]
    assert responses(write_rows(tmp_path / "x.jsonl", rows)) == [*TWO, ["x", "x"]]


def test_reference_answers_that_differ_tell_problems_apart(tmp_path):
    """With row numbers, and with nothing else that would; a row without an answer belongs to neither."""
    for columns in ([], [("idx", (0, 1, 2, 3))]):
        found = read_rollouts(path := write_rows(tmp_path / "x.jsonl", rows_of(*columns, answers=True)))
        assert [(g.responses, g.problem.answer) for g in found] == [(TWO[0], "crane"), (TWO[1], "slate")]
        said = f"{path}: one prompt has different reference answers: 'crane' and 'slate', which tell problems apart"
        assert found.notes[1] == f"{said} (prompt 'Guess.')"
    verl = [{"input": "<image>Find x.", "output": "o", "gts": g, "score": 1, "step": 1} for g in "5577"]
    assert [len(g) for g in read_rollouts(write_rows(tmp_path / "1.jsonl", verl))] == [2, 2]


def test_a_reference_answer_that_only_some_rows_have_splits_nothing(tmp_path):
    rows = [{"prompt": "P", "completion": "a", "answer": answer} for answer in ("7", "", None, " 7 ")]
    found = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert [len(g) for g in found] == [4] and len(found.notes) == 1


def test_the_column_that_the_user_names_for_the_problem_decides_alone(tmp_path):
    path = write_rows(tmp_path / "x.jsonl", rows_of(("example_id", (0, 0, 1, 1)), answers=True))
    found = read_rollouts(path, Columns(problem="prompt"))
    assert [g.responses for g in found] == ONE
    assert found.notes[1] == (
        f"{path}: one group has different reference answers: 'crane' and 'slate' (prompt 'Guess.')"
    )
    assert "have different reference answers, 'crane' and 'slate'" in fails("grade", path, "--problem", "prompt")
    page = tmp_path / "page.html"
    assert "one group has different reference answers" in succeeds("browse", path, "--problem", "prompt", "--out", page)


def test_what_is_graded_apart_is_read_apart(tmp_path):
    rows = [row | {"completion": rf"\boxed{{{i}}}"} for i, row in enumerate(rows_of(("example_id", (0, 0, 1, 1))))]
    path = write_rows(tmp_path / "x.jsonl", [row | {"answer": "1"} for row in rows])
    succeeds("grade", path, "--out", tmp_path / "out")
    assert [len(g) for g in read_rollouts(tmp_path / "out" / "samples.jsonl")] == [2, 2]


def test_a_group_id_that_is_missing_makes_no_group(tmp_path):
    """In verl's `uid`, slime's `group_index` and lm-eval's `doc_id`; by hand: P and Q are two problems."""
    verl = [{"input": p, "output": "o", "score": 1, "uid": f"None_{i}_0"} for i, p in enumerate("PPQQ")]
    slime = [
        {
            "group_index": None,
            "prompt": p,
            "response": "r",
            "label": "7",
            "reward": 1,
            "status": "completed",
            "rollout_id": 0,
        }
        for p in "PPQQ"
    ]
    request = {"until": ["\n"]}
    lm_eval = [
        {"doc_id": None, "doc": {}, "target": 0, "arguments": [[p, request]], "resps": [["r"]], "filtered_resps": ["r"]}
        for p in "PPQQ"
    ]
    for rows in (verl, slime, lm_eval):
        groups = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
        assert [(g.problem.prompt, len(g)) for g in groups] == [("P", 2), ("Q", 2)]
    assert groups[0].problem.answer == "0"


@pytest.mark.parametrize(
    "column", ["extra_info", "extra", "metadata", "meta_data", "info", "state", "doc", "task", "example"]
)
def test_ids_inside_a_column(tmp_path, column):
    inside = [{"index": i, "split": "test"} for i in (0, 0, 1, 1)]
    path = write_rows(tmp_path / "x.jsonl", rows_of((column, inside)))
    assert responses(path) == TWO
    assert f"column '{column}.index' tells them apart" in read_rollouts(path).notes[1]
    both = rows_of((column, inside), ("index", (0, 1, 2, 3)))  # a number of the row does not hide it
    assert responses(write_rows(tmp_path / "x.jsonl", both)) == TWO
    rows = [{f"{column}.index": i, "prompt": "P", "completion": r} for i, r in zip("0011", "abcd", strict=True)]
    assert responses(write_rows(tmp_path / "x.jsonl", rows)) == [["a", "b"], ["c", "d"]]  # as pandas flattens it


@pytest.mark.parametrize("values", [("t0:0", "t0:1", "t1:0", "t1:1"), ("a-0", "a-1", "b-0", "b-1")])
def test_a_uid_of_a_problem_and_one_number(tmp_path, values):
    """verl's has two numbers: with one of them taken off, the outputs of one rollout would be a problem."""
    assert responses(write_rows(tmp_path / "x.jsonl", rows_of(("uid", values)))) == TWO
    verl = ("a_0_0", "a_0_1", "a_1_0", "a_1_1")
    assert responses(write_rows(tmp_path / "x.jsonl", rows_of(("uid", verl)))) == ONE
    assert responses(write_rows(tmp_path / "x.jsonl", rows_of(("uid", ("a-0", "a-1", "a-2", "a-3"))))) == ONE


def test_ids_of_a_csv_file(tmp_path):
    (tmp_path / "x.csv").write_text(",idx,prompt,response\n0,5,P,a\n1,5,P,b\n2,6,P,c\n3,6,P,d\n4,None,P,e\n5,,P,f\n")
    assert responses(tmp_path / "x.csv") == [["a", "b"], ["c", "d"], ["e", "f"]]


def test_problems_by_their_ids_alone(tmp_path):
    for name in ("question_id", "example_id", "unique_id", "task_id"):
        path = write_rows(tmp_path / "x.jsonl", [{name: i, "response": f"r{i}"} for i in (3, 3, 4)])
        assert responses(path) == [["r3", "r3"], ["r4"]]
    path = write_rows(path, [{"question_id": i, "response": "r"} for i in (3, None)])
    assert "x.jsonl:2: no problem" in fails("measure", path)


def test_names_of_problems_with_equal_prompts_are_the_same_at_every_step(tmp_path):
    for step in (1, 2):
        rows = rows_of(("example_id", (0, 0, 1, 1)))
        write_rows(tmp_path / f"step_{step}.jsonl", rows[::-1] if step == 2 else rows)
    named = {(g.problem.id, *sorted(g.responses)) for g in read_rollouts(tmp_path)}
    assert len(named) == 2 and "4 groups" in read_rollouts(tmp_path).notes[0]
    page = tmp_path / "p.html"
    printed = succeeds("measure", tmp_path, "--metrics", "equational", "--k", "1", "--out", tmp_path / "out")
    assert "| problems        |" in printed and len({json.dumps(n) for n in named}) == 2 and not page.exists()


@pytest.mark.parametrize("column", ["answer", "image", "options", "_ng_task_index", "example_id"])
def test_problems_with_equal_prompts_at_different_steps_are_different(tmp_path, column):
    """Each of four steps has one problem, and all ask to find x: they were one, with the mean of all. 3 occurs twice.

    Pass@1 of 3 is (1 + 0) / 2, of 7 is 1 and of 9 is 1/2: their mean is 2/3, and was 5/8 of the one problem.
    """
    values = {"options": [["a", "3"], ["a", "7"], ["a", "3"], ["a", "9"]], "example_id": [3, 7, 3, 9]}
    values = values.get(column, ["3", "7", "3", "9"])
    outcomes = [(1, 1), (1, 1), (0, 0), (1, 0)]
    rows = [
        {"step": step, "task": "t", "prompt": "Find x.", "completion": f"r{i}", column: value, "correct": of[i]}
        for step, (value, of) in enumerate(zip(values, outcomes, strict=True), start=1)
        for i in range(2)
    ]
    path = write_rows(tmp_path / "x.jsonl", [row | {"_ng_rollout_index": 0} for row in rows])
    groups = read_rollouts(path)
    assert [g.problem.id for g in groups] == ["problem-1", "problem-2", "problem-1", "problem-3"]
    said = succeeds("measure", path, "--metrics", "equational", "--k", "1")
    assert "8 responses to 3 problems in 4 groups of 2" in said and "66.7 [" in said
    browsed = succeeds("browse", path, "--out", tmp_path / "page.html")
    assert "| Pass@1" in browsed and "66.7 [" in browsed


def test_an_id_of_each_step_does_not_name_a_problem_that_its_answer_names(tmp_path):
    """verl's `uid` is another one at every step; at the second step one of the two problems is alone."""
    rows = [
        {"step": step, "prompt": "Find x.", "response": "r", "answer": answer, "uid": f"{step}{answer}"}
        for step, answers in ((1, "37"), (2, "3"), (3, "37"))
        for answer in answers
        for _ in range(2)
    ]
    groups = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert [(g.problem.id, g.problem.answer) for g in groups] == [
        (f"problem-{'37'.index(answer) + 1}", answer) for answer in "37337"
    ]


def test_a_problem_by_the_column_that_the_user_names_is_one_whatever_its_answers(tmp_path):
    rows = [{"step": s, "q": "P", "response": "r", "answer": a} for s, a in ((1, "3"), (2, "7"))]
    groups = read_rollouts(write_rows(tmp_path / "x.jsonl", rows), Columns(problem="q"))
    assert [g.problem.id for g in groups] == ["problem-1"] * 2


def test_an_id_in_a_column_of_json(tmp_path):
    rows = [{"prompt": "P", "completion": r, "info": json.dumps({"idx": "ab".index(r)})} for r in "aabb"]
    groups = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert [g.responses for g in groups] == [["a", "a"], ["b", "b"]]
    rows = [row | {"info": "{" * 10_000} for row in rows]  # no JSON
    assert len(read_rollouts(write_rows(tmp_path / "x.jsonl", rows))) == 1


def test_an_id_that_all_rows_share_does_not_hide_one_that_tells_them_apart(tmp_path):
    """`task_id` names a family of tasks here, and stands first."""
    rows = [{"task_id": "guess", **row} for row in rows_of(("example_id", (0, 0, 1, 1)))]
    assert responses(write_rows(tmp_path / "x.jsonl", rows)) == TWO
