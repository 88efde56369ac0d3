"""Files of public reports (`reports.jsonl` of the real data) that were once read wrongly or refused."""

import json
import os
from pathlib import Path

import pytest
from diver_command import succeeds

REPORTS = Path(os.environ.get("DIVER_DATA", "../shared/data")) / "reports.jsonl"
TOLD = {  # what the report states: what the command prints
    "2 responses of one problem": "2 responses to 1 problems",
    "1 correct: the last turn is the response": "\n1 correct\n",
    "3 responses read, 1 failed sample counted in a note": "1 sample that failed is left out",
    "4 correct (grader choice)": "choice grades 4 of 4 problems",
    "3 correct": "\n3 correct\n",
    "2 problems of 2, or a note that one group has 2 reference answers": "4 responses to 2 problems in 2 groups of 2",
    "a note that one group has 2 reference answers": "one prompt has different reference answers: '5' and '7'",
    "1 correct (or a message on the older layout)": "\n1 correct\n",
    "3 responses (null is an empty response) or the other two with a note": "3 responses to 1 problems",
    "no outcome, no Pass@1": "none with an outcome",
    'no labels in the table ("none with an outcome")': "none with an outcome",
    "read, or a message that names the key results": "outcome: score of each response",
    "read, or a message that names the key data": "1 responses to 1 problems in 1 groups of 1; outcome: correct",
    "4 responses, 1 correct, 3 no_answer": "\n1 correct, 3 no_answer\n",
    "a note that problem p has no response": "problem 'p' has no response: left out",
    "length in words 4": "| length in words |   4.0 |",
}


@pytest.mark.skipif(not REPORTS.exists(), reason=f"{REPORTS} is not here")
def test_every_reported_file_is_read_as_the_report_states(tmp_path):
    rows = [json.loads(line) for line in REPORTS.read_text(encoding="utf-8").splitlines()]
    files = [row for row in rows if "file" in row]
    assert len(files) == 18 and {row["expected"] for row in files} == {*TOLD}
    for number, row in enumerate(files):
        folder = tmp_path / str(number)
        folder.mkdir()
        _, *words = row["command"].split()
        (name,) = [word for word in words if word.endswith((".jsonl", ".json", ".csv"))]
        (folder / name).write_text(row["file"], encoding="utf-8")
        assert TOLD[row["expected"]] in succeeds(*words, cwd=folder), (number, row["kind"])
