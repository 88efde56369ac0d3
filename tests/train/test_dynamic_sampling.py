"""DAPO's dynamic sampling in the built-in trainer: other problems take the place of groups without a signal."""

import json
from collections import Counter

import numpy as np
import pytest
from diver_command import succeeds
from rows import write_rows

import diver
from diver.core.run_folder import groups_from_rows
from diver.core.types import trained_on
from diver.pages.run_page import write_report

FLAGS = (
    "--method clip-higher --method.selection.filter_groups --data.countdown.problems 12 --sample.group_size 4 "
    "--sample.max_tokens 40 --sample.max_prompt_tokens 24 --train.batch_size 4 --train.mini_batch_size 2 "
    "--train.save_steps 1 --evaluate.problems 0"
).split()


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text("")
    return path


def train(recipe, folder, steps, *flags):
    succeeds("train", recipe, *FLAGS, *flags, "--train.steps", steps, "--run.folder", folder)
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").open()]
    rollouts = [[json.loads(line) for line in path.open()] for path in sorted((folder / "rollouts").iterdir())]
    return metrics, rollouts


@pytest.mark.slow
def test_every_step_trains_on_mixed_groups_and_a_resumed_run_is_the_same(recipe, tmp_path):
    metrics, rollouts = train(recipe, tmp_path / "whole", 2)
    assert len(metrics) == len(rollouts) == 2
    for row, step in zip(metrics, rollouts, strict=True):
        solved = Counter()
        trained = [rollout for rollout in step if rollout["trained"]]
        for rollout in trained:
            solved[rollout["problem"]] += rollout["reward"]["outcome"]
        assert len(trained) == 16 and all(0 < n < 4 for n in solved.values())
        assert len(step) == 16 * row["sample/batches"]
        assert all((rollout["advantage"] is None) is not rollout["trained"] for rollout in step)
        assert row["sample/batches"] > 1 or row["group/solve_all"] + row["group/solve_none"] == 0
        assert row["policy/grad_norm"] > 0
    assert max(row["sample/batches"] for row in metrics) > 1
    train(recipe, tmp_path / "halves", 1)
    again = train(recipe, tmp_path / "halves", 2)
    assert again[1] == rollouts and again[0][-1]["sample/batches"] == metrics[-1]["sample/batches"]


def test_a_step_that_finds_too_few_trains_on_what_is_there(recipe, tmp_path):
    """Of one batch at a high temperature no group is mixed: there is nothing to train on, and the run says so."""
    flags = ("--method.selection.max_num_gen_batches", 1, "--sample.temperature", 20)
    metrics, rollouts = train(recipe, tmp_path / "run", 2, *flags)
    assert [len(step) for step in rollouts] == [16, 16]
    assert not any(rollout["trained"] for step in rollouts for rollout in step)
    assert diver.read(tmp_path / "run").frame()["outcome"].mean() == 0
    assert all(row["policy/grad_norm"] == row["policy/loss"] == 0 and row["group/solve_none"] == 1 for row in metrics)


def test_the_groups_that_vary_most_are_trained_on_and_all_are_written(recipe, tmp_path):
    """Half of the sum of the deviations, .01 less: the groups of a batch that come before it, in their order."""
    flags = ("--method.selection.filter_groups", "false", "--method.selection.top_p", 0.5)
    metrics, rollouts = train(recipe, tmp_path / "run", 2, *flags)
    for row, step in zip(metrics, rollouts, strict=True):
        outcomes = np.reshape([rollout["reward"]["outcome"] for rollout in step], (4, 4))
        trained = np.reshape([rollout["trained"] for rollout in step], (4, 4)).all(axis=1)
        deviation = outcomes.std(axis=1, ddof=1)
        assert deviation[trained].min() >= deviation[~trained].max(initial=0.0)
        total, least = deviation[trained].sum(), deviation[trained].min()
        assert total - least < 0.5 * deviation.sum() - 0.01 <= total
        assert "sample/batches" not in row and row["policy/grad_norm"] > 0


PSR = "--method psr --data.countdown.problems 12 --sample.group_size 4 --sample.max_tokens 40 " + (
    "--sample.max_prompt_tokens 24 --train.batch_size 4 --train.mini_batch_size 2 --evaluate.problems 0"
)


def test_a_run_that_trains_on_correct_responses_has_all_of_them_in_its_folder(recipe, tmp_path):
    """psr trains on correct responses only. Pass@1 of its rollouts is the accuracy of what was sampled, not 100 %."""
    folder = tmp_path / "run"
    succeeds("train", recipe, *PSR.split(), "--train.steps", 2, "--run.folder", folder)
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").open()]
    found = diver.read(folder)
    frame = found.frame()
    assert [len(group) for group in found] == [4] * 8
    by_step = frame.groupby("step")["outcome"].mean().tolist()
    assert by_step == [row["reward/outcome"] for row in metrics] and 0 < sum(by_step) < 2
    assert (frame["trained"] == (frame["outcome"] == 1)).all()
    assert (frame["advantage"].notna() == frame["trained"]).all()
    note = f"{int(frame['trained'].sum())} of 32 responses were trained on (column trained), and all are read"
    assert found.notes[1] == f"{folder}: {note}" and note in write_report(folder).read_text()
    assert note in succeeds("measure", folder) and note in succeeds(
        "browse", folder / "rollouts", "--out", tmp_path / "x"
    )
    part = trained_on(found)
    assert all(group.outcomes.all() for group in part) and sum(map(len, part)) == frame["trained"].sum()

    # A folder of an earlier version has the rows that were trained on, without the column.
    for path in sorted((folder / "rollouts").iterdir()):
        rows = [json.loads(line) for line in path.open()]
        write_rows(path, [{k: v for k, v in row.items() if k != "trained"} for row in rows if row["trained"]])
    old = diver.read(folder)
    assert old.frame()["outcome"].mean() == 1 and "trained" not in old.frame()
    note = f"{len(old.frame())} responses are of an earlier version, which wrote only those that were trained on"
    assert old.notes[1] == f"{folder}: {note}" and note in write_report(folder).read_text()


def test_without_a_selection_nothing_is_to_say(recipe, tmp_path):
    """Also where the rows are of an earlier version: what was sampled was trained on."""
    folder = tmp_path / "run"
    succeeds("train", recipe, *PSR.split(), "--method", "clip-higher", "--train.steps", 1, "--run.folder", folder)
    assert len(diver.read(folder).notes) == 1 and diver.read(folder).frame()["trained"].all()
    (path,) = (folder / "rollouts").iterdir()
    rows = [json.loads(line) for line in path.open()]
    write_rows(path, [{k: v for k, v in row.items() if k != "trained"} for row in rows])
    assert len(diver.read(folder).notes) == 1
    (group, *_) = groups_from_rows(("x", {**row, "trained": "yes"}) for row in rows)
    assert group.rollouts[0].trained is None
