"""What files of named columns leave open: whose an outcome is, of which step, benchmark and model the rows are."""

import json

import pytest
from diver_command import fails, succeeds
from rollout_files import shape
from rows import write_rows

from diver.rollouts import Columns, read_rollouts


def test_one_outcome_of_several_responses_is_of_none_of_them(tmp_path):
    """As the accuracy of a row: 0.5 of four would be four correct ones.
    Of a single response it is known whose it is."""
    rows = [{"problem": f"p{i}", "responses": ["a", "b", "c", "d"], "accuracy": 0.5, "answer": "7"} for i in (0, 1)]
    rows += [{"problem": "p2", "responses": ["a"], "accuracy": 1}]
    path = write_rows(tmp_path / "x.jsonl", rows)
    said = "x.jsonl: one outcome for several responses, which does not say whose it is: left out"
    for found in (read_rollouts(path), read_rollouts(path, Columns(outcome="accuracy"))):
        assert [[r.reward and r.reward.outcome for r in g.rollouts] for g in found] == [[None] * 4, [None] * 4, [1]]
        assert sum(note.endswith(said) for note in found.notes) == 1
    printed = succeeds("grade", write_rows(tmp_path / "y.jsonl", rows[:2]))
    assert "y.jsonl: one outcome for several responses" in printed and "labels:" not in printed


@pytest.mark.parametrize("name", ["step_{}", "global_step-{}/all", "iteration{:03}", "rollout_{}/0"])
def test_the_step_of_named_columns_is_the_number_behind_its_word(tmp_path, name):
    for step in (1, 2):
        write_rows(tmp_path / f"{name.format(step)}.jsonl", [{"problem": "Q", "response": f"{step} {i}"} for i in "ab"])
    groups = read_rollouts(tmp_path)
    assert [(g.problem.meta["step"], g.responses) for g in groups] == [(1, ["1 a", "1 b"]), (2, ["2 a", "2 b"])]


def test_a_column_of_steps_goes_before_the_name_and_other_numbers_are_no_steps(tmp_path):
    write_rows(tmp_path / "a" / "step_1.jsonl", [{"problem": "Q", "response": "a", "step": 7}])
    assert read_rollouts(tmp_path / "a")[0].problem.meta["step"] == 7
    for name in ("1", "data_00002"):
        write_rows(tmp_path / "b" / f"{name}.jsonl", [{"problem": "Q", "response": name}])
    assert shape(read_rollouts(tmp_path / "b"))[0][:3] == ("problem-1", None, ["1", "data_00002"])


@pytest.mark.parametrize("problem", [{"problem_id": "q-60"}, {"problem": 60}, {"problem": "60"}])
@pytest.mark.parametrize("source", ["benchmark", "data_source", "dataset", "task", "source", "env"])
def test_two_benchmarks_of_named_columns_that_number_their_problems_alike(tmp_path, problem, source):
    rows = [{**problem, source: name, "response": name} for name in ("aime24", "amc", "aime24")]
    groups = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert [(g.problem.source, g.responses) for g in groups] == [("aime24", ["aime24"] * 2), ("amc", ["amc"])]


def test_a_problem_by_its_text_is_the_same_in_every_benchmark(tmp_path):
    rows = [{"problem": "1 + 1?", "benchmark": name, "response": name} for name in ("a", "b")]
    rows += [{"problem": 7, "task": text, "response": "c"} for text in (["a"], "b" * 201)]  # no names
    groups = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert [(g.problem.source, g.responses) for g in groups] == [("", ["a", "b"]), ("", ["c", "c"])]


def test_the_source_of_a_response_tells_no_problems_apart(tmp_path):
    """Where a prompt says which problem it is, `source` may name the machine that answered."""
    rows = [{"prompt": "P", "problem_id": 1, "source": s, "response": r} for s, r in zip("xyxy", "abcd", strict=True)]
    (group,) = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert group.responses == [*"abcd"] and group.problem.source == ""


