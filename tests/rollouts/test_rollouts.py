"""Every layout, written as its trainer writes it."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest
from diver_command import fails, succeeds
from rollout_files import shape
from rows import write_rows

from diver.core.types import DiverError, Grade
from diver.rollouts import Columns, read_rollouts
from diver.rollouts.files import FOLDERS, rollout_files

DATA = Path(os.environ.get("DIVER_DATA", Path(__file__).parents[2] / "../shared/data"))


def read_groups(path, *how, **named):
    return read_rollouts(path, *how, **named)


def diver_row(step, problem, sample, response, outcome=1.0):
    reward = {"outcome": outcome, "diversity": 0.05, "length": 0.0, "total": outcome + 0.05}
    return {
        "step": step, "problem": problem, "sample": sample, "prompt": "Q?", "answer": "7", "response": response,
        "grade": "correct" if outcome else "wrong", "reward": reward, "diversity": {"textual": 0.4}, "advantage": -0.5,
        "length": 3, "truncated": False,
    }  # fmt: skip


def test_a_run_folder(tmp_path):
    write_rows(tmp_path / "rollouts" / "step_0001.jsonl", [diver_row(1, "a", i, f"r{i}") for i in (0, 1)])
    # the same problem drawn twice in one step makes two groups
    twice = [diver_row(12, "a", i, f"s{n}", n % 2) for n, i in enumerate((0, 1, 0, 1))]
    write_rows(tmp_path / "rollouts" / "step_0012.jsonl", [*twice, diver_row(12, "b", 0, "t")])
    found = read_rollouts(tmp_path)
    assert ": diver train: 7 responses to 2 problems in 4 groups of 1 to 2" in found.notes[0]
    assert shape(found) == [
        ("a", 1, ["r0", "r1"], [1, 1]),
        ("a", 12, ["s0", "s1"], [0, 1]),
        ("a", 12, ["s2", "s3"], [0, 1]),
        ("b", 12, ["t"], [1]),
    ]
    rollout = found[0].rollouts[0]
    assert rollout.grade is Grade.CORRECT and rollout.advantage == -0.5 and rollout.reward.diversity == 0.05
    assert (rollout.diversity, rollout.length, found[0].prompt) == ({"textual": 0.4}, 3, "Q?")
    assert [[r.index for r in g.rollouts] for g in found] == [[0, 1], [0, 1], [0, 1], [0]]
    assert found[0].problem.prompt == "Q?" and found[0].problem.answer == "7"
    assert [g.problem.meta["step"] for g in read_groups(tmp_path, steps="last")] == [12, 12, 12]
    assert len(read_groups(tmp_path, steps="1,5-20")) == 4
    assert len(read_groups(tmp_path / "rollouts" / "step_0001.jsonl")) == 1


def test_runs_that_restart_has_set_aside_are_left_out(tmp_path):
    """seed_0.1 was made as seed_0; lr_0.1 was not made as lr_0."""
    made = {"seed_0": "seed_0", "seed_0.1": "seed_0", "lr_0.1": "lr_0.1", "lr_0": "lr_0"}
    for name, folder in made.items():
        write_rows(tmp_path / name / "rollouts" / "step_0001.jsonl", [diver_row(1, name, i, "r") for i in (0, 1)])
        (tmp_path / name / "config.json").write_text(json.dumps({"recipe": {"run": {"folder": f"runs/{folder}"}}}))
    files, notes = rollout_files(tmp_path)
    assert sorted(file.path.parts[-3] for file in files) == ["lr_0", "lr_0.1", "seed_0"]
    aside, several = notes
    assert aside == f"{tmp_path}: 1 runs that --restart set aside left out, such as {tmp_path / 'seed_0.1'}"
    assert several.startswith(f"{tmp_path}: rollouts of 3 runs are read as those of one")
    assert len(read_groups(tmp_path / "seed_0.1")) == 1  # asked for by name


def test_an_evaluation_with_its_grades(tmp_path):
    def generation(key, problem, sample, response):
        row = {"key": key, "problem": problem, "sample": sample, "response": response, "tokens": 3}
        return {**row, "truncated": False, "logprob": None}

    rows = [generation("k", "p", 0, "x"), generation("k", "q", 0, "y"), generation("k", "p", 1, "z")]
    file = write_rows(tmp_path / "generations" / "lab.jsonl", rows)
    with file.open("a") as half:
        half.write('{"key": "k", "prob')
    graded = [("p", 0, "correct"), ("p", 1, "timeout"), ("q", 0, "truncated")]
    write_rows(tmp_path / "grades" / "lab.auto.jsonl", [{"problem": p, "sample": s, "grade": v} for p, s, v in graded])
    found = read_rollouts(tmp_path)
    (p, q) = found
    assert (p.problem.id, p.responses, q.responses) == ("p", ["x", "z"], ["y"])
    assert ": diver eval: " in found.notes[0]
    assert p.rollouts[0].reward.outcome == 1 and p.rollouts[1].reward is None  # unscored is not wrong
    assert q.outcomes.tolist() == [0] and q.rollouts[0].length == 3
    write_rows(file, [*rows, generation("other", "p", 0, "w")])
    found = read_rollouts(tmp_path)
    assert len(found) == 3 and "generations of several settings" in found.notes[1]


def test_benchmarks_that_number_their_problems_alike(tmp_path):
    """The key too may be the same: it is of the prompt and the settings."""
    row = {"key": "k", "problem": "60", "tokens": 3, "truncated": False, "logprob": None}
    for name, n in (("aime24", 1), ("amc", 2)):
        rows = [{**row, "sample": i, "response": f"{name} {i}"} for i in range(n)]
        write_rows(tmp_path / "generations" / f"{name}.jsonl", rows)
    found = read_rollouts(tmp_path)
    assert [(g.problem.source, g.problem.id, g.responses) for g in found] == [
        ("aime24", "60", ["aime24 0"]),
        ("amc", "60", ["amc 0", "amc 1"]),
    ]
    assert "3 responses to 2 problems in 2 groups of 1 to 2" in found.notes[0]
    (copied,) = read_groups(write_rows(tmp_path / "mine.jsonl", rows))
    assert copied.problem.source == ""  # outside of its folder a file may be called anything


def test_verls_dump(tmp_path):
    """The columns of `_write_generations` of verl 0.9.1, with and without the keys of its v1 trainer."""

    def row(step, prompt, output, score, **more):
        return {"input": prompt, "output": output, "gts": "7", "score": score, "step": step, **more}

    old = [row(2, "P", "a", 1.0, request_id="r1"), row(2, "Q", "b", 0.0, request_id="r2"), row(2, "P", "c", 0.0)]
    write_rows(tmp_path / "old" / "2.jsonl", old)
    write_rows(tmp_path / "old" / "10.jsonl", [row(10, "P", "d", 1.0)])
    groups = read_groups(tmp_path / "old")
    assert shape(groups) == [
        ("problem-1", 2, ["a", "c"], [1, 0]),
        ("problem-2", 2, ["b"], [0]),
        ("problem-1", 10, ["d"], [1]),  # 10 comes after 2, and it is the same problem
    ]
    assert [r.index for r in groups[0].rollouts] == [0, 1]
    assert groups[0].problem.answer == "7"
    new = [
        row(1, "P", f"o{n}", 1.0, uid=f"{uid}_{i}_0") for n, (uid, i) in enumerate([("u_1", 0), ("u_1", 1), ("u_2", 0)])
    ]
    found = read_rollouts(write_rows(tmp_path / "1.jsonl", new))
    assert ": verl: " in found.notes[0] and [g.responses for g in found] == [["o0", "o1"], ["o2"]]
    scores = [row(1, "P", "a", 0.9, acc=1.0), row(1, "P", "b", 0.1, acc=None), row(1, "P", "c", -1.0, acc=0.0)]
    (unknown,) = read_groups(write_rows(tmp_path / "acc" / "1.jsonl", scores))  # the score may be a shaped reward
    assert [r.reward and r.reward.outcome for r in unknown.rollouts] == [1.0, None, 0.0]


def test_trls_completions(tmp_path):
    """The table of `GRPOTrainer.log` of TRL 1.16, chat and text; the same batch is logged at each of its updates."""

    def table(step, completions, **rewards):
        prompts = [[{"role": "user", "content": f"Q{i // 2}"}] for i in range(4)]
        messages = [[{"role": "assistant", "content": c}] for c in completions]
        columns = {"step": [step] * 4, "prompt": prompts, "completion": messages, **rewards}
        path = tmp_path / "out" / "completions" / f"completions_{step:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame({**columns, "advantage": [0.5, -0.5, 0.0, 0.0]}).to_parquet(path)

    table(1, ["a", "b", "c", "d"], accuracy_reward=[1.0, 0.0, None, 1.0])
    table(2, ["a", "b", "c", "d"], accuracy_reward=[1.0, 0.0, None, 1.0])
    table(3, ["e", "f", "g", "h"], accuracy_reward=[0.0, 0.0, 1.0, 1.0])
    found = read_rollouts(tmp_path / "out")
    assert ": TRL: " in found.notes[0] and "completions_00002.parquet: the same completions" in found.notes[1]
    assert [(g.problem.id, g.problem.meta["step"], g.responses) for g in found] == [
        ("problem-1", 1, ["a", "b"]),
        ("problem-2", 1, ["c", "d"]),
        ("problem-1", 3, ["e", "f"]),
        ("problem-2", 3, ["g", "h"]),
    ]
    assert found[0].outcomes.tolist() == [1, 0] and found[0].rollouts[1].advantage == -0.5
    assert found[1].rollouts[0].reward is None
    table(4, ["e", "x", "g", "h"], one=[0.0, 0.0, 1.0, 1.0], two=[1.0] * 4)
    file = tmp_path / "out" / "completions" / "completions_00004.parquet"
    assert "--outcome names one of step, prompt, completion, one, two" in read_rollouts(file).notes[1]
    assert read_groups(file, Columns(outcome="two"))[0].outcomes.tolist() == [1, 1]


def test_two_reward_columns_of_trl_are_told_once(tmp_path):
    for step, response in ((1, "a"), (2, "b")):
        table = {"prompt": ["Q"], "completion": [response], "one": [0.0], "two": [1.0], "advantage": [0.0]}
        path = tmp_path / "completions" / f"completions_{step:05d}.parquet"
        path.parent.mkdir(exist_ok=True)
        pd.DataFrame(table).to_parquet(path)
    assert ["ambiguous" in note for note in read_rollouts(tmp_path).notes] == [False, True]


def lm_eval_row(doc, resps, name="strict-match", value=1.0, arguments=None):
    return {
        "doc_id": doc, "doc": {"question": "?"}, "target": "7", "resps": [resps],
        "filtered_resps": resps[:1], "filter": name,
        "arguments": arguments or {"gen_args_0": {"arg_0": f"Q{doc}", "arg_1": {"until": ["\n"]}}},
        "metrics": ["exact_match"], "doc_hash": f"h{doc}", "exact_match": value,
    }  # fmt: skip


def test_lm_evals_samples(tmp_path):
    """The rows of lm-eval 0.4.13: a row a document and filter, all repeats in `resps`."""
    rows = [lm_eval_row(d, ["a", "b"], f) for d in (0, 1) for f in ("strict-match", "flexible")]
    found = read_rollouts(write_rows(tmp_path / "samples_gsm8k_1.jsonl", rows))
    assert ": lm-eval: " in found.notes[0] and "filter 'strict-match'" in found.notes[1]
    assert [(g.problem.id, g.problem.prompt, g.responses) for g in found] == [
        ("doc-0", "Q0", ["a", "b"]),
        ("doc-1", "Q1", ["a", "b"]),
    ]
    assert found[0].rollouts[0].reward is None  # which of the two the metric judged is not said
    for seed in (0, 1):
        write_rows(
            tmp_path / "seeds" / f"samples_gsm8k_{seed}.jsonl", [lm_eval_row(0, [f"s{seed}"], value=float(seed))]
        )
    assert shape(read_groups(tmp_path / "seeds")) == [("doc-0", None, ["s0", "s1"], [0, 1])]
    likelihood = {"gen_args_0": {"arg_0": "Q", "arg_1": " yes"}}
    with pytest.raises(DiverError, match=r"x.jsonl:1: a task of log-likelihoods has no responses"):
        read_groups(write_rows(tmp_path / "x.jsonl", [lm_eval_row(0, ["(-1.0, True)"], arguments=likelihood)]))


def test_named_columns_of_rows_that_are_nested(tmp_path):
    """A column that the user names is found in the file's own rows, too, and not silently without values."""
    rows = [lm_eval_row(0, ["a", "b"]) | {"checkpoint": name, "doc": {"level": name}} for name in ("base", "tuned")]
    path = write_rows(tmp_path / "samples_gsm8k_1.jsonl", rows)
    for column in ("checkpoint", "doc.level"):
        found = read_rollouts(path, Columns(by=column))
        assert [(g.problem.meta["by"], len(g)) for g in found] == [("base", 2), ("tuned", 2)]
    scored = read_rollouts(path, Columns(outcome="exact_match"))  # of several responses the metric scored one
    assert [r.reward for g in scored for r in g.rollouts] == [None] * 4
    with pytest.raises(DiverError, match="no column 'model', which --by names"):
        read_rollouts(path, Columns(by="model"))


