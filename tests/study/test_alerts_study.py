"""The study of alerts: its protocol, its broken runs, its statistics by hand and its page."""

from collections import Counter

import numpy as np
import pytest
from protocol import ROOT, check_descent, check_only_added_to

from alerts.page import write_page, write_rates
from alerts.results import Finished, Rate, Results, Watched, limit_of, watched
from alerts.study import CHOICE, HEALTHY, RECORDS, REPORT, AlertRun, Study
from diver.core.types import DiverError, Group, Problem, Reward, Rollout
from diver.sweep import records
from diver.train.alerts import AlertLog, alerts, rules
from diver_paper import again
from diver_paper.runs import records_file, study_recipe

RESULTS = ROOT / "docs" / "results"
FILE = records_file(RESULTS, RECORDS)
PROTOCOL = "studies/alerts/study.toml"
RATES = ROOT / "src" / "diver" / "train" / "alert_rates.toml"
STUDY = Study(RESULTS)


def finished_records():
    return [record for run in STUDY.all_runs if (record := STUDY.record(run)) is not None]


def recipe_of(planned):
    return study_recipe(planned.recipe)


def of_kind(kind):
    return [planned for planned in STUDY.all_runs if planned.kind == kind]


# ---- the protocol


def test_every_record_is_of_a_commit_after_the_protocol():
    check_descent(PROTOCOL, finished_records())


def test_since_the_first_run_the_protocol_is_only_added_to():
    check_only_added_to(PROTOCOL, finished_records())


def test_no_record_is_left_out_of_the_page():
    assert {*records.read(FILE)} == {record["name"] for record in finished_records()}
    assert len(finished_records()) == len(STUDY.all_runs)


@pytest.mark.slow
def test_the_page_is_what_the_records_give(tmp_path):
    (tmp_path / "records").symlink_to(FILE.parent)
    assert write_page(Study(tmp_path)).read_text() == (RESULTS / f"{RECORDS}.md").read_text()


def test_the_package_states_the_rates_of_the_records(tmp_path):
    assert write_rates(STUDY, tmp_path / "rates.toml").read_text() == RATES.read_text()
    with pytest.raises(DiverError, match="123 runs of the study have no record, so no rate is stated"):
        write_rates(Study(tmp_path), tmp_path / "none.toml")


