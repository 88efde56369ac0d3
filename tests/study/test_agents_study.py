"""The study of trajectories: its protocol, its mazes, its choices and its page by hand, its command, a killed run."""

import pytest
from protocol import ROOT, check_descent, check_only_added_to

from agents import maze
from agents.page import write_page
from agents.study import BASELINE, FINAL, RECORDS, START, TUNING, Study
from diver.core.seeds import fingerprint
from diver.core.turns import POLICY, Action, Turn
from diver.core.types import Group, Rollout
from diver.diversity import measure
from diver.grading import get_grader
from diver.sweep import records
from diver.tasks.testbeds import policy_folder
from diver_paper.runs import records_file, study_recipe

RESULTS = ROOT / "docs" / "results"
FILE = records_file(RESULTS, RECORDS)
PROTOCOL = "studies/agents/study.toml"


def finished_records():
    return [record for _, record in Study(RESULTS).finished()]


# ---- the protocol


def test_every_record_is_of_a_commit_after_the_protocol():
    check_descent(PROTOCOL, finished_records())


def test_since_the_first_run_the_protocol_is_only_added_to():
    check_only_added_to(PROTOCOL, finished_records())


def test_no_record_is_left_out_of_the_page():
    study = Study(RESULTS)
    assert {*records.read(FILE)} == {record["name"] for _, record in study.finished()}
    assert len([*study.planned()]) == len(study.finished()) == 29


def test_the_page_is_what_the_records_give(tmp_path):
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / FILE.name).symlink_to(FILE)
    assert write_page(Study(tmp_path)).read_text() == (RESULTS / f"{RECORDS}.md").read_text()


def test_the_starting_policy_is_that_of_the_protocol():
    config = Study(RESULTS).config
    assert fingerprint(policy_folder(config["recipe"]["model"]["path"])) == config["policy"]


def test_methods_differ_in_their_method_and_rate_alone():
    study = Study(RESULTS)
    final = [run for run in study.planned() if run.stage == FINAL and run.trained]
    recipes = {run.label: study_recipe(run.recipe) for run in final}
    assert [*recipes] == study.labels and {*study.config["tuned"]} <= {*study.labels}
    (others,) = {repr((r.model, r.data, r.sample, r.train.steps, r.evaluate)) for r in recipes.values()}
    assert "agents.maze:final_held_out" in others
    for label, recipe in recipes.items():
        assert recipe.method.frame == "common" and recipe.method.loss == recipes[BASELINE].method.loss
        assert recipe.method.replay.alpha == (0.1 if label == "verified-replay" else 0)
        if label.startswith("diver"):
            assert (recipe.method.diversity.until, recipe.method.shaping.condition) == ("answer", "correct-finished")


@pytest.mark.slow
def test_stages_share_no_maze():
    """A maze is its walls and its two ends, whichever is the start."""
    parts = [problems() for problems in (maze.tuning, maze.final, maze.tuning_held_out, maze.final_held_out)]
    assert [*map(len, parts)] == [maze.TRAINED, maze.TRAINED, maze.HELD_OUT, maze.HELD_OUT]
    mazes = [(*p.meta["walls"], *sorted([p.meta["start"], p.meta["goal"]])) for part in parts for p in part]
    assert len({*mazes}) == len(mazes)
    assert {p.meta["size"] for part in parts for p in part} == {7}


def test_a_walk_has_at_most_twelve_turns(tmp_path):
    recipe = study_recipe(next(iter(Study(tmp_path).planned())).recipe)
    assert recipe.data.verifier == recipe.evaluate.source.verifier
    environment, _ = get_grader(recipe.data.verifier).start(maze.final()[0])
    assert environment.max_turns == 12
    assert recipe.sample.max_tokens > 2 * 12  # a turn is a direction and its end


def test_text_says_no_more_than_actions():
    """So diver-mix, the mean of TD and ED, has half of the reward of diver-actions."""
    moves = (["right", "down", "down"], ["right", "right", "down", "down"], ["down", "left"], ["down", "left"])
    turns = [
        [turn for move in way for turn in (Turn(POLICY, move, (Action(move),)), Turn("environment", "At b3: up."))]
        for way in moves
    ]
    group = Group(maze.final()[0], tuple(map(Rollout.of_turns, turns)))
    found = measure(group, ["actions", "textual", "equational"])
    assert found["actions"].tolist() == found["textual"].tolist()
    assert found["actions"][0] > found["actions"][2] > 0  # the last two are equal to each other
    assert not found["equational"].any()


# ---- by hand


def record(c, paths=1, diverged=None):
    """A record with so many correct samples of 64 for each problem, and so many different paths among them."""
    evaluation = {"samples": 64, "c": list(c), "distinct": [paths] * len(c)}
    return {
        "evaluations": {} if diverged else {"held-out 0.6": evaluation, "held-out 1": evaluation},
        "metrics": {"reward/outcome": []},  # those of a training
        "diverged": diverged,
        "commit": "0123456789..9876543210",
        "cpu_seconds": {"train": 1800.0, "evaluate": 1800.0},
    }


def save(study, *runs):
    """Add a record for each of the pairs of a planned run and its values."""
    found = {}
    for planned, values in runs:
        metrics = values["metrics"] if planned.trained else {}
        name = f"{planned.stage}/{planned.label}_{planned.rate if planned.trained else 'untrained'}_{planned.seed}"
        found[name] = {**values, "metrics": metrics, "recipe": planned.recipe}
    records.add(records_file(study.out, RECORDS), found)


