"""`diver grade`, on files that exist already."""

import csv
import io
import json
import os
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from diver_command import diver, fails, succeeds
from rows import write_rows

from diver.core.types import DiverError, Problem
from diver.grading import Verification, grade
from diver.recipe.data import Source
from diver.rollouts import Rollouts, read
from diver.rollouts.grade import GradeConfig, _responses, run
from diver.tasks.sources import load_problems

DATA = Path(os.environ.get("DIVER_DATA", Path(__file__).parents[2] / "../shared/data"))
QUICKSTART = Path(__file__).parents[2] / "recipes" / "quickstart.toml"
OWN = """
import time
from pathlib import Path

def grade(response, problem):
    with (Path(__file__).parent / "calls").open("a") as calls:
        calls.write(response + chr(10))
    while response == "for ever" and not (Path(__file__).parent / "mended").exists():
        time.sleep(1)
    return response == problem.answer
"""


def row(response, correct, problem="Q", **more):
    return {"problem": problem, "response": response, "answer": "7", "correct": correct} | more


def test_ones_own_grader_hangs_and_what_is_graded_is_kept(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_grader.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    file = write_rows(tmp_path / "x.jsonl", [row("7", True), row("8", True), row("for ever", False), row("7", True)])
    config = GradeConfig(
        rollouts=str(file),
        grader="own_grader:grade",
        out=tmp_path / "out",
        k="1,2,8",
        verify=Verification(timeout_s=5, workers=1),
    )
    table = run(config)
    (record,) = table.records()
    # Of 3 scored samples 2 are correct: Pass@1 2/3, Pass@2 1, and no Pass@8 of 4; one of the 3 labels differs.
    assert (record["problems"], record["samples"], record["unscored"]) == (1, 4, 1)
    assert record["pass@1"] == pytest.approx(2 / 3) and record["pass@2"] == 1 and "pass@8" not in record
    assert record["agreement"] == pytest.approx(2 / 3) and record["label_pass@1"] == pytest.approx(3 / 4)
    assert (
        "2 of 3 agree; labelled correct but not graded so: 1; graded correct but labelled wrong: 0"
        in capsys.readouterr().out
    )
    samples = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").open()]
    assert [s["grade"] for s in samples] == ["correct", "wrong", "timeout", "correct"]
    assert [s["correct"] for s in samples] == [True, False, None, True] and samples[1]["label"] is True
    confusion = json.loads((tmp_path / "out" / "summary.json").read_text())["confusion"]
    assert confusion == {"correct labelled, wrong": 1, "correct labelled, correct": 2, "wrong labelled, timeout": 1}
    calls = (tmp_path / "calls").read_text()
    assert Counter(calls.split("\n")[:-1]) == {"7": 1, "8": 1, "for ever": 1}  # equal responses are graded once
    with file.open("a") as more:
        more.write(json.dumps(row("9", False)) + "\n")
    (tmp_path / "mended").touch()
    for _ in range(2):  # what hung is graded again, until it has a grade
        assert run(config).records()[0]["unscored"] == 0
        assert (tmp_path / "calls").read_text() == calls + "for ever\n9\n"
    with pytest.raises(DiverError, match="has the grades of other rollouts"):
        run(GradeConfig(rollouts=str(write_rows(tmp_path / "y.jsonl", [row("7", 1)])), out=tmp_path / "out"))


def test_math_verify_as_it_is_and_a_file_without_labels(tmp_path, capsys):
    rows = [
        {"problem": "Q", "answer": r"\frac{1}{2}", "response": r} for r in (r"so $\boxed{0.5}$", "it is $2$", "none")
    ]
    file = str(write_rows(tmp_path / "x.jsonl", rows))
    run(GradeConfig(rollouts=file, grader="math-verify", k="1,3", out=tmp_path / "out", verify=Verification(workers=1)))
    printed = capsys.readouterr().out
    assert "1 correct, 1 wrong, 1 no_answer" in printed and "agree" not in printed.split("Agreement")[0].replace(
        "agreement", ""
    )
    assert "confusion" in (tmp_path / "out" / "summary.json").read_text()


def test_what_cannot_be_graded_is_one_line(tmp_path):
    file = str(write_rows(tmp_path / "x.jsonl", [{"problem": "Q", "response": "7"}]))
    for given, message in [
        ({}, r"x.jsonl: problem 'problem-1' has no reference answer; --answer names its column"),
        ({"grader": "mathverify"}, r"--grader: unknown choice 'mathverify', did you mean 'math-verify'\?"),
        ({"format": "parquet"}, "--format parquet: is written to a file; name a folder with --out"),
    ]:
        with pytest.raises(DiverError, match=message):
            run(GradeConfig(rollouts=file, **given))


@pytest.mark.parametrize(
    ("changes", "flags", "told"),
    [
        (
            {"answer": ["2", "two"]},
            (),
            r"problem '.*' has a list for its reference answer, \['2', 'two'\]; --answer names a column",
        ),
        ({"answer": {"value": "2"}}, (), r"has a dict for its reference answer, .*COLUMN.KEY"),
        ({"answer": "12"}, ("--grader", "choice"), "the answer '12' is neither the label nor the text of one option"),
        ({}, ("--k", "abc"), "--k"),
        ({}, ("--threshold", "nan"), "threshold: should be a finite number, not nan"),
    ],
)
def test_what_is_no_known_answer_or_setting_is_one_line(tmp_path, changes, flags, told):
    file = write_rows(tmp_path / "x.jsonl", [row(r"\boxed{2}", True) | changes])
    line = fails("grade", file, *flags)
    assert re.search(told, line), line


@pytest.mark.parametrize(("answer", "flags"), [(["2"], ()), ({"value": "2"}, ("--answer", "answer.value"))])
def test_a_known_answer_in_a_list_of_one_or_a_part_of_a_column(tmp_path, answer, flags):
    file = write_rows(tmp_path / "x.jsonl", [row(r"\boxed{2}", True, answer=answer)] * 2)
    (record,) = pd.read_csv(io.StringIO(succeeds("grade", file, *flags, "--format", "csv"))).to_dict("records")
    assert record["pass@1"] == 1


def test_one_prompt_with_two_known_answers_is_two_problems(tmp_path):
    """As where the question is in a picture. If the user says that they are one problem, neither answer is right."""
    rows = [row(rf"\boxed{{{n}}}", 1, "See the picture.") | {"answer": str(n), "name": n} for n in (1, 2)]
    file = str(write_rows(tmp_path / "x.jsonl", rows))
    for column in ({}, {"problem": "name"}, {"by": "name"}):
        assert run(GradeConfig(rollouts=file, **column)).records()[0]["pass@1"] == 1
    assert [group.problem.answer for group in read(file)] == ["1", "2"]
    with pytest.raises(
        DiverError, match="problem 'problem-1' have different reference answers, '1' and '2'; name the col"
    ):
        run(GradeConfig(rollouts=file, problem="question" if "question" in rows[0] else "problem"))


def test_responses_without_a_value_of_by_have_their_row(tmp_path):
    """It had the name of the file, as a total would, or that of a model, whose responses were then gone."""
    rows = [
        row(rf"\boxed{{{n}}}", True, f"Q{i}", model=model) for model, n in (("x", 7), (None, 7), ("z", 8)) for i in "ab"
    ]
    file = write_rows(tmp_path / "x.jsonl", rows)
    records = run(GradeConfig(rollouts=str(file), by="model")).records()
    assert [(r["model"], r["samples"], r["pass@1"]) for r in records] == [
        ("x", 2, 1),
        ("(no model)", 2, 1),
        ("z", 2, 0),
    ]
    assert run(GradeConfig(rollouts=str(file))).records()[0]["rollouts"] == "x"


def test_problems_with_too_few_scored_responses_for_pass_at_k_are_counted(tmp_path):
    """Pass@1 is over three problems and Pass@2 over one of them, whose only pair has a correct one."""
    rows = [
        row(r"\boxed{7}", True, "A"),
        row(r"\boxed{8}", True, "A"),
        row(r"\boxed{8}", True, "B"),
        row("", True, "C"),
    ]
    printed = succeeds("grade", write_rows(tmp_path / "x.jsonl", rows), "--k", "1,2,8")
    assert "Pass@2: 2 of 3 problems have fewer than 2 scored responses: left out\n" in printed
    assert "no Pass@8: no problem has 8 scored responses\n" in printed and "Pass@1:" not in printed
    assert "| 16.7 [" in printed and "| 100.0 " in printed
    by = [{**r, "model": model} for model in "xy" for r in rows]
    printed = succeeds("grade", write_rows(tmp_path / "x.jsonl", by), "--k", "2", "--by", "model")
    assert "Pass@2: 4 of 6 problems of all models have fewer than 2 scored responses: left out\n" in printed


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run on Countdown: 2 steps of 4 groups of 4."""
    folder = tmp_path_factory.mktemp("run") / "run"
    settings = {
        "data.countdown.problems": 16, "sample.group_size": 4, "train.steps": 2, "train.batch_size": 4,
        "train.mini_batch_size": 4, "evaluate.problems": 0, "run.folder": folder,
    }  # fmt: skip
    succeeds("train", QUICKSTART, *(word for key, value in settings.items() for word in (f"--{key}", value)))
    return folder


@pytest.mark.parametrize("options", [[], ["--grader", "countdown"], ["--steps", "last"]])
def test_a_run_is_graded_as_it_was_trained(trained, options):
    """By the verifier of its recipe, which needs the numbers of each problem: the labels are its own grades."""
    done = diver("grade", trained, *options, "--format", "csv")
    (record,) = csv.DictReader(io.StringIO(done.stdout))
    responses = 16 if "last" in options else 32
    assert f"{responses} of {responses} agree" in done.stderr and "Traceback" not in done.stderr
    assert record["agreement"] == "1.0" and record["pass@1"] == record["label_pass@1"]


def test_a_run_with_a_verifier_of_ones_own_and_one_whose_problems_are_gone(trained, tmp_path, monkeypatch):
    (tmp_path / "own_verifier.py").write_text("def grade(response, problem):\n    return problem.meta['target'] > 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    shutil.copytree(trained, tmp_path / "run")
    config = json.loads((trained / "config.json").read_text())
    (tmp_path / "run" / "config.json").write_text(
        json.dumps(
            config | {"recipe": config["recipe"] | {"data": {"path": "countdown", "verifier": "own_verifier:grade"}}}
        )
    )
    assert "16 correct" in diver("grade", tmp_path / "run" / "rollouts" / "step_0002.jsonl").stdout
    step = shutil.copy(trained / "rollouts" / "step_0001.jsonl", tmp_path)
    otherwise = "--grader math grades by the reference answers in the rollouts"
    assert fails("grade", step).endswith(otherwise) and "16 correct" in succeeds("grade", step, "--grader", "math")
    config["recipe"]["data"]["countdown"]["seed"] = 7
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    gone = fails("grade", tmp_path / "run")
    assert "the data of its run no longer has problem 'countdown-" in gone and gone.endswith(otherwise)


def test_what_a_verifier_needs_and_a_file_does_not_have_is_one_line(trained, tmp_path):
    file = write_rows(tmp_path / "x.jsonl", [row(r"\boxed{7}", True)])
    for path, grader in ((file, "countdown"), (file, "graph-coloring"), (trained, "maze")):
        needs = f"--grader {grader}: needs the generated problems of its testbed"
        assert needs in fails("grade", path, "--grader", grader)
    needed = {
        "countdown": "numbers, target",
        "maze": "size, start, goal, walls",
        "graph-coloring": "task, sizes, entry",
    }
    for verifier, meta in needed.items():
        with pytest.raises(DiverError, match=f"problem 'p': verifier {verifier} needs {meta} in its meta"):
            grade([(r"\boxed{7}", Problem("p", "Q", "7", verifier=verifier))])
        asked = write_rows(tmp_path / "problems.jsonl", [{"id": "p", "problem": "Q", "answer": "7"}])
        line = f"{asked}: problem 'p': verifier {verifier} needs {meta} in its meta"
        with pytest.raises(DiverError, match=re.escape(line)):
            load_problems(Source(path=str(asked), verifier=verifier))
    generated = {"key": "k", "problem": "1", "sample": 0, "response": "7", "truncated": False}
    write_rows(tmp_path / "eval" / "generations" / "math500.jsonl", [generated])
    message = fails("grade", tmp_path / "eval")
    assert (
        "generations of `diver eval` have neither prompts nor reference answers" in message
        and "--grader NAME" in message
    )


def test_what_was_graded_is_graded_by_the_same_grader(trained, tmp_path):
    """Its rows have the id of a problem as `problem`, and its question as `prompt`."""
    asked = "Which is prime?\nA) 4\nB) 6\nC) 7\nD) 8"
    cut = row("First 3 and 4, then 7", 0, "3 + 4 = ?", truncated=True)  # its last number is no answer that it finished
    file = write_rows(
        tmp_path / "x.jsonl", [row("The answer is C", 1, asked) | {"answer": "C"}, row("7", 1, "3 + 4?"), cut]
    )
    assert "2 correct, 1 truncated" in succeeds("grade", file, "--out", tmp_path / "out")
    samples = tmp_path / "out" / "samples.jsonl"
    first = [json.loads(line)["grader"].partition("@")[0] for line in samples.open()]
    assert first == ["choice", "math", "math"]
    assert "2 correct, 1 truncated" in succeeds("grade", samples, "--out", tmp_path / "again")
    again = [json.loads(line) for line in (tmp_path / "again" / "samples.jsonl").open()]
    assert [r["grader"].partition("@")[0] for r in again] == first and again[0]["prompt"] == asked
    succeeds("grade", trained, "--out", tmp_path / "countdown")
    samples = tmp_path / "countdown" / "samples.jsonl"
    assert f"{samples}: was graded by countdown, which may need more of a problem" in fails("grade", samples)
    assert "32 of 32" not in diver("grade", samples, "--grader", "math").stderr


def test_intervals_are_over_problems_and_the_same_as_those_of_measure(tmp_path):
    """By hand: P has 2 of 2 at step 1 and 0 of 2 at step 2, Q 0 and 1; Pass@1 of each 1/2 and 1/4,
    Pass@2 1/2 and 1/2."""
    correct = {(1, "P"): [1, 1], (1, "Q"): [0, 0], (2, "P"): [0, 0], (2, "Q"): [0, 1]}
    for step in (1, 2):
        write_rows(
            tmp_path / "dump" / f"{step}.jsonl",
            [
                {"input": p, "output": rf"\boxed{{{7 if c else 8}}}", "gts": "7", "score": float(c), "step": step}
                for p in "PQ"
                for c in correct[step, p]
            ],
        )
    done = diver("grade", tmp_path / "dump", "--k", "1,2", "--format", "csv")
    (record,) = csv.DictReader(io.StringIO(done.stdout))
    assert (record["problems"], record["samples"]) == ("2", "8")
    assert (float(record["pass@1"]), float(record["pass@2"])) == (0.375, 0.5)
    succeeds("measure", tmp_path / "dump", "--k", "1,2", "--out", tmp_path / "out")
    means = json.loads((tmp_path / "out" / "summary.json").read_text())["rollouts"]["dump"]["means"]
    for name in ("pass@1", "pass@2"):
        estimate = dict(
            zip(("mean", "low", "high"), (float(record[f"{name}{end}"]) for end in ("", "_low", "_high")), strict=False)
        )
        assert means[name] == {**estimate, "problems": 2}
    assert record["label_pass@1_high"] == record["pass@1_high"]


@pytest.mark.skipif(not DATA.exists(), reason="DIVER_DATA is not there")
def test_a_real_file_by_model_as_csv(tmp_path):
    """110 problems of 21 models: the accuracy of each model is what counting its rows gives."""
    file = DATA / "rollouts_gsm8k_110x21models.jsonl"
    done = diver("grade", file, "--by", "model", "--format", "csv", "--out", tmp_path / "out")
    table = list(csv.DictReader(io.StringIO(done.stdout)))
    labels: dict[str, list[bool]] = {}
    for line in file.open():
        of = json.loads(line)
        labels.setdefault(of["model"], []).append(of["correct"])
    assert {r["model"]: float(r["label_pass@1"]) for r in table} == pytest.approx(
        {model: sum(of_model) / 110 for model, of_model in labels.items()}
    )
    assert len(table) == 21 and all(
        float(r["pass@1_low"]) < float(r["pass@1"]) < float(r["pass@1_high"]) for r in table
    )
    assert "2,305 of 2,310 agree" in done.stderr
    assert (tmp_path / "out" / "table.csv").read_text() == done.stdout
    graded = pd.read_json(tmp_path / "out" / "samples.jsonl", lines=True)
    assert graded.groupby("by")["correct"].mean().to_dict() == pytest.approx(
        {r["model"]: float(r["pass@1"]) for r in table}
    )


def test_a_grade_depends_on_all_that_the_grader_sees_of_a_problem(tmp_path):
    """Such as the tests of a program: with others in the data, a stored grade is that of another problem."""
    config = GradeConfig(rollouts="x", grader="math")
    group = read(write_rows(tmp_path / "x.jsonl", [row("7", 1)]))[0]
    keys = set()
    for tests in ("a", "b"):
        problem = replace(group.problem, meta={**group.problem.meta, "tests": tests})
        keys |= {r.key for r in _responses(Rollouts([replace(group, problem=problem)]), [problem], config)}
    assert len(keys) == 2
