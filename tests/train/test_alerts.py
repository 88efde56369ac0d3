"""Alerts on made-up metrics whose answer is known."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from diver_command import succeeds

from diver.core.run_folder import metrics_table
from diver.integrations.keys import also_named
from diver.sweep.records import lines as read
from diver.train import alerts as module
from diver.train.alerts import STEPS, AlertLog, LiveAlerts, alerts, held, rules, smooth, window


def rows_of(**columns):
    """Rows of metrics, step 1 first; `a__b` stands for a/b."""
    names = [name.replace("__", "/") for name in columns]
    rows = zip(*columns.values(), strict=True)
    return [{"step": i} | dict(zip(names, map(float, row), strict=True)) for i, row in enumerate(rows, start=1)]


def alerts_of(**columns):
    return alerts(metrics_table(rows_of(**columns)))


def steady(level, count=100):
    """Values that swing around a level by 1 % and do not move."""
    return level * (1 + 0.01 * np.resize([1, -1, 0.5, -0.5], count))


def test_a_calm_run_has_none():
    calm = {
        "policy__entropy": steady(0.3) * np.linspace(1, 0.4, 100),
        "response__length_mean": steady(200) * np.linspace(1, 1.9, 100),
        "reward__outcome": steady(0.5),
        "diversity__textual": steady(0.6),
        "response__truncated": steady(0.19),
        "group__solve_none": steady(0.49),
        "grade__timeout": steady(0.005),
        "shaping__clipped": steady(0.88),
        "advantage__solve_all_frac": steady(0.49),
        "policy__logprob_mismatch": steady(0.019),
        "policy__grad_norm": np.resize([0.0, 0.1, 0.1], 100),  # now and then a batch has nothing to learn from
    }
    assert alerts_of(**calm) == []


def test_no_metrics_no_alerts():
    assert alerts(metrics_table([])) == []
    assert alerts_of(policy__entropy=[0.0], reward__outcome=[1.0]) == []


CROSSED = [  # metric, its value up to step 60 and from step 61 on, the alert
    ("policy__entropy", 1.0, 0.2, "Entropy collapse"),
    ("response__length_mean", 100.0, 250.0, "Length explosion"),
    ("response__truncated", 0.0, 0.9, "Truncated responses"),
    ("group__solve_none", 0.1, 0.9, "Most groups have no correct response"),
    ("grade__timeout", 0.0, 0.03, "Verifier timeouts"),
    ("grade__error", 0.0, 0.03, "Verifier errors"),
    ("shaping__clipped", 0.2, 0.994, "clip_max flattens the diversity reward"),
    ("advantage__solve_all_frac", 0.1, 0.89, "Most of the advantage comes from groups all correct"),
    ("policy__logprob_mismatch", 1e-6, 0.2, "Sampler and trainer disagree"),
    ("policy__grad_norm", 0.5, 0.0, "Steps without a gradient"),
]


@pytest.mark.parametrize(("metric", "before", "after", "title"), CROSSED)
def test_a_level_crossed_at_step_61_is_an_alert_from_there(metric, before, after, title):
    """The mean is over 11 steps, so the alert may begin up to 5 steps before or after the jump."""
    (alert,) = alerts_of(**{metric: np.where(np.arange(1, 101) <= 60, before, after)})
    assert alert.title == title and alert.metric == metric.replace("__", "/") and alert.advice.endswith(".")
    ((first, last),) = alert.spans
    assert abs(first - 61) <= 5 and last == 100


def text_after_the_answer(found):
    (alert,) = found
    settings = ('method.shaping.condition = "correct-finished"', 'method.diversity.until = "answer"')
    assert alert.title == "Text after the answer" and "after an answer that they had finished" in alert.text
    assert all(setting in alert.advice for setting in settings) and "Raise sample.max_tokens" not in alert.advice
    return alert


def test_responses_that_are_cut_after_their_answers_need_no_more_room():
    """Of .9 cut, .1 had no answer: .8 did; with .6 without one, the limit is too short."""
    cut = np.where(np.arange(1, 101) <= 60, 0.0, 0.9)
    alert = text_after_the_answer(alerts_of(response__truncated=cut, grade__truncated=cut / 9))
    assert alert.metric == "response/truncated" and "90%" in alert.text and alert.spans[0][1] == 100
    (alert,) = alerts_of(response__truncated=cut, grade__truncated=cut * 2 / 3)
    assert alert.title == "Truncated responses" and alert.advice.startswith("Raise sample.max_tokens")


def test_a_run_may_be_cut_before_its_answers_first_and_after_them_later(capsys):
    """Each has its own steps and its own height: .5 without answers up to step 50, .3 after answers from 51 on."""
    early = np.arange(1, 101) <= 50
    columns = {"response__truncated": np.where(early, 0.5, 0.3), "grade__truncated": np.where(early, 0.5, 0.0)}
    before, after = alerts_of(**columns)
    assert (before.title, after.title) == ("Truncated responses", "Text after the answer")
    assert before.spans[0][0] == 1 and abs(before.spans[-1][1] - 50) <= 5
    assert abs(after.spans[0][0] - 51) <= 5 and after.spans[-1][1] == 100
    assert "50%" in before.text and "50%" not in after.text
    log = AlertLog()
    for row in rows_of(**columns):
        log.log(row["step"], row)
    titles = [line.split(": ", 1)[1].split(".")[0] for line in capsys.readouterr().out.splitlines()]
    assert titles == [before.title, after.title]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_mazes_in_which_diver_mix_wrote_on_after_its_answers(seed):
    """The recorded runs of docs/results/method-comparison.md, whose metrics are means over ten steps."""
    file = Path(__file__).parents[2] / "docs" / "results" / "records" / "methods.jsonl.gz"
    metrics = json.loads(read(file)[f"maze/diver-mix_frame-common_learning_rate-0.0001_seed{seed}"])["metrics"]
    names = ("response/truncated", "grade/truncated")
    text_after_the_answer(alerts_of(**{name.replace("/", "__"): metrics[name] for name in names}))


@pytest.mark.parametrize(("metric", "before", "after", "title"), CROSSED)
def test_while_a_run_trains_each_alert_is_printed_once_when_it_has_held(metric, before, after, title, capsys):
    log = AlertLog()
    rows = rows_of(**{metric: np.where(np.arange(1, 21) <= 8, before, after)})
    for row in rows[:8]:
        log.log(row["step"], row)
    assert capsys.readouterr().out == ""
    for row in rows[8:]:
        log.log(row["step"], row)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"step {8 + STEPS}: {title}. ")
    resumed = AlertLog(rows)  # has been printed before the stop
    resumed.log(21, {metric.replace("__", "/"): after})
    assert capsys.readouterr().out == ""


def test_alerts_of_a_run_in_another_process_by_the_rows_that_it_adds(tmp_path, capsys):
    """Truncated from step 3 on. A row that is half written counts when it ends; rows before the first look are old."""
    rows = rows_of(response__truncated=[0.0, 0.0, *[0.9] * 8])
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    file = tmp_path / "seed_4" / "metrics.jsonl"
    live = LiveAlerts(file.parent)
    live.look()
    file.parent.mkdir()
    half = lines.index('{"step": 7') + 5
    printed = []
    for text in (lines[:half], lines, lines[:half], lines):  # a run that resumes drops rows and makes them again
        file.write_text(text)
        live.look()
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[2] == printed[3] == ""
    assert printed[1].startswith("seed_4: step 7: Truncated responses. ") and printed[1].count("\n") == 1
    LiveAlerts(file.parent).look()
    assert capsys.readouterr().out == ""


def test_one_odd_step_is_no_alert(capsys):
    values = np.full(100, 0.05)
    values[50] = 1.0
    assert alerts_of(response__truncated=values) == []
    log = AlertLog()
    for row in rows_of(response__truncated=values[40:60]):
        log.log(row["step"], row)
    assert capsys.readouterr().out == ""


def test_steps_far_apart_are_not_in_a_row(capsys):
    """Of what is looked at, the first rows and the last ones stand beside each other: 1 and 16 are not five steps."""
    values = np.zeros(20)
    values[[0, 15, 19]] = 0.5
    log = AlertLog()
    for row in rows_of(response__truncated=values):
        log.log(row["step"], row)
    assert capsys.readouterr().out == ""


def test_diversity_that_rises_while_the_outcome_falls():
    falls, rises = steady(0.5) - 0.2 * (np.arange(100) >= 50), steady(0.4) + 0.3 * (np.arange(100) >= 50)
    (alert,) = alerts_of(reward__outcome=falls, diversity__equational=rises)
    assert alert.title == "Diversity rises while the outcome reward falls" and "(equational diversity)" in alert.text
    ((first, last),) = alert.spans
    assert 51 <= first < last < 100  # and not for ever after: both stand still again
    assert alerts_of(reward__outcome=rises, diversity__textual=rises) == []
    assert alerts_of(reward__outcome=steady(0.5), diversity__textual=rises) == []


def test_noise_that_moves_nothing_seldom_warns():
    rng = np.random.default_rng(0)
    warned = 0
    for _ in range(20):
        outcome, diversity = rng.normal(0.5, 0.05, (2, 100))
        warned += bool(alerts_of(reward__outcome=outcome, diversity__textual=diversity))
    assert warned <= 4


def test_smoothing_by_hand():
    np.testing.assert_allclose(smooth(pd.Series([0.0, 3.0, 6.0, 0.0]), 3), [1.5, 3.0, 3.0, 3.0])
    assert len(smooth(pd.Series([], dtype=float), 3)) == 0
    assert [window(n) for n in (1, 40, 100, 1000)] == [3, 5, 11, 25]


@pytest.mark.parametrize(
    ("flags", "expected", "result"),
    [
        # Two tokens are never enough for a solution: no response is correct, so there is nothing to learn.
        (
            ["--sample.max-tokens", "2"],
            ["Steps without a gradient", "Most groups have no correct response", "Truncated responses"],
            "None of the 5 steps had a gradient, so nothing was learned: in 100% of the groups no response was correct",
        ),
        # Every TD above 0 is above this sigma.
        (
            ["--method", "diver-td", "--method.shaping.clip-max", "1e-9"],
            ["clip_max flattens the diversity reward"],
            "After 5 steps, Pass@1",
        ),
    ],
)
def test_a_real_run_prints_its_alerts_and_its_summary_says_what_came_of_it(flags, expected, result, tmp_path):
    recipe = Path(__file__).parents[2] / "recipes" / "quickstart.toml"
    size = ["--sample.group-size", "4", "--train.batch-size", "4", "--train.mini-batch-size", "4", "--train.steps", "5"]
    size += ["--data.countdown.problems", "64"]
    evaluation = ["--evaluate.problems", "4", "--evaluate.num-samples", "4", "--evaluate.every", "0"]
    folder = ["--run.folder", str(tmp_path / "run")]
    printed = succeeds("train", recipe, *size, *evaluation, *folder, *flags)
    lines = [line for line in printed.splitlines() if line.startswith("step 5: ")]
    assert [line.removeprefix("step 5: ").split(". ")[0] for line in lines] == expected
    assert f"\n{result}" in printed
    page = (tmp_path / "run" / "report.html").read_text()
    assert all(f"<summary>{title}<" in page for title in expected) and f"<h1>{result}" in page


def test_a_level_holds_from_the_step_at_which_it_is_printed(capsys):
    """Truncated at steps 3 to 6, which are too few, and from step 9 on: five steps later it has held."""
    cut = np.isin(np.arange(1, 21), [3, 4, 5, 6, *range(9, 21)]) * 0.9
    rows = rows_of(response__truncated=cut)
    ((alert, step),) = held(metrics_table(rows), rules())
    log = AlertLog()
    for row in rows:
        log.log(row["step"], row)
    assert step == 13 and capsys.readouterr().out.startswith(f"step 13: {alert.title}. ")


@pytest.mark.parametrize(
    ("engine", "advice"),
    [
        ("built-in", "Lower train.learning_rate, raise method.loss.clip_high, or"),
        ("trl", "Lower train.learning_rate (TRL: learning_rate), raise method.loss.clip_high (TRL: epsilon_high), or"),
        (
            "verl",
            "Lower train.learning_rate (verl: actor_rollout_ref.actor.optim.lr), raise method.loss.clip_high (verl: "
            "actor_rollout_ref.actor.clip_ratio_high), or",
        ),
    ],
)
def test_advice_names_the_option_of_the_engine(engine, advice, capsys):
    columns = {"policy__entropy": np.where(np.arange(1, 101) <= 60, 1.0, 0.2)}
    (alert,) = alerts(metrics_table(rows_of(**columns)), also_named(engine))
    assert alert.advice.startswith(advice)
    log = AlertLog(named=also_named(engine))
    for row in rows_of(**columns):
        log.log(row["step"], row)
    assert advice in capsys.readouterr().out


def test_settings_of_the_method_are_keys_of_the_plugin_of_verl():
    assert also_named("verl")("method.shaping.coef") == (
        "method.shaping.coef (verl: algorithm.diver.method.shaping.coef)"
    )
    assert also_named("verl")("verify.timeout_s") == "verify.timeout_s (verl: algorithm.diver.verify.timeout_s)"
    assert also_named("trl")("method.shaping.coef") == "method.shaping.coef"


def test_a_rate_is_stated_at_the_limit_at_which_it_was_measured_and_at_no_other(monkeypatch):
    columns = {"grade__timeout": np.full(100, 0.03), "grade__error": np.full(100, 0.03)}
    measured = {"fired": 3, "runs": 36}
    rates = {"Verifier timeouts": {"limit": 0.01, **measured}, "Verifier errors": {"limit": 0.02, **measured}}
    monkeypatch.setattr(module, "_rates", lambda: rates)
    timeouts, errors = alerts_of(**columns)
    assert timeouts.text.endswith("It fires on 3 of 36 healthy runs (docs/results/alerts.md).")
    assert "healthy" not in errors.text


def test_without_a_study_no_rate_is_stated(monkeypatch):
    monkeypatch.setattr(module, "_rates", lambda: {})
    (alert,) = alerts_of(grade__timeout=np.full(100, 0.03))
    assert "healthy" not in alert.text
