"""Rollouts are read, measured and graded without the trainer: no room but core, diversity and grading is needed."""

import os
import subprocess
import sys
from pathlib import Path

from rows import write_rows

SOURCE = Path(__file__).parents[2] / "src"
REFUSE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("diver.") and name.split(".")[1] not in ("core", "diversity", "grading", "rollouts"):
            raise ImportError(name + " is refused")

sys.meta_path.insert(0, Refuse())
"""
USE = """
from pathlib import Path

import diver.rollouts
from diver.rollouts.grade import GradeConfig
from diver.rollouts.grade import run as grade
from diver.rollouts.measure import Measure
from diver.rollouts.measure import run as measure

groups = diver.rollouts.read("rows.jsonl")
print(len(groups), len(groups[0]))
tables = measure(Measure(rollouts=("rows.jsonl",), out=Path("measured")), lambda line: None)
print(*tables["rows"].columns)
print("graded", *grade(GradeConfig(rollouts="rows.jsonl")).rows["rows"][:2])
"""


def test_no_room_of_the_trainer_is_needed(tmp_path):
    """Neither here nor in a worker: every interpreter that is started reads sitecustomize."""
    texts = [r"\\boxed{\\frac{2}{4}}", "0.6 is the answer"]
    write_rows(tmp_path / "rows.jsonl", [{"problem": "Half?", "response": text, "answer": "1/2"} for text in texts])
    (tmp_path / "sitecustomize.py").write_text(REFUSE, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(SOURCE)])}
    done = subprocess.run([sys.executable, "-c", USE], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    read, measured, *_, graded = done.stdout.splitlines()
    assert (read, graded) == ("1 2", "graded 1 2")
    assert measured.split()[:2] == ["textual", "equational"]
    assert {path.name for path in (tmp_path / "measured").iterdir()} == {"groups.jsonl", "summary.json"}