def test_models_that_nobody_keeps_apart_are_said(tmp_path):
    rows = [{"problem": p, "model": m, "response": "a"} for p, m in (("P", "x"), ("P", "y"), ("P", "z"), ("Q", "x"))]
    path = write_rows(tmp_path / "x.jsonl", rows)
    said = f"{path}: column 'model' differs within a group; --by model keeps the models apart"
    assert read_rollouts(path).notes[1:] == [said]
    assert read_rollouts(path, Columns(by="model")).notes[1:] == []
    assert read_rollouts(write_rows(path, rows[::3])).notes[1:] == []  # P of x, and Q of x


def test_the_outcome_that_was_guessed_is_said_and_so_is_one_above_1(tmp_path):
    """By hand: a judge's 2 of 1 to 5 is correct at the threshold 0.5, which nobody set."""
    rows = [{"problem": "Q", "response": "a b", "score": s, "answer": "7"} for s in (2, 5)]
    path = write_rows(tmp_path / "x.jsonl", rows)
    assert read_rollouts(path).notes == [
        f"{path}: named columns: 2 responses to 1 problems in 1 groups of 2; outcome: score"
    ]
    assert read_rollouts(path, Columns(outcome="score")).notes[0].endswith("groups of 2")
    said = ": outcomes of up to 5; those of at least 0.5 count as correct (--threshold sets it)"
    for command in ("measure", "browse", "grade"):
        page = ["--out", tmp_path / "x.html"] if command == "browse" else []
        assert succeeds(command, path, *page).count(said) == 1
        assert said not in succeeds(command, path, *page, "--threshold", "4")
    assert "<dt>Outcome</dt><dd>score</dd>" in (tmp_path / "x.html").read_text()
    assert "outcomes of up to" not in succeeds("measure", write_rows(path, [{**row, "score": 1} for row in rows]))


def test_a_partial_score_of_inspect_is_not_correct(tmp_path):
    """As its pass_at has it; a number is what it is."""
    output = {"choices": [{"message": {"content": "a"}}]}
    samples = [
        {"id": 1, "epoch": i, "input": "Q", "target": "7", "output": output, "scores": {"s": {"value": value}}}
        for i, value in enumerate(["C", "P", "I", "N", 0.5])
    ]
    (tmp_path / "log.json").write_text(json.dumps({"eval": {"task": "t", "model": "m"}, "samples": samples}))
    assert read_rollouts(tmp_path / "log.json")[0].outcomes.tolist() == [1, 0, 0, 0, 0.5]


def test_a_layout_of_its_own_has_no_other_source_and_no_step_of_a_name(tmp_path):
    rows = [{"input": "60", "output": "a", "gts": "7", "score": 1, "data_source": name} for name in ("aime24", "amc")]
    (group,) = read_rollouts(write_rows(tmp_path / "step_3.jsonl", rows))
    assert (group.problem.source, group.problem.meta, group.responses) == ("", {}, ["a", "a"])


@pytest.mark.parametrize("header", ["", "Unnamed: 0", "index", "level_0"])
def test_the_row_numbers_of_pandas_are_no_outcome(tmp_path, header):
    """By hand: row numbers 0 to 3 as outcomes would make three of four responses correct."""
    (tmp_path / "x.csv").write_text(f"{header},question,response\n" + "".join(f"{i},Q{i // 2},{i}\n" for i in range(4)))
    found = read_rollouts(tmp_path / "x.csv")
    assert [r.reward for g in found for r in g.rollouts] == [None] * 4 and "none with an outcome" in found.notes[0]
    assert [g.responses for g in found] == [["0", "1"], ["2", "3"]]
    (tmp_path / "x.csv").write_text(f"{header},question,response,correct\n5,Q,a,1\n6,Q,b,0\n")
    (group,) = found = read_rollouts(tmp_path / "x.csv")
    assert group.outcomes.tolist() == [1, 0] and found.notes[0].endswith("outcome: correct")


