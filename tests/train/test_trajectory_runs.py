"""`diver train` and `diver eval` where an environment answers: the files of the run, a kill, and refusals."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from diver_command import diver, fails, succeeds
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


def process(folder, *words, **environment):
    env = {**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, "-m", "diver", *words], cwd=folder, env=env, capture_output=True, text=True)


def recipe(tmp_path, kind="Killed", folder="run", method="gigpo"):
    (tmp_path / f"{folder}.toml").write_text(RECIPE.format(kind=kind, folder=folder, method=method))
    return f"{folder}.toml"


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def content(run, steps=3):
    """All that a run computes, without its times."""
    metrics = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows(run / "metrics.jsonl")]
    files = {str(p.relative_to(run)): p.read_text() for p in sorted(run.glob("*/step_*.json*"))}
    weights = load_file(run / "checkpoints" / f"step_{steps:04}" / "model.safetensors")
    return metrics, files, {name: value.tobytes() for name, value in weights.items()}


@pytest.mark.slow
def test_a_run_killed_within_a_batch_of_trajectories_resumes_to_the_same_files(tmp_path):
    """The killed run is a process of its own."""
    succeeds("train", recipe(tmp_path, folder="full"), cwd=tmp_path)
    name = recipe(tmp_path)
    killed = process(tmp_path, "train", name, KILLED_MARK=str(tmp_path / "mark"))
    assert killed.returncode == -signal.SIGKILL
    assert [row["step"] for row in rows(tmp_path / "run" / "metrics.jsonl")] == [0, 1]
    resumed = diver("train", name, cwd=tmp_path)
    assert resumed.returncode == 0 and "resuming after step 1" in resumed.stdout + resumed.stderr
    full, again = content(tmp_path / "full"), content(tmp_path / "run")
    assert full == again
    metrics, files, _ = full
    assert any(row["policy/grad_norm"] > 0 for row in metrics[1:]) and "eval/step_0003.json" in files
    check_rollouts(tmp_path / "full")
    succeeds("eval", "full", "--samples", 5, "--out", "out", cwd=tmp_path)  # more than the run has made
    stored = rows(tmp_path / "out" / "step_0003" / "generations" / "environments:problems.jsonl")
    assert len(stored) == 5 and all(len(row["turns"]) == 6 for row in stored)
    (graded,) = (tmp_path / "out" / "step_0003" / "grades").iterdir()
    assert [row["grade"] for row in rows(graded)] == [row["grade"] for row in stored]


@pytest.mark.slow
def test_a_run_of_textworld_killed_within_a_batch_resumes_to_the_same_files(tmp_path):
    pytest.importorskip("textworld")
    taught = [sys.executable, ROOT / "scripts/starting_policy.py", "textworld", tmp_path / "policy"]
    subprocess.run([*taught, "--steps", "30", "--batch", "8"], check=True, capture_output=True)
    words = ["--model", "policy", "--data.verifier", "environments:KilledTextWorld", "--train.batch_size", "2"]
    words += ["--train.mini_batch_size", "2", "--train.steps", "2", "--train.save_steps", "1"]
    words += ["--data.textworld.problems", "4", "--evaluate.problems", "1", "--evaluate.num_samples", "2"]
    train = ["train", str(ROOT / "recipes/testbeds/textworld.toml"), *words, "--run.folder"]
    full, mark = process(tmp_path, *train, "full"), str(tmp_path / "run" / "checkpoints" / "step_0001")
    assert full.returncode == 0, full.stderr
    killed = process(tmp_path, *train, "run", KILLED_MARK=mark)
    assert killed.returncode == -signal.SIGKILL
    assert [row["step"] for row in rows(tmp_path / "run" / "metrics.jsonl")] == [0, 1]
    resumed = process(tmp_path, *train, "run")
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
        (["--method", "verified-replay"], "environment environments:Echo: method.replay keeps responses of one turn"),
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
    line = fails("train", recipe(tmp_path, "Down"), "--evaluate.problems", 0, cwd=tmp_path)
    assert "environments:Down: failed on all 8 responses" in line