def test_named_columns(tmp_path):
    rows = [{"q": {"text": "Q"}, "said": "a", "ok": True, "gold": 7}, {"q": {"text": "Q"}, "said": "b", "ok": False}]
    named = Columns(problem="q.text", response="said", outcome="ok")
    (group,) = read_groups(write_rows(tmp_path / "x.jsonl", rows), named)
    assert (group.responses, group.outcomes.tolist(), group.problem.prompt) == (["a", "b"], [1, 0], "Q")
    assert group.problem.answer == "7"
    lists = [
        {"question": "Q", "responses": ["a", "b"], "score": [0.2, 0.9], "label": "x"},
        {"question": "R", "responses": ["c"]},
    ]
    groups = read_groups(write_rows(tmp_path / "y.jsonl", lists))
    assert groups[0].outcomes.tolist() == [0.2, 0.9] and groups[1].rollouts[0].reward is None
    pd.DataFrame({"problem": [1, 1], "completion": ["a", "b"]}).to_parquet(tmp_path / "z.parquet")
    assert read_groups(tmp_path / "z.parquet")[0].responses == ["a", "b"]


@pytest.mark.parametrize(
    "rows, message",
    [
        (
            [{"problem": "Q", "said": "a"}],
            r"x.jsonl:1: no response: found problem, said; accepted .* \(--response names",
        ),
        (
            [{"problem": "Q", "response": "a"}, {"problem": "Q", "response": 3}],
            r"x.jsonl:2: a response must be a text, not 3",
        ),
        ([{"problem": 1.5, "response": "a"}], r"x.jsonl:1: a problem must be a text"),
        (
            [{"problem": "Q", "responses": ["a"], "correct": [1, 0]}],
            r"x.jsonl:1: column 'responses' has 1 response, but there are 2 outcomes",
        ),
        ([{"input": "Q", "output": "a", "score": "high"}], r"x.jsonl:1: an outcome must be true, false or a finite"),
        (
            [{"problem": "Q", "response": "a", "correct": 10**400}],
            r"x.jsonl:1: an outcome must be true, false or a finite",
        ),
        ([{"input": "Q", "output": "a", "score": 1}, {"input": "Q"}], r"x.jsonl:2: has no output, score, which"),
        (
            [{**diver_row(1, "a", 0, "r"), "grade": "fine"}],
            r"x.jsonl:1: grade: unknown choice 'fine'; choices: ",
        ),
        ([], "x.jsonl: empty, not one response"),
    ],
)
def test_bad_rows_are_named(rows, message, tmp_path):
    with pytest.raises(DiverError, match=message):
        read_groups(write_rows(tmp_path / "x.jsonl", rows))


