"""Answers of public bug reports (`reports.jsonl` of the real data):
each was graded wrongly once and states the right grade."""

import json
import os
from pathlib import Path

import pytest
from diver_command import succeeds

REPORTS = Path(os.environ.get("DIVER_DATA", "../shared/data")) / "reports.jsonl"
GRADES = ("correct", "wrong", "no_answer", "truncated", "timeout", "error")


def grade_of(pair, folder):
    """The grade that `diver grade` gives to one response, with the grader that it chooses by itself."""
    path = folder / "FILE.jsonl"
    path.write_text(json.dumps({"problem": "What is it?", **pair}) + "\n")
    printed = succeeds("grade", path, "--verify.timeout-s", 120)  # a busy machine gives little of 5 seconds
    return next(grade for grade in GRADES if f"\n1 {grade}\n" in printed)


@pytest.mark.slow
@pytest.mark.skipif(not REPORTS.exists(), reason=f"{REPORTS} is not here")
def test_every_reported_answer_has_the_grade_that_the_report_states(tmp_path):
    rows = [json.loads(line) for line in REPORTS.read_text(encoding="utf-8").splitlines()]
    pairs = [row for row in rows if "pair" in row]
    assert len(pairs) > 100
    found = [(row["kind"], row["pair"], row["expected"], grade_of(row["pair"], tmp_path)) for row in pairs]
    # A response without an answer counts as wrong.
    missed = [row for row in found if row[3] != row[2] and not (row[2] == "wrong" and row[3] == "no_answer")]
    assert missed == []
