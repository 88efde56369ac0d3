"""What `make train` prints: how long it takes, the two runs compared, and the means over five seeds."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import quickstart
from quickstart import FOLDERS, metrics, over_seeds, steps_of, time_left

from diver.recipe.load import load_recipe

ROOT = Path(__file__).parents[1]


@pytest.fixture
def recipe():
    return load_recipe(ROOT / quickstart.RECIPE)


def rows(steps, seconds, first_step, evaluation):
    """A run that is evaluated before its first step, and then takes so long for each step."""
    parts = {"time/sample": seconds / 2, "time/update": seconds / 2}
    later = [{"step": step, **parts} for step in range(2, steps + 1)]
    return [{"step": 0, "time/evaluate": evaluation}, {"step": 1, "time/sample": first_step}, *later]


def test_the_time_is_that_of_the_slower_method(recipe):
    """200 steps, evaluated after 50, 100 and 150 of them with 4 samples, before and after with 64.

    The slower one has 195 steps of 2 s left, one evaluation of 32 s and three of 2 s: 428 s.
    """
    measured = {"clip-higher": rows(5, 1.0, 9.0, 32.0), "diver-mix": rows(5, 2.0, 9.0, 32.0)}
    told = "About 7 min 08 s from here, by 4 steps and one evaluation on this machine."
    assert time_left(measured, recipe) == told


def test_a_row_that_is_being_written_and_the_first_step_are_left_out(tmp_path):
    assert metrics(tmp_path) == []
    lines = "".join(json.dumps(row) + "\n" for row in rows(3, 2.0, 9.0, 5.0))
    (tmp_path / "metrics.jsonl").write_text(lines + '{"step": 4, "time/sam')
    assert steps_of(metrics(tmp_path)) == [2.0, 2.0]


def test_the_means_over_seeds_are_a_table():
    measured = {"base": 25.0, "clip-higher": 61.25, "diver-mix": 60.0, "difference": [-1.25, -2.0, 0.5]}
    distinct = {"base": 4.8, "clip-higher": 1.4, "diver-mix": 2.17, "difference": [0.77, 0.5, 1.0]}
    text = over_seeds({"seeds": [3, 4], "values": {"0.6": {"Pass@1": measured, "distinct of 64": distinct}}})
    header, _, *lines = ([cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines())
    assert header == ["means over 2 seeds", "base", "clip-higher", "diver-mix", "difference"]
    assert lines == [
        ["Pass@1", "25.0", "61.2", "60.0", "-1.2 [-2.0, +0.5]"],
        ["distinct of 64", "4.80", "1.40", "2.17", "+0.77 [+0.50, +1.00]"],
    ]


@pytest.mark.slow
def test_the_table_at_the_end_is_that_of_the_pages(tmp_path):
    """One evaluation: what `make train` prints are the numbers of RUN/eval, which its page and its summary show."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "recipes").mkdir()
    sizes = {"problems": 16, "steps": 2, "batch_size": 4, "mini_batch_size": 4, "save_steps": 2, "num_samples": 4}
    text = (ROOT / quickstart.RECIPE).read_text()
    for key, value in sizes.items():
        text = re.sub(rf"^{key} = \S+", f"{key} = {value}", text, flags=re.MULTILINE)
    (tmp_path / quickstart.RECIPE).write_text(text)
    done = subprocess.run([sys.executable, quickstart.__file__], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for method, folder in FOLDERS.items():
        result = json.loads((tmp_path / folder / "eval" / "step_0002.json").read_text())
        rate = 100 * np.mean([row["c"] / row["n"] for row in result["per_problem"]])
        line = next(line for line in done.stdout.splitlines() if line.startswith(f"| {method} (1 seed)"))
        assert line.split("|")[2].split()[0] == f"{rate:.1f}"
        assert (tmp_path / folder / "report.html").is_file()
    assert (tmp_path / quickstart.COMPARISON).is_file() and "means over 5 seeds" in done.stdout


def test_the_committed_means_are_of_five_seeds_of_todays_recipe(recipe):
    known = json.loads((ROOT / quickstart.SEEDS_FILE).read_text())
    assert known["seeds"] == [0, 1, 2, 3, 4] and known["steps"] == recipe.train.steps
    assert f"{recipe.evaluate.temperature:g}" == quickstart.TEMPERATURE
    assert set(known["values"]) == {"0.6", "1.0"} and {"base", *FOLDERS, "difference"} == set(
        known["values"]["0.6"]["Pass@4"]
    )