def test_bad_paths_are_named(tmp_path):
    (tmp_path / "x.txt").write_text("x")
    (tmp_path / "bad.jsonl").write_text("{")
    for path, steps, message in [
        ("nothing", "", "nothing: no such file or folder"),
        ("x.txt", "", "must be .jsonl or .parquet"),
        (".", "7", "no file of steps 7 in this folder"),
        (".", "7-", "--steps 7-: must be numbers such as"),
        ("bad.jsonl", "", "bad.jsonl:1: not JSON"),
        ("bad.jsonl", "1", "is one file"),
    ]:
        with pytest.raises(DiverError, match=message):
            read_groups(tmp_path / path, steps=steps)


@pytest.mark.skipif(not DATA.exists(), reason="DIVER_DATA is not there")
@pytest.mark.parametrize(
    "name, groups, size",
    [("lastletters_gpt35_150x40", 150, 40), ("math_qwen_100x8", 100, 8), ("gsm8k_110x21models", 110, 21)],
)
def test_real_rollouts(name, groups, size):
    found = read_groups(DATA / f"rollouts_{name}.jsonl")
    assert [len(g) for g in found] == [size] * groups
    rows = [json.loads(line) for line in (DATA / f"rollouts_{name}.jsonl").open()]
    assert sum(g.outcomes.sum() for g in found) == sum(row["correct"] for row in rows)


