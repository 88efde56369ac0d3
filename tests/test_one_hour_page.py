"""docs/results/one-hour.md has the numbers of the files of measurements, and nothing else."""

import json
import shutil
from pathlib import Path

import one_hour

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def test_the_page_is_what_the_files_give(tmp_path):
    files = sorted((RESULTS / "records").glob("one-hour-*.json"))
    assert files
    (tmp_path / "records").mkdir()
    for file in files:
        shutil.copy(file, tmp_path / "records")
    written = one_hour.write_page(tmp_path).read_text(encoding="utf-8")
    assert written == (RESULTS / "one-hour.md").read_text(encoding="utf-8")
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        for stage in found["stages"].values():
            assert stage["begun"] >= 1 and stage["seconds"] >= 0


def test_stages_of_a_killed_hour_by_hand(tmp_path):
    file = tmp_path / "stages"
    file.write_text("train begin 100\ntrain begin 160\ntrain end 190\ncompare begin 190\ncompare end 191\n")
    assert one_hour.stages(file) == {"train": {"begun": 2, "seconds": 30}, "compare": {"begun": 1, "seconds": 1}}
