"""The study of replay: its protocol, its problems, its choices by hand, its command and its page."""

from collections import Counter
from pathlib import Path

import pytest
from protocol import ROOT, check_descent, check_only_added_to

from diver.core.settings import merge
from diver.core.statistics import interval
from diver.recipe.data import Source
from diver_paper.job import study_recipe
from diver_paper.records import Records, read
from method_comparison.plan import load_plan
from verified_replay import problems
from verified_replay.__main__ import main
from verified_replay.page import write_page
from verified_replay.results import gap
from verified_replay.study import BASELINE, RECORDS, REPLAY, SELECTION, Choice, Study

RESULTS = ROOT / "docs" / "results"
FILE = Records.of(RESULTS, RECORDS).file
PROTOCOL = "studies/verified_replay/study.toml"


def finished(study):
    return [(run, record) for run in study.planned() if (record := study.record(run)) is not None]


def finished_records():
    return [record for _, record in finished(Study(RESULTS))]


def test_every_record_is_of_a_commit_after_the_protocol():
    check_descent(PROTOCOL, finished_records())


def test_since_the_first_run_the_protocol_is_only_added_to():
    check_only_added_to(PROTOCOL, finished_records())


def test_no_record_is_left_out_of_the_page():
    assert {*read(FILE)} == {f"{run.folder}/{run.job.name}" for run, _ in finished(Study(RESULTS))}


def test_the_page_is_what_the_records_give(tmp_path):
    if not FILE.exists():
        pytest.skip("no run is finished")
    (tmp_path / "records").symlink_to(FILE.parent)
    assert write_page(Study(tmp_path)).read_text() == (RESULTS / f"{RECORDS}.md").read_text()


def ids(name):
    return [problem.id for problem in getattr(problems, name)()]


@pytest.mark.slow
def test_stages_share_no_problem():
    """The problems of Countdown; those of mazes by their places in the streams, which repeat no problem
    (tests/tasks)."""
    found = {name: ids(f"countdown_{name}") for name in ("tuning", "final", "tuning_held_out", "final_held_out")}
    assert {name: len(i) for name, i in found.items()} == {
        "tuning": 8192, "final": 8192, "tuning_held_out": 1024, "final_held_out": 1024,
    }  # fmt: skip
    assert max(Counter(i for part in found.values() for i in part).values()) == 1
    plan = load_plan()
    for name in ("countdown", "countdown-new", "countdown-high"):
        data = study_recipe(plan.regime(name)).data
        earlier = {
            p.id for p in problems.generate(Source(path="countdown"), data, plan.evaluation.problems, held_out=True)
        }
        assert not earlier & {*found["tuning_held_out"], *found["final_held_out"]}
    (first, end), (large, _) = problems.TRAINED["maze"], problems.TRAINED["large"]
    assert (
        (end - first) / 2 == 512 and large >= end and first >= 1024
    )  # before that are those of the comparison of methods


@pytest.mark.first
@pytest.mark.slow
def test_the_held_out_mazes_are_new():
    found = ids("maze_tuning_held_out") + ids("maze_final_held_out")
    data = study_recipe(load_plan().regime("maze")).data
    earlier = {
        p.id for p in problems.generate(Source(path="maze"), data, load_plan().evaluation.problems, held_out=True)
    }
    assert len({*found}) == len(found) == 2048 and not earlier & {*found}


def record(c, lengths=(), tokens=(), **more):
    """A record whose evaluations have these numbers of correct samples of 64 for each problem."""
    names = (SELECTION, "held-out 1", "trained 0.6", "trained 1")
    evaluations = {name: {"samples": 64, "temperature": 0.6, "c": list(c)} for name in names}
    metrics = {"response/length_mean": list(lengths), "replay/tokens": list(tokens)}
    metrics["policy/active_token_frac"] = [0.5] * len(metrics["replay/tokens"])
    return {
        "evaluations": evaluations,
        "metrics": metrics,
        "commit": "0" * 40,
        "cpu_seconds": {"train": 1.0, "evaluate": 1.0},
        **more,
    }


def save(study, planned, values):
    recipe = planned.job.recipe(study.regime(planned.testbed, planned.stage))
    study.records(planned).add(planned.job, {**values, "recipe": recipe, **study.made(planned.stage)})