@pytest.mark.parametrize("column", ["outcome", "by", "step", "entropy", "answer"])
def test_columns_of_our_own_layouts_cannot_be_named(tmp_path, column):
    row = diver_row(1, "p", 0, "r")
    file = write_rows(tmp_path / "rollouts" / "step_0001.jsonl", [row])
    for command in ("measure", "browse"):
        message = fails(command, tmp_path, f"--{column}", "nosuch", cwd=tmp_path)
        assert f"step_0001.jsonl: the columns of diver train have fixed names; omit --{column}" in message
    named = Columns(problem="problem", response="response", outcome="reward.outcome")
    assert read_groups(file, named)[0].outcomes.tolist() == [1]


def test_a_column_of_words_is_no_outcome_and_says_why(tmp_path):
    rows = [{"problem": "Q", "response": r, "correct": "yes"} for r in "ab"]
    printed = succeeds("measure", write_rows(tmp_path / "x.jsonl", rows))
    assert (
        printed.count("x.jsonl:1: column 'correct' is no outcome: must be true, false or a finite number, not 'yes'")
        == 1
    )
    assert "none with an outcome" in printed and printed.count("no outcome:") == 1
    scored = [row | {"score": 1} for row in rows]  # another column says it
    assert "no outcome" not in succeeds("measure", write_rows(tmp_path / "y.jsonl", scored))


