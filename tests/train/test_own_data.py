"""Own data gives an answer: the real command on the bundled policy says what was held out, how many problems would do,
and why nothing was learned."""

import json
from pathlib import Path

import pytest
from diver_command import diver, fails, succeeds
from rows import write_rows

RECIPE = """
[data]
path = "mine.jsonl"
verifier = "math"
template = "plain"
[sample]
group_size = 4
max_tokens = 20
max_prompt_tokens = 24
[train]
steps = 2
batch_size = 4
mini_batch_size = 2
[evaluate]
problems = 10
num_samples = 4
"""
VERIFIERS = """
def wrong(response, problem):
    return False

def none(response, problem):
    return None

def right(response, problem):
    return True

def fails_mostly(response, problem):
    if "div" not in response:
        raise ValueError("no")
    return False
"""
SUMS = [{"problem": f"{i}, 2 = {i + 2}", "answer": f"{i}+2"} for i in range(1, 39)]


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    Path("own.toml").write_text(RECIPE)
    Path("strict.py").write_text(VERIFIERS)
    write_rows(Path("mine.jsonl"), SUMS)


def test_the_number_of_held_out_problems_is_obeyed_and_its_table_says_how_many_would_do():
    """38 problems, of which the 10 that are asked for are held out, and not the 3 of a tenth."""
    Path("half.py").write_text("def half(response, problem):\n    return len(response) % 2 == 0\n")
    out = succeeds("train", "own.toml", "--data.verifier", "half:half")
    evaluation = json.loads(Path("runs/own/eval/step_0000.json").read_text())
    assert evaluation["problems"] == 10
    line = "problems: 28 of mine.jsonl to train on, 10 of mine.jsonl to evaluate on (evaluate.problems = 10)"
    assert json.loads(Path("runs/own/config.json").read_text())["notes"][0] == line
    assert "has an interval of" in out and "problems, not 10, give 20." in out
    again = succeeds("compare", "runs/own")
    assert "minus before training has an interval of" in again and "problems, not 10, give 20." in again
    alone = succeeds("eval", "runs/own", "--step", 2)
    assert "problems, not 10, give 20." in alone


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--sample.max_tokens", 2), "of the responses reached 2 tokens unfinished: raise sample.max_tokens"),
        (("--data.verifier", "strict:none"), "have no answer that the verifier finds: data.template must ask for what"),
        (("--data.verifier", "strict:fails_mostly"), "made the verifier fail: repair the function that data.verifier"),
        (("--data.verifier", "strict:wrong"), "are wrong: take easier problems or a stronger model"),
        (("--data.verifier", "strict:right"), "in 100% of the groups every response was correct: take harder problems"),
    ],
)
def test_a_run_without_signal_says_why_at_its_end(flags, why):
    out = succeeds("train", "own.toml", "--evaluate.problems", 0, "--method", "grpo", *flags)
    end = out.partition("None of the 2 steps had a gradient")[2]
    assert why in end, out


def test_the_duration_is_estimated_on_request_and_nothing_is_kept():
    flags = ("--dry-run", "--data.verifier", "strict:wrong")
    assert "duration: --estimate measures it\n" in diver("train", "own.toml", *flags).stderr
    done = diver("train", "own.toml", *flags, "--estimate", "--train.steps", 7)
    assert done.returncode == 0 and "of which 7 steps take" in done.stderr, done
    assert not Path("runs").exists()
    for words in (("--estimate",), ("--estimate", "--dry-run", "--seeds", "0,1")):
        line = fails("train", "own.toml", *words)
        assert f"{words[0]}: is for --dry-run" in line


def test_the_dry_run_has_what_was_changed_alone():
    printed = succeeds("train", "own.toml", "--dry-run", "--train.learning_rate", 1e-4)
    assert "learning_rate = 0.0001" in printed and "warmup_steps" not in printed and len(printed.splitlines()) < 40
