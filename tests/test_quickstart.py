"""What `make train` prints: how long it takes, and the user's run beside the means over five seeds."""

import json
from pathlib import Path

import pytest
import quickstart
from quickstart import METHODS, SEEDS, metrics, steps_of, table, time_left, values

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


def test_the_time_is_that_of_the_slower_method_and_of_all_evaluations(recipe, monkeypatch):
    """200 steps, evaluated after 50, 100 and 150 of them with 4 samples, before and after with 64.

    The slower one has 195 steps of 2 s left, a whole evaluation of 32 s and three of 2 s: 428 s. The table has six
    evaluations, two at a time, each half as long as 32 s: 48 s.
    """
    monkeypatch.setattr(quickstart, "TREE", 0.5)
    measured = {"clip-higher": rows(5, 1.0, 9.0, 32.0), "diver-mix": rows(5, 2.0, 9.0, 32.0)}
    assert time_left(measured, recipe, 1) == (
        "About 7 min 56 s from here, by 4 steps and one evaluation on this machine: training 7 min 08 s, "
        "evaluations for the table 48 s."
    )
    # Another seed trains from its beginning, 400 + 32 + 32 + 6 = 470 s,
    # and has four evaluations of the table: 32 s more.
    assert time_left(measured, recipe, 2).startswith("About 16 min 18 s from here")


def test_a_row_that_is_being_written_and_the_first_step_are_left_out(tmp_path):
    assert metrics(tmp_path) == []
    lines = "".join(json.dumps(row) + "\n" for row in rows(3, 2.0, 9.0, 5.0))
    (tmp_path / "metrics.jsonl").write_text(lines + '{"step": 4, "time/sam')
    assert steps_of(metrics(tmp_path)) == [2.0, 2.0]


def evaluated(c, distinct):
    return [{"n": 64, "c": c, "distinct": distinct}] * 4


def test_one_run_stands_beside_the_means_of_the_seeds_with_their_caveat():
    """Four equal problems: 16 of 64 correct, so Pass@1 25.0; 32 of 64: 50.0; 48 of 64: 75.0."""
    results = {
        (m, 0, t): evaluated(c, 2)
        for m, c in (("base", 16), ("clip-higher", 32), ("diver-mix", 48))
        for t in (0.6, 1.0)
    }
    mine = values(results, [0])
    measured = mine["0.6"]["Pass@1"]
    assert [measured[name] for name in ("base", *METHODS)] == [25.0, 50.0, 75.0] and measured["difference"][0] == 25.0
    known = {"seeds": [3, 4], "values": {"0.6": {"Pass@1": {"base": 25.0, "clip-higher": 61.25, "diver-mix": 60.0,
             "difference": [-1.25, -2.0, 0.5]}}}}  # fmt: skip
    text = table(mine, [0], known)
    (line,) = (line for line in text.splitlines() if line.startswith("| Pass@1") and "61" in line)
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[:4] == ["Pass@1", "25.0", "50.0", "75.0"] and cells[5:] == ["61.2", "60.0", "-1.2 [-2.0, +0.5]"]
    assert "One seed can show the contrary of these means" in text and "--seeds 3 4" in text
    assert "contrary" not in table(mine, [0])


def test_the_committed_means_are_of_five_seeds_of_todays_recipe(recipe):
    known = json.loads((ROOT / quickstart.SEEDS_FILE).read_text())
    assert known["seeds"] == SEEDS and known["steps"] == recipe.train.steps
    assert set(known["values"]) == {"0.6", "1.0"} and {"base", *METHODS, "difference"} == set(
        known["values"]["0.6"]["Pass@4"]
    )