@pytest.mark.parametrize("name", ["Unnamed: 0", "index", "__index_level_0__", "example_id", "idx"])
def test_the_numbers_of_rows_and_problems_are_no_reward_of_trl(tmp_path, name):
    """TRL's outcome is the only column of numbers beside its own, and here there is none, or `accuracy`."""
    rows = [{name: i, "prompt": "P", "completion": str(i), "advantage": 0.0, "step": 1} for i in (5, 6)]
    (group,) = found = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert [r.reward for r in group.rollouts] == [None, None] and "the outcome column is ambiguous" in found.notes[1]
    (group,) = read_rollouts(write_rows(tmp_path / "x.jsonl", [{**row, "accuracy_reward": 1.0} for row in rows]))
    assert group.outcomes.tolist() == [1, 1]


def test_steps_of_a_csv_that_pandas_wrote_as_fractions(tmp_path):
    """A column with a missing value is one of floats: 1.0 was no step, and both steps were one group."""
    file = tmp_path / "x.csv"
    file.write_text("prompt,response,step,num_tokens\nP,a,1.0,7.0\nP,b,1.0,7.0\nP,c,2.0,\nP,d,2.0,9.0\nP,e,,9.0\n")
    groups = read_rollouts(file)
    assert [(g.problem.meta.get("step"), g.responses) for g in groups] == [
        (1, ["a", "b"]), (2, ["c", "d"]), (None, ["e"]),
    ]  # fmt: skip
    assert [r.num_tokens for g in groups for r in g.rollouts] == [7, 7, None, 9, 9]


@pytest.mark.parametrize("value", [0.5, "step_1", True, "2020-01-01"])
def test_what_is_no_step_is_said_and_refused_where_the_user_names_it(tmp_path, value):
    """Groups of different steps would be one, and nothing said so."""
    path = write_rows(tmp_path / "x.jsonl", [{"step": s, "prompt": "P", "response": "r"} for s in (1, value, value)])
    groups = read_rollouts(path)
    said = f"{path}:2: {value!r} is no whole number, so no step"
    assert [note for note in groups.notes if "no step" in note] == [said] and [len(g) for g in groups] == [1, 2]
    line = f"diver: {path}:2: --step step: {value!r} is no whole number, so no step"
    assert fails("measure", path, "--step", "step") == line


def test_a_response_that_is_taken_from_another_column_is_said(tmp_path):
    """Of the second row it is the column `text`, which may be the question: nothing said so."""
    rows = [{"prompt": f"P{i}", "text": f"P{i}?", "response": of} for i, of in enumerate(("7", None, None))]
    path = write_rows(tmp_path / "x.jsonl", rows)
    found = read_rollouts(path)
    assert [g.responses for g in found] == [["7"], ["P1?"], ["P2?"]]
    said = "column 'response' is empty, so column 'text' is read as the response; --response names the one to read"
    assert found.notes[1:] == [f"{path}:2: {said}"]
    named = read_rollouts(path, Columns(response="response"))
    assert [g.responses for g in named] == [["7"], [""], [""]]
    assert (
        len(read_rollouts(write_rows(path, [{"prompt": "P", "text": "a"}, {"prompt": "P", "output": "b"}])).notes) == 1
    )


@pytest.mark.parametrize("chosen, other", [("output", "generation"), ("response", "output"), ("text", "model_output")])
def test_a_second_column_with_another_response_is_reported(tmp_path, chosen, other):
    said = f"column {chosen!r} is read as the response, and column {other!r} has another text; --response {other} "
    rows = [{"prompt": "P", chosen: "a", other: text} for text in ("a", None, "b", "c")]
    path = write_rows(tmp_path / "x.jsonl", rows)
    (group,) = found = read_rollouts(path)
    assert group.responses == ["a"] * 4 and found.notes[1:] == [f"{path}:3: {said}reads that"]
    for columns in (Columns(response=chosen), Columns(response=other), Columns(answer=other)):  # the user has chosen
        assert "reads that" not in str(read_rollouts(path, columns).notes)
    chat = [{"role": "user", "content": "P"}, {"role": "assistant", "content": "a"}]
    same = [{"prompt": "P", chosen: "a", other: text} for text in ("", [], " a\n", ["a"], chat, 5, {"tokens": [1]})]
    assert read_rollouts(write_rows(path, same)).notes[1:] == []
    best = write_rows(path, [{"prompt": "P", chosen: "a", other: ["a", "b"]}])
    assert read_rollouts(best).notes[1:] == [f"{path}:1: {said}reads that"]


