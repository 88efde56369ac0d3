"""`diver train` and `diver eval` where an environment answers: the files of the run, a kill, and refusals."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from diver_command import fails
from safetensors.numpy import load_file

from diver.core.turns import turns_from_rows
from diver.core.types import DiverError
from diver.methods.gigpo import discounted_returns
from diver.recipe.load import load_recipe
from diver.train.prepare import prepare

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
RECIPE = """
[run]
folder = "{folder}"
[data]
path = "environments:problems"
verifier = "environments:{kind}"
[model]
threads = 1
[sample]
group_size = 4
max_prompt_tokens = 24
max_tokens = 60
[method]
name = "{method}"
[train]
steps = 3
batch_size = 2
mini_batch_size = 2
learning_rate = 1e-4
save_steps = 1
[evaluate]
problems = 1
num_samples = 4
"""


def diver(folder, *words, **environment):
    env = {**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, "-m", "diver", *words], cwd=folder, env=env, capture_output=True, text=True)


def recipe(tmp_path, kind="Killed", folder="run", method="gigpo"):
    (tmp_path / f"{folder}.toml").write_text(RECIPE.format(kind=kind, folder=folder, method=method))
    return f"{folder}.toml"


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def content(run, steps=3):
    """All that a run computes, without its times, and its last checkpoint."""
    metrics = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows(run / "metrics.jsonl")]
    files = {str(p.relative_to(run)): p.read_text() for p in sorted(run.glob("*/step_*.json*"))}
    last = run / "checkpoints" / f"step_{steps:04}"
    weights = load_file(last / "model.safetensors")
    state = {path.name: path.read_bytes() for path in last.glob("method.*")}
    return metrics, files, {name: value.tobytes() for name, value in weights.items()}, state


def killed_and_resumed(tmp_path, method):
    """What a run of three steps computes, in one go and killed within the second batch: the same."""
    done = diver(tmp_path, "train", recipe(tmp_path, folder="full", method=method))
    assert done.returncode == 0, done.stderr
    name, mark = recipe(tmp_path, method=method), str(tmp_path / "mark")
    killed = diver(tmp_path, "train", name, KILLED_MARK=mark)
    assert killed.returncode == -signal.SIGKILL
    assert [row["step"] for row in rows(tmp_path / "run" / "metrics.jsonl")] == [0, 1]
    resumed = diver(tmp_path, "train", name, KILLED_MARK=mark)
    assert resumed.returncode == 0 and "resuming after step 1" in resumed.stdout + resumed.stderr
    full, again = content(tmp_path / "full"), content(tmp_path / "run")
    assert full == again
    return full


@pytest.mark.slow
def test_a_run_killed_within_a_batch_of_trajectories_resumes_to_the_same_files(tmp_path):
    metrics, files, _, state = killed_and_resumed(tmp_path, "gigpo")
    assert not state
    assert any(row["policy/grad_norm"] > 0 for row in metrics[1:]) and "eval/step_0003.json" in files
    check_rollouts(tmp_path / "full")
    evaluated = diver(tmp_path, "eval", "full", "--samples", "5", "--out", "out")  # more than the run has made
    assert evaluated.returncode == 0, evaluated.stderr
    stored = rows(tmp_path / "out" / "step_0003" / "generations" / "environments:problems.jsonl")
    assert len(stored) == 5 and all(len(row["turns"]) == 6 for row in stored)
    (graded,) = (tmp_path / "out" / "step_0003" / "grades").iterdir()
    assert [row["grade"] for row in rows(graded)] == [row["grade"] for row in stored]


@pytest.mark.slow
def test_a_killed_run_that_replays_trajectories_resumes_with_its_bank(tmp_path):
    metrics, _, _, state = killed_and_resumed(tmp_path, "verified-replay")
    assert {*state} == {"method.json", "method.bin"}
    first, *_, last = metrics[1:]
    assert first["replay/rollouts"] > 0 and last["replay/age"] > 0  # of solutions found before the kill
    stored = np.frombuffer(state["method.bin"], "<i4")
    assert (stored < 0).any() and (stored >= 0).any()  # the environment's tokens and the policy's
    sampled = rows(tmp_path / "full" / "rollouts" / "step_0001.jsonl")
    found = [row for row in sampled if row["grade"] == "correct" and not row["truncated"]]
    distinct = {(row["problem"], str([turn["actions"] for turn in row["turns"]])) for row in found}
    assert first["replay/rollouts"] == first["replay/bank_responses"] == len(distinct)


@pytest.mark.slow
def test_a_run_of_textworld_killed_within_a_batch_resumes_to_the_same_files(tmp_path):
    pytest.importorskip("textworld")
    taught = [sys.executable, ROOT / "scripts/starting_policy.py", "textworld", tmp_path / "policy"]
    subprocess.run([*taught, "--steps", "30", "--batch", "8"], check=True, capture_output=True)
    words = ["--model", "policy", "--data.verifier", "environments:KilledTextWorld", "--train.batch_size", "2"]
    words += ["--train.mini_batch_size", "2", "--train.steps", "2", "--train.save_steps", "1"]
    words += ["--data.textworld.problems", "4", "--evaluate.problems", "1", "--evaluate.num_samples", "2"]
    train = ["train", str(ROOT / "recipes/testbeds/textworld.toml"), *words, "--run.folder"]
    full, mark = diver(tmp_path, *train, "full"), str(tmp_path / "run" / "checkpoints" / "step_0001")
    assert full.returncode == 0, full.stderr
    killed = diver(tmp_path, *train, "run", KILLED_MARK=mark)
    assert killed.returncode == -signal.SIGKILL
    assert [row["step"] for row in rows(tmp_path / "run" / "metrics.jsonl")] == [0, 1]
    resumed = diver(tmp_path, *train, "run")
    assert resumed.returncode == 0 and "resuming after step 1" in resumed.stdout + resumed.stderr
    assert content(tmp_path / "full", steps=2) == content(tmp_path / "run", steps=2)
    assert all(row["policy/grad_norm"] > 0 for row in rows(tmp_path / "full" / "metrics.jsonl")[1:])


def check_rollouts(run):
    """The outcome is the sum of the rewards, and the first advantage is GiGPO's, both from the stored turns."""
    for group in (rows(run / "rollouts" / "step_0001.jsonl")[i : i + 4] for i in (0, 4)):
        turns = [turns_from_rows(row["turns"]) for row in group]
        paid = [[turn.reward for turn in own if not turn.by_policy] for own in turns]
        assert [row["reward"]["outcome"] for row in group] == [sum(own) for own in paid]
        assert [row["grade"] == "correct" for row in group] == [sum(own) == 1 for own in paid]
        outcomes = np.array([sum(own) for own in paid])
        returns = np.array([discounted_returns(own, 0.95) for own in paid])  # states are equal at each turn
        expected = (outcomes - outcomes.mean())[:, None] + returns - returns.mean(axis=0)
        assert np.sign(expected.mean(axis=1)).tolist() == np.sign([row["advantage"] for row in group]).tolist()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "trl"], "environment environments:Echo: --engine trl has responses of one turn; use builtin"),
        (
            ["--engine", "verl", "--method", "verified-replay"],
            "environment environments:Echo: --engine verl has responses of one turn; use builtin",
        ),
        (
            ["--data.verifier", "environments:Broken"],
            r"environment environments:Broken, problem '.*': KeyError: 'board' \(.*environments.py:\d+\)",
        ),
        *(
            (
                ["--method", method, "--data.path", "countdown", "--data.verifier", "countdown"],
                rf"^method '{method}' needs turns, and 'countdown' has responses of one turn; name an environment",
            )
            for method in ("gigpo", "diver-actions")
        ),
    ],
)
def test_what_cannot_be_run_is_refused_before_the_first_step(words, message, tmp_path):
    with pytest.raises(DiverError, match=message):
        prepare(load_recipe(tmp_path / recipe(tmp_path, "Echo", method="grpo"), words))


def test_a_run_whose_environment_always_fails_stops(tmp_path):
    line = fails("train", recipe(tmp_path, "Down"), "--evaluate.problems", "0", cwd=tmp_path)
    assert "environments:Down: failed on all 8 responses" in line
