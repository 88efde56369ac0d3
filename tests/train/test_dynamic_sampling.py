"""DAPO's dynamic sampling in the built-in trainer: other problems take the place of groups without a signal."""

import json
from collections import Counter

import numpy as np
import pytest
from diver_command import succeeds
from rows import write_rows

import diver
from diver.core.run_folder import groups_from_rows
from diver.core.types import DiverError, Group, Problem, Reward, Rollout, trained_on
from diver.integrations.engines import refusals
from diver.methods import method_named
from diver.pages.run_page import write_report

FLAGS = (
    "--method clip-higher --method.selection.filter_groups --data.countdown.problems 12 --sample.group_size 4 "
    "--sample.max_tokens 40 --sample.max_prompt_tokens 24 --train.batch_size 4 --train.mini_batch_size 2 "
    "--train.save_steps 1 --evaluate.problems 0"
).split()


def group_of(outcomes):
    rollouts = (Rollout("a", index=i, reward=Reward(float(r))) for i, r in enumerate(outcomes))
    return Group(Problem("p", "", ""), tuple(rollouts))


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


def test_the_baseline_is_that_of_all_responses_to_a_problem():
    """The example of the authors' text: 4 wrong responses, then 3 wrong ones and a correct one. The baseline is 1/8."""
    first, second = group_of([0] * 4), group_of([0, 1, 0, 0])
    (done,) = method_named("dr-grpo", selection={"retries": 1}).apply([first.joined(second)], 0.0)
    assert done.advantages.tolist() == [-1 / 8] * 5 + [7 / 8] + [-1 / 8] * 2
    assert [rollout.index for rollout in done.rollouts] == [*range(8)]


def test_who_retries_and_who_refuses():
    refused = refusals(method_named("grpo", selection={"retries": 3}))
    assert {"built-in", "DiverTrainer"}.isdisjoint(refused)
    assert refused["verl"] == "method 'grpo' needs retries, which verl does not provide"
    with pytest.raises(DiverError, match="selection.retries: pkpo needs groups of one size, and retried ones are larg"):
        method_named("pkpo", selection={"retries": 3})
    with pytest.raises(DiverError, match="method.selection.retries: must be between 0 and 64, not 65"):
        method_named("grpo", selection={"retries": 65})


def test_a_problem_is_sampled_again_until_a_response_is_correct(recipe, tmp_path):
    """At most twice more, at a temperature at which not all are correct: 4, 8 or 12 responses to a problem."""
    flags = ("--method.selection.filter_groups", "false", "--method.selection.retries", 2, "--sample.temperature", 1.2)
    _, rollouts = train(recipe, tmp_path / "run", 2, *flags)
    sizes = Counter()
    for step in rollouts:
        outcomes = {}
        for rollout in step:
            outcomes.setdefault(rollout["problem"], []).append(rollout["reward"]["outcome"])
        assert len(outcomes) == 4
        for of_problem in outcomes.values():
            attempts = np.reshape(of_problem, (-1, 4)).any(axis=1).tolist()
            assert attempts in ([True], [False, True], [False, False, True], [False] * 3)
            sizes[len(attempts)] += 1
        for rollout in step:
            chain = np.array(outcomes[rollout["problem"]])
            expected = (rollout["reward"]["outcome"] - chain.mean()) / (chain.std() or 1)
            assert rollout["advantage"] == pytest.approx(expected, abs=1e-6)
    assert len(sizes) > 1


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