@pytest.mark.parametrize(
    "column, values, said",
    [
        ("epoch", [0, 1], "--step epoch keeps the epochs apart"),
        ("epoch", [0.5, 1.5], "--by epoch keeps the epochs apart"),  # a fraction is no step
        ("iteration", ["1", "2"], "--step iteration keeps the iterations apart"),
    ],
)
def test_responses_of_several_epochs_in_a_group_are_reported(tmp_path, column, values, said):
    rows = [{"problem": "Q", "response": f"{value} {i}", column: value} for value in values for i in "ab"]
    path = write_rows(tmp_path / "x.jsonl", rows)
    groups = read_rollouts(path)
    assert len(groups) == 1 and f"{path}: column {column!r} differs within a group; {said}" in groups.notes
    option = said.split()[0].removeprefix("--")
    apart = read_rollouts(path, Columns(**{option: column}))
    assert [g.responses for g in apart] == [[f"{value} a", f"{value} b"] for value in values]
    assert not any("differs within" in note for note in apart.notes)


@pytest.mark.parametrize("column", ["global_steps", "training_step", "train_step"])
def test_other_names_of_the_training_step(tmp_path, column):
    rows = [{"problem": "Q", "response": str(step), column: step} for step in (1, 2)]
    groups = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert [(g.problem.meta["step"], g.responses) for g in groups] == [(1, ["1"]), (2, ["2"])]


def test_the_files_of_two_models_in_a_folder_are_reported(tmp_path):
    for name in "ab":
        write_rows(tmp_path / "two" / f"{name}.jsonl", [{"problem": "Q", "response": name}])
        write_rows(tmp_path / "benchmarks" / "step_1" / f"{name}.jsonl", [{"problem": "Q", "response": name}])
        write_rows(tmp_path / "steps" / "step_1" / f"{ord(name)}.jsonl", [{"problem": "Q", "response": name}])
    said = ": responses to one problem are in several files: such as "
    assert any(said in note for note in read_rollouts(tmp_path / "benchmarks").notes)
    (note,) = (note for note in read_rollouts(tmp_path / "two").notes if said in note)
    assert note.endswith(f"{tmp_path}/two/b.jsonl; name each file to keep them apart (prompt 'Q')")
    assert not any("several files" in note for note in read_rollouts(tmp_path / "steps").notes)  # parts of a step


def test_a_list_describes_each_of_several_responses(tmp_path):
    """A row of two responses, and one of a single response that other rows would have several of."""
    rows = [
        {"problem": "P", "responses": ["a", "b"], "truncated": [True, False], "num_tokens": [5, 6],
         "entropy": [0.5, 0.75], "logprobs": [[-1.0, -2.0], [-3.0]], "advantage": [1, -1]},
        {"problem": "Q", "responses": ["c"], "truncated": [True], "num_tokens": [7], "logprobs": [[-1.0, -2.0]]},
        {"problem": "R", "responses": ["d", "e"], "truncated": True, "num_tokens": [1, 2, 3]},
    ]  # fmt: skip
    two, one, unknown = (g.rollouts for g in read_rollouts(write_rows(tmp_path / "x.jsonl", rows)))
    assert [r.truncated for r in (*two, *one, *unknown)] == [True, False, True, False, False]
    assert [r.known_length for r in (*two, *one, *unknown)] == [5, 6, 7, None, None]
    assert [(r.entropy, r.advantage) for r in two] == [(0.5, 1), (0.75, -1)]
    assert [r.logprobs.tolist() for r in (*two, *one)] == [[-1, -2], [-3], [-1, -2]]


def test_the_reason_why_a_response_ended(tmp_path):
    rows = [{"problem": "P", "response": r, "finish_reason": r} for r in ("length", "stop")]
    rows += [{"problem": "P", "response": r, "stop_reason": r} for r in ("max_tokens", "end_turn")]
    (group,) = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert [r.truncated for r in group.rollouts] == [True, False, True, False]