def rate_of(planned):
    return planned.job.changes["train"]["learning_rate"]


def alpha_of(planned):
    return planned.job.changes["method"].get("replay", {}).get("alpha")


def test_what_is_chosen_and_what_follows_by_hand(tmp_path):
    """The criterion of c correct samples of 64 in each of two problems is (c / 64 + 1) / 2 where 0 < c."""
    study = Study(tmp_path)
    assert [p.label for p in study.tuning("maze")] == [label for label in study.config["methods"] for _ in range(3)]
    for planned in list(study.tuning("maze")):
        best = {BASELINE: 5e-5, REPLAY: 1e-4}.get(planned.label, 2.5e-5)
        c = [40, 40] if rate_of(planned) == best else [32, 30]
        save(study, planned, record(c, lengths=[20.0, 30.0], tokens=[5000, 7800]))
    assert study.choice("maze").alpha is None and BASELINE not in study.choice("maze").rates
    more = [p for p in study.tuning("maze") if study.record(p) is None]
    assert [(p.label, rate_of(p), alpha_of(p)) for p in more] == [
        (BASELINE, 3.53553e-05, None),
        (BASELINE, 7.07107e-05, None),
        (REPLAY, 1e-4, 0.03),
        (REPLAY, 1e-4, 0.3),
    ]
    for planned in more:
        wins = rate_of(planned) == 7.07107e-05 or alpha_of(planned) == 0.3
        save(study, planned, record([50, 50] if wins else [10, 10], lengths=[10.0, 10.0], tokens=[3840, 3840]))
    choice = study.choice("maze")
    assert choice.alpha == 0.3 and choice.rates[BASELINE] == 7.07107e-05 and choice.rates["max-rl"] == 2.5e-5
    assert (
        sum(p.label == BASELINE for p in study.tuning("maze"))
        == sum(p.label == REPLAY for p in study.tuning("maze"))
        == 5
    )
    # 256 responses of 10 tokens a step, half of them with a gradient, and 3,840 replayed tokens: 8 (1,280 + 3,840) /
    # 1,280 = 32
    assert Study(tmp_path).rollouts_of_equal_tokens == 32
    runs = {(p.stage, p.label): p.job for p in study.planned() if p.job.seed in (310, 320) and p.testbed == "maze"}
    assert len(runs) == 7 + 4 + 2
    more_rollouts = runs["controls", "more rollouts"]
    assert more_rollouts.changes["sample"] == {"group_size": 32} and more_rollouts.changes["train"] == {
        "learning_rate": 7.07107e-05
    }
    on_diver = runs["final", "diver-mix, replay"].changes
    assert on_diver["method"]["replay"] == {"alpha": 0.3} and on_diver["train"] == {"learning_rate": 2.5e-5}
    assert on_diver["method"]["shaping"] == {"condition": "correct-finished"}
    replays = {
        label: runs[stage, label].changes for stage, label in runs if label in (REPLAY, *study.config["controls"])
    }
    assert all(
        changes["train"] == {"learning_rate": 1e-4} and changes["method"]["replay"]["alpha"] == 0.3
        for changes in replays.values()
    )
    for planned in study.planned():
        recipe = study_recipe(planned.job.recipe(study.regime(planned.testbed, planned.stage)))
        assert recipe.method.frame == "common" and recipe.train.steps == 600
        assert (recipe.method.replay.alpha > 0) == (
            "replay" in planned.label or planned.label in study.config["controls"]
        )
    order = [(p.stage, p.label, p.job.seed) for p in study.planned() if p.stage != "tuning"]
    assert order[:7] == [("final", label, 310) for label in study.labels]
    assert (
        order.index(("controls", "latest", 310))
        < order.index(("final", BASELINE, 313))
        < order.index(("large", REPLAY, 320))
    )
    write_page(study)
    assert "alpha 0.3" in (tmp_path / f"{RECORDS}.md").read_text()


def cells(page, k):
    """The row of the table over the samples at test time, without the intervals."""
    row = next(line for line in page.splitlines() if line.startswith(f"| {k} "))
    return [cell.strip().partition(" [")[0] for cell in row.split("|")[2:-1]]