def test_two_tasks_that_number_their_documents_alike(tmp_path):
    """Of lm-eval the file's name has the task, of inspect_ai the log; two dates of a task are one group."""
    for task, date in (("a", "2024-05-01T12-00-00.123456"), ("b_c", "2024-05-01T12-00-00.123456"), ("a", "2024-05-02")):
        name, row = f"samples_{task}_{date}.jsonl", lm_eval_row(0, [f"{task} {date[:10]}"])
        write_rows(tmp_path / "lm" / name, [{k: v for k, v in row.items() if k != "doc_hash"}])
    (tmp_path / "lm" / "results_2024-05-01T12-00-00.123456.json").write_text('{"results": {}}')
    groups = read_groups(tmp_path / "lm")
    assert [(g.problem.source, g.problem.id, g.responses) for g in groups] == [
        ("a", "doc-0", ["a 2024-05-01", "a 2024-05-02"]),
        ("b_c", "doc-0", ["b_c 2024-05-01"]),
    ]
    for task in "ab":
        sample = {"id": 1, "epoch": 1, "input": task, "target": "7", "scores": {}}
        sample["output"] = {"choices": [{"message": {"content": task}}]}
        log = {"eval": {"task": task, "model": "m"}, "samples": [sample]}
        (tmp_path / "insp").mkdir(exist_ok=True)
        (tmp_path / "insp" / f"{task}.json").write_text(json.dumps(log))
    assert [(g.problem.source, g.responses) for g in read_groups(tmp_path / "insp")] == [("a", ["a"]), ("b", ["b"])]


def test_messages_in_parts(tmp_path):
    def say(role, text):
        return [{"role": role, "content": [{"type": "text", "text": text}, {"type": "image", "image": "x"}]}]

    row = {"prompt": say("user", "Q"), "completion": say("assistant", "so \\(x\\)\nend")}
    (group,) = read_groups(write_rows(tmp_path / "x.jsonl", [row]))
    assert group.responses == ["so \\(x\\)\nend"] and group.problem.prompt == ({"role": "user", "content": "Q"},)


def test_compressed_files_of_a_folder_are_named(tmp_path):
    write_rows(tmp_path / "a.jsonl", [{"prompt": "P", "response": "a"}])
    packed = tmp_path / "old" / "b.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(b"")
    (tmp_path / "code.tar.gz").write_bytes(b"")
    notes = read_rollouts(tmp_path).notes
    assert f"{tmp_path}: 1 compressed files left out, such as {packed}; unpack them to read them" in notes


