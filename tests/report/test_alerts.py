"""Alerts on made-up metrics whose answer is known."""

import json

import numpy as np
import pandas as pd
import pytest

from diver.report.alerts import alerts, smooth, span_text, window
from diver.report.run_record import RunRecord


def run_of(folder, **columns):
    """A run with these metrics, step 1 first; `a__b` stands for a/b."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    names = [name.replace("__", "/") for name in columns]
    rows = zip(*columns.values(), strict=True)
    lines = [{"step": i} | dict(zip(names, map(float, row), strict=True)) for i, row in enumerate(rows, start=1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return RunRecord.read(folder)


def steady(level, count=100):
    """Values that swing around a level by 1 % and do not move."""
    return level * (1 + 0.01 * np.resize([1, -1, 0.5, -0.5], count))


def test_a_calm_run_has_none(tmp_path):
    run = run_of(
        tmp_path / "run",
        policy__entropy=steady(0.3) * np.linspace(1, 0.4, 100),
        response__length_mean=steady(200) * np.linspace(1, 1.9, 100),
        reward__outcome=steady(0.5),
        diversity__textual=steady(0.6),
        response__truncated=steady(0.19),
        group__solve_none=steady(0.49),
        grade__timeout=steady(0.005),
    )
    assert alerts(run) == []


def test_no_metrics_no_alerts(tmp_path):
    assert alerts(run_of(tmp_path / "run")) == []
    assert alerts(run_of(tmp_path / "short", policy__entropy=[0.0], reward__outcome=[1.0])) == []


@pytest.mark.parametrize(
    ("metric", "values", "title"),
    [
        ("policy__entropy", np.where(np.arange(1, 101) <= 60, 1.0, 0.2), "Entropy collapse"),
        ("response__length_mean", np.where(np.arange(1, 101) <= 60, 100.0, 250.0), "Length explosion"),
        ("response__truncated", np.where(np.arange(1, 101) <= 60, 0.0, 0.9), "Truncated responses"),
        ("group__solve_none", np.where(np.arange(1, 101) <= 60, 0.1, 0.9), "Most groups have no correct response"),
        ("grade__timeout", np.where(np.arange(1, 101) <= 60, 0.0, 0.03), "Verifier timeouts"),
        ("grade__error", np.where(np.arange(1, 101) <= 60, 0.0, 0.03), "Verifier errors"),
    ],
)
def test_a_level_crossed_at_step_61_is_an_alert_from_there(tmp_path, metric, values, title):
    """The mean is over 11 steps, so the alert may begin up to 5 steps before or after the jump."""
    (alert,) = alerts(run_of(tmp_path / "run", **{metric: values}))
    assert alert.title == title and alert.metric == metric.replace("__", "/")
    ((first, last),) = alert.spans
    assert abs(first - 61) <= 5 and last == 100


def test_one_odd_step_is_no_alert(tmp_path):
    values = np.full(100, 0.05)
    values[50] = 1.0
    assert alerts(run_of(tmp_path / "run", response__truncated=values)) == []


def test_diversity_that_rises_while_the_outcome_falls(tmp_path):
    falls, rises = steady(0.5) - 0.2 * (np.arange(100) >= 50), steady(0.4) + 0.3 * (np.arange(100) >= 50)
    (alert,) = alerts(run_of(tmp_path / "run", reward__outcome=falls, diversity__equational=rises))
    assert alert.title == "Diversity rises while the outcome reward falls" and "(equational diversity)" in alert.text
    ((first, last),) = alert.spans
    assert 51 <= first < last < 100  # and not for ever after: both stand still again
    assert alerts(run_of(tmp_path / "both", reward__outcome=rises, diversity__textual=rises)) == []
    assert alerts(run_of(tmp_path / "flat", reward__outcome=steady(0.5), diversity__textual=rises)) == []


def test_noise_that_moves_nothing_seldom_warns(tmp_path):
    rng = np.random.default_rng(0)
    warned = 0
    for i in range(20):
        outcome, diversity = rng.normal(0.5, 0.05, (2, 100))
        warned += bool(alerts(run_of(tmp_path / str(i), reward__outcome=outcome, diversity__textual=diversity)))
    assert warned <= 4


def test_more_right_answers_on_fewer_problems(tmp_path):
    """Pass@1 of 4 problems from 1/4 to 2/4 each but one, Pass@4 from 1 to 1 but for the last, which is lost: with more
    problems of the first kind for Pass@1 and of the last for Pass@4 both intervals leave 0."""
    run_of(tmp_path / "run")
    (tmp_path / "run" / "eval").mkdir()
    for step, counts in ((0, [1] * 40), (9, [3] * 20 + [0] * 20)):
        rows = [{"id": str(i), "n": 4, "c": c, "distinct": c} for i, c in enumerate(counts)]
        estimates = {"pass@1": {"mean": sum(counts) / 160}, "pass@4": {"mean": np.mean(np.array(counts) > 0)}}
        row = {"samples": 4, "per_problem": rows, "estimates": estimates}
        (tmp_path / "run" / "eval" / f"step_{step:04}.json").write_text(json.dumps(row))
    (alert,) = alerts(RunRecord.read(tmp_path / "run"))
    assert alert.text.startswith("Pass@1 rose by +12.5 points while Pass@4 fell by 50.0".replace("+", ""))
    assert alert.metric == "eval/pass@4" and alert.spans == ()


def test_intervals_in_words():
    assert span_text(()) == "" and span_text(((3, 3),)) == "step 3" and span_text(((3, 9),)) == "steps 3–9"
    assert span_text(((3, 3), (5, 9))) == "steps 3 and 5–9"
    assert span_text(((1, 1), (3, 3), (5, 5), (7, 7), (9, 9), (11, 11))) == "steps 1, 3, 5, 7 and 2 later intervals"


def test_smoothing_by_hand():
    np.testing.assert_allclose(smooth(pd.Series([0.0, 3.0, 6.0, 0.0]), 3), [1.5, 3.0, 3.0, 3.0])
    assert len(smooth(pd.Series([], dtype=float), 3)) == 0
    assert [window(n) for n in (1, 40, 100, 1000)] == [3, 5, 11, 25]