def test_there_are_enough_runs_and_half_of_each_kind_chooses():
    kinds = Counter(planned.kind for planned in STUDY.all_runs)
    assert kinds[HEALTHY] >= 60 and sum(kinds.values()) - kinds[HEALTHY] >= 60
    halves = Counter((planned.kind, planned.half) for planned in STUDY.all_runs)
    assert all(halves[kind, CHOICE] == count // 2 for kind, count in kinds.items())
    seeds = [planned.recipe["run"]["seed"] for planned in STUDY.all_runs]
    assert len({*seeds}) == len(seeds)
    settings = {(planned.testbed, planned.label) for planned in of_kind(HEALTHY)}
    assert len({bed for bed, _ in settings}) == 3 and len({label for _, label in settings}) == 10


def test_the_limits_are_of_alerts_of_the_package_and_include_its_own():
    found = {alert.title: alert for alert in watched(STUDY)}
    assert {*STUDY.config["limits"]} <= {*found}
    assert all(alert.today in alert.limits for alert in found.values())
    assert {rule["title"]: limit_of(rule) for rule in rules()}.items() <= {
        (title, alert.today) for title, alert in found.items()
    }


def test_limits_go_from_the_most_to_the_least_sensitive():
    sides = {rule["title"]: "above" in rule for rule in rules()}
    for title, limits in STUDY.config["limits"].items():
        assert limits == sorted(limits, reverse=not sides.get(title, True))


# ---- a run is broken by what its kind says


def test_a_broken_run_changes_what_its_kind_says():
    rates = {planned.recipe["train"]["learning_rate"] for planned in of_kind("rate")}
    assert rates == {1e-3, 2e-3}
    assert {recipe_of(planned).data.verifier for planned in of_kind("yes")} == {"alerts.verifier:says_yes"}
    assert {recipe_of(planned).data.template for planned in of_kind("template")} == {"paper-llama"}
    trainers = {kind: STUDY.record(of_kind(kind)[0])["trainer"] for kind in ("frozen", "tail")}
    assert trainers == {"frozen": "alerts.sampler:FrozenSampler", "tail": "alerts.sampler:NoEndToken"}
    for planned in of_kind(HEALTHY):
        recipe = recipe_of(planned)
        assert recipe.data.verifier == "auto" and STUDY.record(planned)["trainer"] == ""
        if planned.label.startswith("diver"):
            assert (recipe.method.diversity.until, recipe.method.shaping.condition) == ("answer", "correct-finished")


def test_a_filter_on_the_shaped_reward_keeps_groups_all_correct():
    """All correct with diversity rewards 0.1 and 0.2: DAPO's filter drops it, this one keeps it. None correct: both
    drop it."""
    select = recipe_of(of_kind("filter")[0]).method.selection.select

    def group(outcome, *diversities):
        rollouts = [Rollout("r", reward=Reward(outcome, diversity)) for diversity in diversities]
        return Group(Problem(id="p", prompt="?", answer="1"), tuple(rollouts))

    all_correct = group(1.0, 0.1, 0.2)
    assert select(all_correct, 0.5).tolist() == [True, True] and not select(group(0.0, 0.0, 0.0), 0.5).any()


# ---- statistics by hand


def finished(metrics, correct=None, kind=HEALTHY, half=REPORT, samples=4, diverged=None):
    record = {"metrics": metrics, "correct": correct or {}, "evaluation": {"samples": samples}, "diverged": diverged}
    return Finished(AlertRun(kind, "countdown", "x", half, {}), record)


def test_pass_at_1_has_fallen_where_it_is_below_an_earlier_evaluation():
    """100 problems x 4 samples: 2 of 4, then 3, then 1 of each. 1 is below 2 and 3; a rise and noise are no fall."""
    fell = finished({}, {"0": [2] * 100, "25": [3] * 100, "50": [1] * 100, "75": [1] * 100})
    assert fell.fall == 50
    assert finished({}, {"0": [1] * 100, "25": [2] * 100}).fall is None
    noisy = np.resize([2, 1, 3], 99).tolist()
    assert finished({}, {"0": [2] * 99, "25": noisy}).fall is None
    assert finished({}, {"0": [2] * 100}).fall is None


def test_pass_at_1_has_fallen_where_the_training_diverges():
    """100 problems x 4 samples: 3 of 4, then 1 of each. The training diverges at step 60, or at once."""
    fell = {"0": [3] * 100, "50": [1] * 100}
    assert finished({}, fell, diverged=60).fall == 50
    assert finished({}, {"0": [3] * 100, "50": [3] * 100}, diverged=60).fall == 60
    assert finished({}, {"0": [3] * 100}, diverged=1).fall == 1


def test_a_healthy_run_that_diverges_is_a_broken_run():
    """Of two healthy runs one diverges: the alert of both is one false alarm of one run, and one of one broken run."""
    results, alert = made_up([0.9, 0.9], [])
    results.runs[1].record["diverged"] = 3
    assert results.broken[-1] == "diverged" and results.titles["diverged"] == "a healthy run that diverges"
    assert [results.rate(alert, 0.2, CHOICE, kinds) for kinds in ([HEALTHY], results.broken)] == [(1, 1), (1, 1)]


def test_no_alert_fires_in_a_run_that_diverges_at_once():
    run = finished({}, {"0": [3] * 100}, diverged=1)
    assert all(alert.fires(run, limit) is None for alert in watched(STUDY) for limit in alert.limits)


def test_the_interval_of_a_rate_by_hand():
    """0 of 32: the upper end is 1 - .025^(1/32). 32 of 32: the lower end is .025^(1/32)."""
    end = 0.025 ** (1 / 32)
    assert Rate(0, 32).interval == pytest.approx((0.0, 0.0, 1 - end))
    assert Rate(32, 32).interval == pytest.approx((1.0, end, 1.0))
    assert Rate(0, 32).text == "0 of 32 [0, 11]" and Rate(0, 0).text == "–"
    assert Rate(0, 32).of("healthy runs") == "0 of 32 healthy runs, 0 % [0, 11]"


def test_an_alert_fires_at_the_step_at_which_the_log_prints_it(capsys):
    values = np.where(np.arange(1, 101) <= 60, 0.0, 0.4).tolist()
    rows = [{"step": i, "response/truncated": value} for i, value in enumerate(values, start=1)]
    log = AlertLog()
    for row in rows:
        log.log(row["step"], row)
    assert capsys.readouterr().out.startswith("step 65: ")
    (alert,) = (alert for alert in watched(STUDY) if alert.title == "Truncated responses")
    run = finished({"response/truncated": values})
    assert [alert.fires(run, limit) for limit in (0.2, 0.3, 0.5)] == [65, 65, None]


def test_an_alert_that_stands_on_the_page_alone_fires_at_the_end_of_its_moving_mean():
    """1 at three of each four steps is never five in a row; its mean over 11 steps is above .2 from the first on."""
    values = np.resize([1.0, 1.0, 1.0, 0.0], 100).tolist()
    (alert,) = (alert for alert in watched(STUDY) if alert.title == "Truncated responses")
    run = finished({"response/truncated": values})
    assert alerts(run.metrics) and alert.fires(run, 0.2) == 1 + 5


def test_the_alert_of_evaluations_fires_at_the_last_step():
    """Pass@1 rises by 12.5 points and Pass@4 falls by 50, as in tests/pages/test_report.py."""
    (alert,) = (alert for alert in watched(STUDY) if alert.title.startswith("Pass@1 rises"))
    run = finished({}, {"0": [1] * 40, "100": [2] * 40, "200": [3] * 20 + [0] * 20})
    assert alert.fires(run, alert.today) == 200
    assert alert.fires(finished({}, {"0": [1] * 40, "200": [3] * 40}), alert.today) is None


def made_up(healthy, broken, limits=(0.1, 0.2, 0.3), today=0.2):
    """Results of runs with a made-up alert, which fires at a limit below the number of a run."""
    runs = [
        *(finished({}, kind=HEALTHY, half=CHOICE) for _ in healthy),
        *(finished({}, kind="rate", half=CHOICE) for _ in broken),
    ]
    numbers = {id(run): x for run, x in zip(runs, (*healthy, *broken), strict=True)}
    results = Results.__new__(Results)
    results.study, results.runs, results._steps = STUDY, runs, {}
    return results, Watched("made up", limits, today, lambda run, limit: 7 if numbers[id(run)] > limit else None)


@pytest.mark.parametrize(
    ("healthy", "broken", "chosen"),
    [
        ([0.0] * 19 + [0.15], [0.15, 0.25, 0.0], 0.1),  # one of 20 is 5 %: allowed, and finds one more
        ([0.0] * 18 + [0.15] * 2, [0.15, 0.25, 0.0], 0.2),  # two of 20 are too many
        ([0.0] * 20, [0.0] * 3, 0.2),  # nothing to find: that of the package stays
        ([0.9] * 20, [0.9] * 3, 0.2),  # always false: so does it
        ([0.25] * 20, [0.25] * 3, 0.3),  # the fewest false alarms
    ],
)
def test_the_choice_of_a_limit_by_hand(healthy, broken, chosen):
    results, alert = made_up(healthy, broken)
    assert results.chosen(alert) == chosen


def test_steps_before_the_fall_by_hand():
    """The alert at step 7, the fall at 50: 43 steps. The choosing half, and runs with one of both, do not count."""
    fell = {"0": [3] * 100, "50": [0] * 100}
    runs = [
        finished({}, fell, kind="rate"),
        finished({}, fell, kind="rate", half=CHOICE),
        finished({}, {"0": [3] * 100}, kind="rate"),
    ]
    results = Results.__new__(Results)
    results.runs, results._steps = runs, {}
    assert results.leads(Watched("made up", [1], 1, lambda run, limit: 7), 1, ["rate"]) == [43]
    assert results.leads(Watched("never", [1], 1, lambda run, limit: None), 1, ["rate"]) == []


def test_warnings_before_a_fall_by_hand():
    """A fall at 50: an alert at 7 comes before it, one at 50 or 60 does not. A run without a fall, or of the choosing
    half, does not count."""
    fell, steps = {"0": [3] * 100, "50": [0] * 100}, [7, 50, 60, None, 7, 7]
    runs = [
        *(finished({}, fell) for _ in range(4)),
        finished({}, {"0": [3] * 100, "50": [3] * 100}),
        finished({}, fell, half=CHOICE),
    ]
    results = Results.__new__(Results)
    results.runs, results._steps = runs, {}
    at = {id(run): step for run, step in zip(runs, steps, strict=True)}
    late = Watched("late", [1], 1, lambda run, limit: 60)
    results.alerts = [Watched("made up", [1], 1, lambda run, limit: at[id(run)]), late]
    assert results.warned({"made up": 1, "late": 1}, REPORT, [HEALTHY]) == Rate(1, 4)
    assert results.warned({"made up": 1, "late": 1}, REPORT, ["rate"]) == Rate(0, 0)


# ---- broken samplers


@pytest.mark.slow
def test_broken_runs_are_made_again(tmp_path, monkeypatch, in_this_process):
    """A sampler without the end token: every response has the full length."""
    small = "train.steps=2 train.save_steps=1 train.batch_size=2 train.mini_batch_size=2 evaluate.problems=8"
    words = f"{FILE} tail-countdown/clip-higher --set {small} --samples 1 --out {tmp_path}"
    monkeypatch.setattr("sys.argv", ["again", *words.split()])
    again.main()
    (run,) = (r for r in records.read(tmp_path / "records.jsonl.gz").values() if r["setting"] != "untrained")
    assert run["metrics"]["response/truncated"] == [1, 1]


def test_a_frozen_sampler_samples_from_the_policy_before_training(tmp_path):
    plan = again.make_plan(again.Arguments(FILE, "frozen-countdown/", out=tmp_path))
    assert plan.trainer.__name__ == "FrozenSampler" and len(plan.settings) == 3