def test_a_copy_of_a_file_is_named(tmp_path):
    row = {"prompt": "P", "response": "a"}
    paths = [write_rows(tmp_path / f"{name}.jsonl", [row]) for name in "ab"]
    write_rows(tmp_path / "c.jsonl", [{"prompt": "P", "response": "b"}])
    found = read_rollouts(tmp_path)
    assert [g.responses for g in found] == [["a", "a", "b"]]
    assert found.notes[1] == f"{paths[1]}: a copy of {paths[0]}, so that its responses count twice"
    assert "responses to one problem are in several files" in found.notes[2] and len(found.notes) == 3
    steps = [write_rows(tmp_path / "steps" / f"step_{number}.jsonl", [row]) for number in (1, 2)]
    assert len(read_rollouts(steps[0].parent).notes) == 1


def test_links_of_a_folder_lead_to_each_file_once(tmp_path):
    file = write_rows(tmp_path / "in" / "run1" / "a.jsonl", [{"problem": "Q", "response": r} for r in "ab"])
    write_rows(tmp_path / "out" / "c.jsonl", [{"problem": "Q", "response": "c"}])
    for name, target in [
        ("latest", "run1"), ("run1/b.jsonl", "a.jsonl"), ("gone.jsonl", "nowhere.jsonl"), ("run1/above", ".."),
        ("self", "self"), ("shared", "../out"),
    ]:  # fmt: skip
        (tmp_path / "in" / name).symlink_to(target)
    assert [f.path for f in rollout_files(tmp_path / "in")[0]] == [file, tmp_path / "in" / "shared" / "c.jsonl"]
    assert [g.responses for g in read_groups(tmp_path / "in")] == [["a", "b", "c"]]


def test_rows_named_results_are_read_and_tables_of_results_are_not(tmp_path):
    for name in ("a.jsonl", "gsm8k_results.jsonl", "aggregated_results.jsonl"):
        write_rows(tmp_path / name, [{"problem": "Q", "response": name}])
    (tmp_path / "gsm8k_results.json").write_text('{"acc": 0.5}')
    assert [g.responses for g in read_groups(tmp_path)] == [["a.jsonl", "gsm8k_results.jsonl"]]


def test_an_empty_cell_is_a_response_and_else_not_known(tmp_path):
    """By hand: Q has the responses a and "", in a group that no column names, and R is of x at step 2."""
    (tmp_path / "x.csv").write_text(
        "problem,response,correct,group,by,step,answer\nQ,a,1,,,,\nQ,,0,,,,\nR,b,,,x,2,7\n", encoding="utf-8"
    )
    groups = read_groups(tmp_path / "x.csv", Columns(by="by"))
    assert [(g.problem.prompt, g.responses, g.problem.meta, g.problem.answer) for g in groups] == [
        ("Q", ["a", ""], {}, ""),
        ("R", ["b"], {"by": "x", "step": 2}, "7"),
    ]
    assert groups[0].outcomes.tolist() == [1, 0] and groups[1].rollouts[0].reward is None
    row = {"id": "", "epoch": 1, "input": "Q", "target": "7", "output": {"choices": [{}]}, "scores": {}}
    groups = read_groups(write_rows(tmp_path / "y.jsonl", [row, {**row, "input": "R"}]))
    assert [g.problem.prompt for g in groups] == ["Q", "R"]
    (tmp_path / "z.csv").write_text("problem,response\n,a\n")
    with pytest.raises(DiverError, match=r"z.csv, row 1: no problem: it is empty \(--problem names another\)"):
        read_groups(tmp_path / "z.csv")


def test_a_quote_that_nothing_closes_takes_in_no_other_rows(tmp_path):
    """As a CSV file has where a kill cut it off."""
    (tmp_path / "x.csv").write_text('problem,response,correct\nQ,a,1\nQ,"b,0\nQ,c,1\nQ,d,0\n')
    with pytest.raises(DiverError, match=r"x.csv, row 2: not CSV \(unexpected end of data\): see its quotes"):
        read_groups(tmp_path / "x.csv")