def tuned(study):
    """Save a tuning: clip-higher is best at 1e-4, and diver-actions at 2.5e-5, a rate below those of the protocol.

    At 5e-5 and 1e-4 diver-actions is equal, at 1.25e-5 worse, and at 2e-4 it diverges.
    """
    while waiting := [planned for planned in study.tuning() if study.record(planned) is None]:
        for planned in waiting:
            rate = planned.rate
            if planned.label == BASELINE:  # the criterion is (c / 64 + 1) / 2
                save(study, (planned, record([40, 40] if rate == 1e-4 else [32, 30])))
            else:
                correct = {2.5e-5: 24, 1.25e-5: 8}.get(rate, 16)
                save(study, (planned, record([correct] * 2, diverged=12 if rate == 2e-4 else None)))


def page_of(study):
    return write_page(study).read_text()


def row(page, *cells):
    """The rest of the first row of a table that begins with these cells."""
    line = next(
        line for line in page.splitlines() if [c.strip() for c in line.split("|")[1:]][: len(cells)] == [*cells]
    )
    return [cell.strip() for cell in line.split("|")[1 + len(cells) : -1]]


def test_what_is_chosen_and_what_follows_by_hand(tmp_path):
    study = Study(tmp_path)
    assert [(p.label, p.rate) for p in study.planned()] == [
        (label, rate) for label in (BASELINE, "diver-actions") for rate in (5e-5, 1e-4, 2e-4)
    ]
    assert "besides the final runs" in page_of(study)
    tuned(study)
    assert study.rates() == {BASELINE: 1e-4, "diver-actions": 2.5e-5}
    assert study.tried(BASELINE) == [5e-5, 1e-4, 2e-4]  # the best is not the lowest
    assert study.tried("diver-actions") == [5e-5, 1e-4, 2e-4, 2.5e-5, 1.25e-5]
    final = [p for p in study.planned() if p.stage == FINAL]
    assert [(p.label, p.seed) for p in final] == [
        (START, 510),
        *((label, seed) for seed in (510, 511, 512) for label in study.labels),
    ]
    assert {p.label: p.rate for p in final[1:]} == {
        label: 2.5e-5 if label == "diver-actions" else 1e-4 for label in study.labels
    }
    page = page_of(study)
    assert "besides the final runs" not in page and f"{len(final)} of {8 + len(final)} runs have no record" in page
    assert "Chosen: clip-higher 0.0001; diver-actions 2.5e-05." in page
    assert "Chosen at an end of the rates that were run" not in page
    assert "- diver-actions (tuning, rate 0.0002, seed 500) diverged at step 12." in page
    criteria = "each learning rate and its criterion"
    # At 0.0001 the mean of 40 / 64 and 1.
    assert f"- {BASELINE}, {criteria}: 5e-05 74.2; 0.0001 81.2; 0.0002 74.2\n" in page
    assert f"- diver-actions, {criteria}: 1.25e-05 56.2; 2.5e-05 68.8; 5e-05 62.5; 0.0001 62.5; 0.0002 –\n" in page
    assert f"- {TUNING}: 8 runs, 8.0\n" in page  # core-hours


def test_what_the_page_decides(tmp_path):
    """Pass@1 is c / 64, and Pass@64 is 1 where c is above 0. Seeds and problems within a half are equal.

    diver-actions has 1/2 and 1, the others 1/4 and 1 in one half of the problems, 0 in the other. The starting policy
    solves everything.
    """
    study = Study(tmp_path)
    tuned(study)

    def make(seeds):
        other, good = record([16] * 20 + [0] * 20), record([32] * 40, paths=3)
        final = [run for run in study.planned() if run.stage == FINAL and run.trained and run.seed in seeds]
        start = [(run, record([64] * 40, paths=7)) for run in study.planned() if run.label == START]
        save(study, *start, *((run, good if run.label == "diver-actions" else other) for run in final))
        return page_of(study)

    page = make([510, 511])
    assert "at Pass@64: no setting." in page and f"no evaluation: {', '.join(study.labels[1:])}." in page
    page = make([510, 511, 512])
    assert (study.out / "agents.png").stat().st_size > 10_000
    assert "- Above tuned clip-higher at Pass@1 and at Pass@64: diver-actions." in page and "Not decided" not in page
    assert "Not finished" not in page
    assert [cell.partition(" [")[0] for cell in row(page, "diver-actions")[:2]] == ["+37.5", "+50.0"]
    assert [cell.partition(" [")[0] for cell in row(page, "max-rl")[:2]] == ["+0.0", "+0.0"]
    # Pass@4 is 1 - (32 x 31 x 30 x 29) / (64 x 63 x 62 x 61).
    levels = row(page, "diver-actions", "50.0")
    assert levels[:4] == ["94.3", "100.0", "100.0", "3.00"] and levels[7].startswith("+50.0 [")
    assert row(page, START, "100.0")[3] == "7.00"
    lines = [line for line in page.splitlines() if line.startswith("- Below the starting policy at temperature")]
    assert [line.partition(": ")[0].split()[-1] for line in lines] == ["0.6", "1"]
    assert all("clip-higher at Pass@1, clip-higher at Pass@64, diver-actions at Pass@1, " in line for line in lines)
    assert not any("diver-actions at Pass@64" in line for line in lines)  # it solves everything, too
    assert "- Below tuned clip-higher at temperature 1: no setting.\n" in page
    assert "is no evidence of equality" in page
    assert row(page, "diver-actions", "510 to 512") == [" ".join(["50.0"] * 3), " ".join(["100.0"] * 3)]
    assert "- The highest gain at Pass@64 is that of diver-actions: +50.0 [" in page