def test_a_file_below_a_folder_named_generations_is_read_to_its_end(tmp_path):
    """Only an evaluation of `diver eval` may have been cut off in its last row."""
    path = tmp_path / "generations" / "x.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join(json.dumps({"problem": "P", "response": r, "correct": 1}) for r in "ab"))
    assert [g.responses for g in read_rollouts(path)] == [["a", "b"]]


def test_a_chat_beside_its_response_is_the_prompt_without_its_answer(tmp_path):
    """The response may lack the thought that the chat has; each was a problem of its own."""
    question = {"role": "user", "content": "2+2?"}
    rows = [
        {"messages": [question, {"role": "assistant", "content": f"<think>{i}</think>4"}], "response": "4"}
        for i in "ab"
    ]
    (group,) = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert group.responses == ["4", "4"] and group.problem.prompt == ({"role": "user", "content": "2+2?"},)


@pytest.mark.parametrize("column", ["model_name", "checkpoint", "policy"])
def test_a_column_of_models_that_differs_within_a_group_is_named(tmp_path, column):
    rows = [{"prompt": "P", "response": r, column: r} for r in "ab"]
    found = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert any(f"column {column!r} differs within a group; --by {column}" in note for note in found.notes)
    assert len(read_rollouts(tmp_path / "x.jsonl", Columns(by=column))) == 2


@pytest.mark.parametrize("column", ["gold", "answerKey", "ground_truth"])
def test_beside_a_reference_answer_the_column_answer_is_the_models(tmp_path, column):
    rows = [{"problem": "2 + 2?", "response": f"It is {n}.", "answer": n, column: "4"} for n in ("4", "5")]
    (group,) = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert group.problem.answer == "4" and group.responses == ["It is 4.", "It is 5."]


def test_an_answer_that_contradicts_the_target_is_reported(tmp_path):
    """Countdown's target is no answer, so `answer` goes before it."""
    row = {"problem": "2 + 2?", "response": "It is 5.", "answer": "5"}
    said = (
        "column 'answer' is the reference answer, and column 'target' says something else; --answer target reads that"
    )
    for target, contradicts in (("4", True), ("It is so. #### 5", False), (None, False)):
        path = write_rows(tmp_path / "x.jsonl", [{**row, "target": target}])
        assert any(note == f"{path}:1: {said}" for note in read_rollouts(path).notes) is contradicts
    assert read_rollouts(path)[0].problem.answer == "5"


@pytest.mark.parametrize("column", ["label", "gold_answer", "gold_label", "gt", "gts", "reference", "standard_answer"])
def test_an_answer_that_contradicts_another_reference_is_reported(tmp_path, column):
    row = {"question": "1 + 1?", "answer": "3", "response": r"So \boxed{3}"}
    said = f"column 'answer' is the reference answer, and column {column!r} says something else; --answer {column} "
    path = write_rows(tmp_path / "x.jsonl", [row, {**row, column: "2"}, {**row, column: ["2", "4"]}])
    assert [note for note in read_rollouts(path).notes if said in note] == [f"{path}:2: {said}reads that"]
    assert f"{path}:2: {said}reads that" in succeeds("grade", path)
    assert read_rollouts(path, Columns(answer="answer")).notes[1:] == []  # the user has chosen
    assert read_rollouts(path, Columns(answer=column))[-1].problem.answer == "['2', '4']"
    agrees = [{**row, column: value} for value in ("3", 3.0, ["2", "3"], "It is so. #### 3", None, "", [])]
    assert read_rollouts(write_rows(tmp_path / "y.jsonl", agrees)).notes[1:] == []


def test_a_label_that_describes_the_response_contradicts_no_answer(tmp_path):
    row = {"question": "1 + 1?", "answer": "3", "response": r"So \boxed{3}"}
    rows = [{**row, "label": label} for label in (True, False, 1, 0.0, "1", "True", "incorrect", "native", {"is": "2"})]
    assert read_rollouts(write_rows(tmp_path / "x.jsonl", rows)).notes[1:] == []
    for label in ("B", 2, "-1.5", "1/2"):
        assert "'label' says" in read_rollouts(write_rows(tmp_path / "x.jsonl", [{**row, "label": label}])).notes[1]
