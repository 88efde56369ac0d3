"""`diver grade`, on files that exist already."""

import csv
import io
import json
import os
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from diver_command import diver
from rows import write_rows

from diver.evaluate.responses import GradeConfig, run
from diver.types import DiverError
from diver.verify import Verification

DATA = Path(os.environ.get("DIVER_DATA", Path(__file__).parents[2] / "../shared/data"))
OWN = """
import time
from pathlib import Path

def grade(response, problem):
    with (Path(__file__).parent / "calls").open("a") as calls:
        calls.write(response + chr(10))
    while response == "for ever":
        time.sleep(1)
    return response == problem.answer
"""


def row(response, correct, problem="Q", **more):
    return {"problem": problem, "response": response, "answer": "7", "correct": correct, **more}


def test_ones_own_grader_hangs_and_what_is_graded_is_kept(tmp_path, monkeypatch, capsys):
    (tmp_path / "own_grader.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    file = write_rows(tmp_path / "x.jsonl", [row("7", True), row("8", True), row("for ever", False), row("7", True)])
    config = GradeConfig(
        rollouts=str(file),
        grader="own_grader:grade",
        out=tmp_path / "out",
        k="1,2,8",
        verify=Verification(timeout_s=2, workers=1),
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
    run(config)
    assert (tmp_path / "calls").read_text() == calls + "9\n"
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
        ({}, r"x.jsonl: problem 'problem-1' has no known answer; --answer names its column"),
        ({"grader": "mathverify"}, r"--grader: unknown choice 'mathverify', did you mean 'math-verify'\?"),
        ({"format": "parquet"}, "--format parquet: is written to a file; name a folder with --out"),
    ]:
        with pytest.raises(DiverError, match=message):
            run(GradeConfig(rollouts=file, **given))


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