def test_what_the_page_decides(tmp_path, monkeypatch):
    """Every problem has c correct of 64: Pass@1 is c / 64, and Pass@64 is 1 where c is above 0. Three seeds differ by
    nothing."""
    study = Study(tmp_path)
    rates = dict.fromkeys(study.config["methods"], 0.0001)
    monkeypatch.setattr(Study, "choice", lambda self, testbed: Choice(rates, 0.1))
    monkeypatch.setattr(Study, "rollouts_of_equal_tokens", 16)

    def make(seeds, good):
        for planned in study.planned():
            if planned.stage == "final" and planned.job.seed in seeds:
                c = [32] * 40 if planned.label == good else [16] * 20 + [0] * 20
                save(study, planned, record(c))
        write_page(study)
        return (tmp_path / f"{RECORDS}.md").read_text()

    assert "Not decided yet" in make([310, 311], REPLAY)
    page = make([310, 311, 312], REPLAY)
    assert "on both testbeds: verified-replay." in page and (tmp_path / f"{RECORDS}.png").stat().st_size > 0
    # verified-replay: 1/2 and 1. The others: 1/4 and 1 in one half of the problems, 0 in the other.
    assert cells(page, "1") == ["verified-replay", "+37.5", "verified-replay", "+37.5"]
    assert cells(page, "64") == ["verified-replay", "+50.0", "verified-replay", "+50.0"]
    # "diver-mix, replay" is like clip-higher here: -1 in half of 40 problems, 0 in the other, equal in all seeds. At
    # 99.5 %: 2.976 (Student, 39 degrees) x 0.5064 / sqrt(40) = 0.238.
    assert "- DIVER on top of replay, Mazes: -50.0 [-73.8, -26.2] points of Pass@64." in page
    page = make([310, 311, 312], None)
    assert "No setting is above tuned clip-higher" in page
    assert cells(page, "64") == [BASELINE, "–", BASELINE, "–"]


def test_a_difference_is_paired_over_seeds_and_problems():
    """Two problems, 64 samples: Pass@1 differs by 16/64 and 0 in seed 1, 8/64 and 8/64 in seed 2; seed 3 has no
    partner."""
    more, less = {1: record([32, 5]), 2: record([20, 20]), 3: record([0, 0])}, {1: record([16, 5]), 2: record([12, 12])}
    assert gap(more, less, SELECTION, 1, 0.9) == interval([[0.25, 0.0], [0.125, 0.125]], (-1, 1), 0.9)
    assert gap(more, {}, SELECTION, 1).text() == "–"


TINY = """
learning_rates = { countdown = [1e-4], maze = [1e-4] }
alphas = [0.1, 0.3]
tuning_seed = 1
final_seeds = [2]
control_seeds = []
control_order = []
large_seeds = []
samples = 64
temperatures = [0.6]
held_out = 4
trained = 4
[methods]
clip-higher = { name = "clip-higher" }
verified-replay = { name = "verified-replay" }
[combined]
[controls]
[recipe.train]
steps = 2
save_steps = 2
batch_size = 4
mini_batch_size = 2
"""


@pytest.mark.slow
def test_the_command_tunes_and_then_makes_the_final_runs(tmp_path, monkeypatch, in_this_process):
    monkeypatch.chdir(tmp_path)
    Path("tiny.toml").write_text(TINY)
    monkeypatch.setattr(
        "sys.argv",
        ["verified_replay", *"--config tiny.toml --testbeds countdown --jobs 2 --out out --work work".split()],
    )
    main()
    study = Study(Path("out"), Path("tiny.toml"))
    made = finished(study)
    assert Counter((run.stage, run.label) for run, _ in made) == {
        ("tuning", BASELINE): 3, ("tuning", REPLAY): 2, ("final", BASELINE): 1, ("final", REPLAY): 1,
    }  # fmt: skip
    for run, found in made:
        assert [len(e["c"]) for e in found["evaluations"].values()] == ([4] if run.stage == "tuning" else [4, 4])
        assert ("replay/tokens" in found["metrics"]) == (run.label == REPLAY)
        assert merge(found["recipe"], {}) == run.job.recipe(study.regime(run.testbed, run.stage))
    page = Path("out/verified-replay.md").read_text()
    assert "## Tuning" in page and "## What to turn on" in page and "Not finished" in page  # mazes are