def test_a_csv_that_is_cut_off_in_a_row_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("problem,response,correct\np,alpha beta,1\np,gamma del")
    with pytest.raises(DiverError, match="x.csv, row 2: has fewer fields than the header, as if cut off"):
        read_groups(path)
    rows = [{"problem": "p", "response": "a", "correct": 1.0}, {"problem": "p", "response": "b\nc", "correct": None}]
    pd.DataFrame(rows).to_csv(path, index=False)
    excel = tmp_path / "excel.csv"
    excel.write_bytes(b'\xef\xbb\xbfproblem,response,correct\r\np,a,1\r\np,"b\nc",\r\n\r\n')
    for name in (path, excel):
        (group,) = read_groups(name)
        assert group.responses == ["a", "b\nc"] and [r.reward and r.reward.outcome for r in group.rollouts] == [1, None]


def test_a_number_of_more_digits_than_python_reads_is_no_step_and_no_length(tmp_path):
    long = "9" * 5000
    row = {"problem": "Q", "response": "a", "correct": "1", "step": long, "num_tokens": long}
    (group,) = read_groups(write_rows(tmp_path / "x.jsonl", [row]))
    assert "step" not in group.problem.meta and group.rollouts[0].num_tokens is None


def test_numbers_of_problems_that_pandas_made_floats(tmp_path):
    rows = [{"problem_id": i, "response": "a"} for i in (1, 1.0, 2.0)]
    assert [(g.problem.prompt, len(g)) for g in read_groups(write_rows(tmp_path / "x.jsonl", rows))] == [
        ("1", 2),
        ("2", 1),
    ]


def test_log_probabilities_that_are_not_finite_are_not_known(tmp_path):
    rows = [{"problem": "Q", "response": "a", "logprobs": [-0.5, x]} for x in (-1.0, float("-inf"), -1e300)]
    (group,) = read_groups(write_rows(tmp_path / "x.jsonl", rows))
    assert [None if r.logprobs is None else r.logprobs.tolist() for r in group.rollouts] == [[-0.5, -1], None, None]


def test_the_outcome_of_a_file_is_one_column(tmp_path):
    """`score` is another measure than `correct`: where that is empty the outcome is not known."""
    found = [(None, None), (True, 0.2), (None, 0.9), (False, 0.7)]
    rows = [{"problem": "Q", "response": "a", "correct": c, "score": s} for c, s in found]
    (group,) = found = read_rollouts(write_rows(tmp_path / "x.jsonl", rows))
    assert [None if r.reward is None else r.reward.outcome for r in group.rollouts] == [None, 1, None, 0]
    assert len(found.notes) == 1


def test_what_was_graded_by_model_and_task_is_read_so(tmp_path):
    for task, model, answer in (("a", "x", 7), ("a", "y", 8), ("b", "x", 7)):
        message = {"message": {"content": rf"\boxed{{{answer}}}"}}
        sample = {"id": 1, "epoch": 1, "input": "3 + 4?", "target": "7", "scores": {}, "output": {"choices": [message]}}
        log = {"eval": {"task": task, "model": model}, "samples": [sample]}
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / "logs" / f"{task}{model}.json").write_text(json.dumps(log))
    succeeds("grade", tmp_path / "logs", "--out", tmp_path / "out")
    groups = read_groups(tmp_path / "out" / "samples.jsonl")
    assert [(g.problem.source, g.problem.id, g.problem.meta["by"], g.outcomes.tolist()) for g in groups] == [
        ("a", "1", "x", [1]),
        ("a", "1", "y", [0]),
        ("b", "1", "x", [1]),
    ]


@pytest.mark.parametrize("name", FOLDERS)
def test_rollouts_of_several_runs_in_a_folder_are_read_as_those_of_one_and_a_note_says_so(tmp_path, name):
    """Their responses to a prompt are one group: of two policies, Pass@2 is 5/6 instead of 1/2 each on average."""
    for run, correct in (("a", True), ("b", False)):
        rows = [{"prompt": "P", "response": f"{run}{i}", "correct": correct} for i in range(2)]
        write_rows(tmp_path / run / name / "step_1.jsonl", rows)
    (group,) = found = read_rollouts(tmp_path)
    assert group.outcomes.tolist() == [1, 1, 0, 0]
    said = f"rollouts of 2 runs are read as those of one, such as {tmp_path}/a/{name} and {tmp_path}/b/{name}"
    assert found.notes[1:] == [f"{tmp_path}: {said}; name each run to tell them apart"]
    assert len(read_rollouts(tmp_path / "a").notes) == 1
