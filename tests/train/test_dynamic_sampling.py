"""DAPO's dynamic sampling in the built-in trainer: other problems take the place of groups without a signal."""

import json
from collections import Counter

import pytest
from diver_command import succeeds

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
        for rollout in step:
            solved[rollout["problem"]] += rollout["reward"]["outcome"]
        assert len(step) == 16 and all(0 < n < 4 for n in solved.values())
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
    assert rollouts == [[], []]
    assert all(row["policy/grad_norm"] == row["policy/loss"] == 0 and row["group/solve_none"] == 1 for row in metrics)
