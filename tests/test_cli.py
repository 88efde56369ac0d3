"""The real command, on the bundled policy made to work little: a run, its folder, kill -9,
and everything users get wrong.

It runs in this process; in one of its own where that is killed, or where the interpreter's exit or imports count.
"""

import contextlib
import dataclasses
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from by_hand import KNOWN
from by_hand import MARKS as MARKS_BY_HAND
from diver_command import diver, fails, succeeds
from in_this_process import runs_in_this_process
from rows import write_rows
from waiting import until

from diver.cli import browse, compare, grade, measure, train
from diver.cli import eval as eval_
from diver.cli.compare import CompareArguments
from diver.cli.main import COMMANDS, VERBS
from diver.cli.train import TrainArguments
from diver.core.extras import STUDIES, added
from diver.core.files import JsonlLog
from diver.core.settings import options
from diver.evaluate.config import EvalConfig
from diver.integrations.engines import APART, ENGINES, MARKS
from diver.methods import METHODS, method_named
from diver.pages.browse import Browse
from diver.pages.curves import meaning_of
from diver.recipe.load import load_recipe
from diver.recipe.recipe import flatten
from diver.rollouts.grade import GradeConfig
from diver.rollouts.measure import Measure
from diver.tasks.testbeds import policy_folder
from model_judge import command as judge
from model_judge.run import Judge

DIVER = [sys.executable, "-m", "diver"]
RECIPE = """
[model]
threads = 1
[sample]
group_size = 4
max_tokens = 28
max_prompt_tokens = 24
[train]
steps = 5
batch_size = 4
mini_batch_size = 2
learning_rate = 1e-4
save_steps = 2
[data.countdown]
problems = 64
[evaluate]
problems = 6
num_samples = 4
num_samples_in_training = 2
every = 2
"""


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    Path("tiny.toml").write_text(RECIPE)


def finish(*args):
    return succeeds("train", "tiny.toml", *args)


def metrics(folder):
    """The rows of metrics.jsonl without what a clock measured."""
    text = (Path(folder) / "metrics.jsonl").read_text()
    assert text.endswith("\n")
    return [{k: v for k, v in json.loads(line).items() if not k.startswith("time/")} for line in text.splitlines()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "tiny.toml").write_text(RECIPE)
    with contextlib.chdir(folder):
        out = finish()
    return folder / "runs" / "tiny", out


def test_the_run_folder(whole):
    run, out = whole
    config = json.loads((run / "config.json").read_text())
    assert config["recipe"]["train"]["steps"] == 5 and config["seed"] == 0 and config["versions"]["torch"]
    rows = metrics(run)
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4, 5]
    contract = (
        "reward/outcome reward/shaped diversity/textual diversity/equational shaping/coef shaping/clipped "
        "policy/entropy policy/clip_fraction group/solve_all group/solve_none advantage/solve_all_frac grade/correct "
        "grade/wrong grade/no_answer grade/truncated grade/timeout grade/error response/length_mean response/truncated"
    ).split()
    assert all(set(contract) <= set(row) for row in rows[1:])
    assert [("eval/pass@1" in row, "eval/pass@4" in row) for row in rows] == [
        (True, True), (False, False), (True, False), (False, False), (True, False), (True, True)
    ]  # fmt: skip
    first = json.loads((run / "metrics.jsonl").read_text().splitlines()[1])
    assert {"time/sample", "time/verify", "time/diversity", "time/update"} <= set(first)
    assert sorted(p.name for p in (run / "checkpoints").iterdir()) == ["step_0004", "step_0005"]
    rollouts = [json.loads(line) for line in (run / "rollouts" / "step_0003.jsonl").read_text().splitlines()]
    assert len(rollouts) == 16 and set(rollouts[0]) >= {
        "problem",
        "prompt",
        "response",
        "grade",
        "reward",
        "diversity",
        "advantage",
    }
    assert rollouts[0]["reward"]["total"] == sum(rollouts[0]["reward"][k] for k in ("outcome", "diversity", "length"))
    means = {
        "policy/entropy": np.average([r["entropy"] for r in rollouts], weights=[r["length"] for r in rollouts]),
        "reward/outcome": np.mean([r["reward"]["outcome"] for r in rollouts]),
        "reward/shaped": np.mean([r["reward"]["total"] for r in rollouts]),
        "grade/correct": np.mean([r["grade"] == "correct" for r in rollouts]),
        "grade/wrong": np.mean([r["grade"] == "wrong" for r in rollouts]),
        "response/length_mean": np.mean([r["length"] for r in rollouts]),
        "response/truncated": np.mean([r["truncated"] for r in rollouts]),
    }
    assert {name: rows[3][name] for name in means} == pytest.approx(means, rel=1e-4)
    assert (run / "report.html").stat().st_size > 10_000
    assert "first prompt:\nUse " in out and "Pass@4" in out and "report.html" in out
    assert out.startswith("method diver-mix, seed 0, engine built-in\n")
    when = re.findall(r"^(.+): countdown: 6 problems x (\d) samples: ", out, re.M)
    both = [("before training", "4"), ("after step 2", "2"), ("after step 4", "2"), ("after training", "4")]
    assert when == both and re.search(r"^\|  +\| +before training \| +after training \| +change   \|$", out, re.M)


def test_checkpoints_are_plain_hugging_face_folders(whole):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path = whole[0] / "checkpoints" / "step_0005"
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path)
    before = AutoModelForCausalLM.from_pretrained(policy_folder())
    assert tokenizer("Use 3")["input_ids"] == AutoTokenizer.from_pretrained(policy_folder())("Use 3")["input_ids"]
    assert not model.lm_head.weight.equal(before.lm_head.weight)


def test_rollouts_agree_with_the_pure_functions(whole):
    """What the run wrote is what the public functions give for the same responses."""
    import numpy as np

    from diver import equational_diversity, textual_diversity

    rows = [json.loads(line) for line in (whole[0] / "rollouts" / "step_0001.jsonl").read_text().splitlines()]
    for i in range(0, len(rows), 4):
        group = rows[i : i + 4]
        td = textual_diversity([r["response"] for r in group])
        ed = equational_diversity([r["response"] for r in group])
        assert np.allclose(td, [r["diversity"]["textual"] for r in group])
        rewarded = 0.1 * (np.minimum(td, 0.65) + np.minimum(ed, 0.65)) / 2 * [r["grade"] == "correct" for r in group]
        assert np.allclose(rewarded, [r["reward"]["diversity"] for r in group])
        total = np.array([r["reward"]["total"] for r in group])
        expected = (total - total.mean()) / total.std() if np.ptp(total) > 1e-8 else np.zeros(4)
        assert np.allclose(expected, [r["advantage"] for r in group])


def killed(folder, rows, *args):
    """A run that is killed (-9) when its metrics have so many rows."""
    process = subprocess.Popen(
        [*DIVER, "train", "tiny.toml", "--run.folder", folder, *args],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    path = Path(folder, "metrics.jsonl")
    until(lambda: path.exists() and path.read_text().count("\n") >= rows, process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with open(path, "a") as file:
        file.write('{"step": 99, "reward/ou')  # as if the kill had cut a row in half


@pytest.mark.slow
@pytest.mark.parametrize("rows_before_kill", [2, 4])
def test_killed_and_run_again_ends_with_the_same_metrics(whole, rows_before_kill):
    killed("killed", rows_before_kill)
    finish("--run.folder", "killed")
    assert metrics("killed") == metrics(whole[0])
    for step in range(1, 6):
        name = f"rollouts/step_{step:04d}.jsonl"
        assert (Path("killed") / name).read_bytes() == (whole[0] / name).read_bytes()


def test_a_finished_run_shows_its_summary_again_and_can_be_extended(whole):
    shutil.copytree(whole[0], "runs/tiny")
    before = Path("runs/tiny/metrics.jsonl").read_bytes()
    out = finish()
    assert "Pass@4" in out and "first prompt" not in out
    assert Path("runs/tiny/metrics.jsonl").read_bytes() == before
    out = finish("--train.steps", "6")
    assert "schedules run over the 5 steps" in out
    rows = metrics("runs/tiny")
    assert rows[:6] == metrics(whole[0])[:6] and rows[6]["step"] == 6 and rows[6]["shaping/coef"] == 0.0


def test_a_stopped_run_can_be_ended_at_its_last_checkpoint(whole):
    """Killed in step 5 of 5, then asked for 4: the policy of step 4,
    evaluated in training with 2 samples, is with all 4."""
    shutil.copytree(whole[0], "runs/tiny")
    shutil.rmtree("runs/tiny/checkpoints/step_0005")
    out = finish("--train.steps", 4)
    assert "resuming after step 4" in out and "Pass@4" in out
    rows, before = metrics("runs/tiny"), metrics(whole[0])[:5]
    assert rows[:4] == before[:4] and before[4].keys() - rows[4].keys() == set()
    assert rows[4].keys() - before[4].keys() == {"eval/pass@4", "eval/distinct@4"}
    assert [name for name in rows[4] if not meaning_of(name)] == ["step"]
    evaluation = json.loads(Path("runs/tiny/eval/step_0004.json").read_text())
    assert evaluation["samples"] == 4 and rows[4]["eval/pass@4"] == evaluation["estimates"]["pass@4"]["mean"]
    assert not Path("runs/tiny/eval/step_0005.json").exists()
    left = files("runs/tiny")
    assert "resuming" not in finish("--train.steps", 4) and files("runs/tiny") == left


def test_a_kill_before_the_oldest_checkpoint_was_deleted_leaves_none_too_many(whole):
    shutil.copytree(whole[0], "runs/tiny")
    checkpoints = Path("runs/tiny/checkpoints")
    for left in ("step_0002", ".step_0001.part"):
        shutil.copytree(checkpoints / "step_0004", checkpoints / left)
    finish()
    finish("--train.save_total_limit", 1)  # of a run that kept two
    assert sorted(os.listdir(checkpoints)) == ["step_0004", "step_0005"]


def files(folder):
    """Every file but the report, whose page is written again, and the lock."""
    kept = (p for p in Path(folder).rglob("*") if p.is_file() and p.name not in ("report.html", ".lock"))
    return {p.relative_to(folder): p.read_bytes() for p in kept}


def test_a_run_that_was_never_due_to_save_begins_again(whole):
    """Killed at step 5 of a run that saves after 50; then a smaller save_steps,
    which says nothing of the steps before."""
    shutil.copytree(whole[0], "runs/tiny")
    shutil.rmtree("runs/tiny/checkpoints")
    (Path("runs/tiny") / "report.html").unlink()
    path = Path("runs/tiny/config.json")
    config = json.loads(path.read_text())
    config["recipe"]["train"]["save_steps"] = 50
    path.write_text(json.dumps(config))
    finish("--train.steps", 6, "--train.save_steps", 1)
    assert [row["step"] for row in metrics("runs/tiny")][-1] == 6


def test_a_finished_run_without_its_checkpoints_shows_its_summary(whole):
    """Removing them to save space must not make the same command erase the run."""
    shutil.copytree(whole[0], "runs/tiny")
    shutil.rmtree("runs/tiny/checkpoints")
    before = files("runs/tiny")
    assert "Pass@4" in finish() and files("runs/tiny") == before
    assert "5 steps are done, but their checkpoints are gone" in fails("train", "tiny.toml", "--train.steps", 6)
    assert files("runs/tiny") == before
    out = finish("--train.steps", 1, "--restart")
    assert "runs/tiny: now runs/tiny.1" in out and files("runs/tiny.1") == before
    assert [row["step"] for row in metrics("runs/tiny")] == [0, 1]


def test_the_base_evaluation_is_never_that_of_a_trained_policy(whole):
    """As after a loss of power that kept a checkpoint and lost rows: refused, and nothing is changed."""
    shutil.copytree(whole[0], "runs/tiny")
    shutil.rmtree("runs/tiny/checkpoints/step_0005")
    lines = Path("runs/tiny/metrics.jsonl").read_text().splitlines(keepends=True)
    for kept, lost in (([], 0), (lines[1:], 0), (lines[:3], 3)):
        Path("runs/tiny/metrics.jsonl").write_text("".join(kept))
        before = files("runs/tiny")
        told = f"runs/tiny/metrics.jsonl: has no row of step {lost}, but there is a checkpoint of step 4"
        assert told in fails("train", "tiny.toml") and files("runs/tiny") == before


def test_flipped_bytes_of_a_checkpoint_are_no_divergence(whole):
    """Weights with a bit flipped load and train: only their checksum tells."""
    shutil.copytree(whole[0], "runs/tiny")
    saved = Path("runs/tiny/checkpoints/step_0005/model.safetensors")
    weights = bytearray(saved.read_bytes())
    weights[-5] ^= 64
    saved.write_bytes(weights)
    told = "step_0005: model.safetensors of this checkpoint has changed since it was saved; delete it to resume"
    assert told in fails("train", "tiny.toml", "--train.steps", 6)


def test_the_optimizer_of_another_step_is_refused(whole):
    shutil.copytree(whole[0], "runs/tiny")
    saved = Path("runs/tiny/checkpoints")
    (saved / "step_0005/checksums.json").unlink(missing_ok=True)  # as an earlier version wrote none
    shutil.copy(saved / "step_0004/trainer.pt", saved / "step_0005/trainer.pt")
    told = (
        "step_0005: this checkpoint cannot be read (its trainer.pt is of step 4); delete it to resume from the last one"
    )
    assert told in fails("train", "tiny.toml", "--train.steps", 6)


def test_what_a_checkpoint_has_behind_it_is_on_the_disk_before_it(monkeypatch):
    """A file counts with the bytes that it had when it was last synced; a checkpoint appears by its renaming."""
    synced, seen = {}, []
    fsync, replace = os.fsync, os.replace

    def sync(descriptor):
        fsync(descriptor)
        status = os.fstat(descriptor)
        synced[status.st_ino] = status.st_size

    def rename(source, target):
        replace(source, target)
        if Path(target).parent.name == "checkpoints" and not Path(target).name.startswith("."):
            durable = [p for p in files("runs/tiny") if synced.get((Path("runs/tiny") / p).stat().st_ino) is not None]
            whole = [
                p
                for p in durable
                if synced[(Path("runs/tiny") / p).stat().st_ino] == (Path("runs/tiny") / p).stat().st_size
            ]
            seen.append({str(p) for p in whole})

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", rename)
    finish("--train.steps", 2)
    (after,) = seen
    assert {"metrics.jsonl", "config.json", "rollouts/step_0001.jsonl", "rollouts/step_0002.jsonl"} <= after
    assert {
        "eval/step_0000.json",
        "checkpoints/step_0002/model.safetensors",
        "checkpoints/step_0002/trainer.pt",
    } <= after


def test_the_most_diverse_half_is_trained_on(whole):
    """2G are sampled, G of the highest mean of TD and ED are kept, and the outcome is over all that were sampled."""
    finish("--run.folder", "half", "--method.selection.keep", "most", "--train.steps", "2", "--evaluate.problems", "0")
    for step, row in enumerate(metrics("half"), start=1):
        sampled = [json.loads(line) for line in Path(f"half/rollouts/step_{step:04d}.jsonl").read_text().splitlines()]
        rollouts = [row for row in sampled if row["trained"]]
        assert (len(sampled), len(rollouts)) == (4 * 8, 4 * 4)  # four problems, G = 4
        assert row["reward/outcome"] * 32 == pytest.approx(round(row["reward/outcome"] * 32))
        kept = sum(sum(r["diversity"].values()) for r in rollouts) / 32
        assert kept == pytest.approx((row["diversity/textual"] + row["diversity/equational"]) / 2)
    diversity = [row["diversity/textual"] for row in (metrics("half")[0], metrics(whole[0])[1])]
    assert diversity[0] > diversity[1]


# One of each kind: outcomes, keys and state, log-probs, entropies, a loss, a selection, turns. All others are slow.
KINDS = {"pass-at-k", "kl-cov", "psr", "dapo", "ucpo", "darling", "outcome-ucb-mean", "siren", "diver-td", "gigpo"}
TRAINED = [pytest.param(m, marks=[pytest.mark.slow] * (m not in KINDS)) for m in METHODS if m != "diver-mix"]


@pytest.mark.parametrize("method", TRAINED)
def test_every_method_trains(method, request):
    flags = ("--method.k", "2") if hasattr(method_named(method), "k") else ()
    if method in ("evol-rl", "dra-grpo"):
        flags = ("--method.diversity.embedding.model", request.getfixturevalue("minilm").model)
    if method == "rep-exp":
        flags = ("--method.diversity.hidden_state.model", str(policy_folder()))
    if "turns" in method_named(method).needs:
        flags = ("--data.path", "environments:problems", "--data.verifier", "environments:Even")
        flags += ("--sample.max_tokens", "60")
    finish("--method", method, *flags, "--train.steps", "1", "--evaluate.problems", "0")
    (row,) = metrics("runs/tiny")
    assert row["policy/grad_norm"] > 0
    if method in KNOWN:
        assert (row["shaping/coef"] > 0) == method.startswith(("diver-", "cde", "rep-exp"))
        assert ("policy/selected_frac" in row) == (method in ("clip-cov", "kl-cov", "high-entropy", "siren"))
    assert row.get("policy/selected_frac", 1) > 0
    assert [name for name in row if not meaning_of(name)] == ["step"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["clip-cov", "rep-exp", "grpo"])
def test_what_is_drawn_is_the_same_after_a_stop(method):
    flags = ("--method", method, "--train.save_steps", "1", "--evaluate.problems", "0")
    if method == "rep-exp":
        flags += ("--method.diversity.hidden_state.model", str(policy_folder()), "--method.beta", "1")
    if method == "grpo":  # and a model with dropout
        shutil.copytree(policy_folder(), "dropout")
        config = json.loads(Path("dropout/config.json").read_text())
        Path("dropout/config.json").write_text(json.dumps(config | {"attention_dropout": 0.5}))
        finish("--run.folder", "plain", "--train.steps", "2", *flags)
        flags += ("--model.path", "dropout")
    for folder, steps in (("one", "2"), ("two", "1"), ("two", "2")):
        finish("--run.folder", folder, "--train.steps", steps, *flags)
    assert metrics("one") == metrics("two") and metrics("one")[1].get("policy/selected_frac", 1) > 0
    assert method != "grpo" or metrics("one")[0]["policy/grad_norm"] != metrics("plain")[0]["policy/grad_norm"]


def test_bfloat16_and_gradient_checkpointing_train(whole):
    finish("--run.folder", "low", "--model.precision", "bfloat16", "--model.gradient_checkpointing",
           "--train.steps", "1", "--evaluate.problems", "0")  # fmt: skip
    rows = metrics("low")
    assert all(row["policy/grad_norm"] > 0 and 0 < row["policy/logprob_mismatch"] < 0.1 for row in rows)


def test_tensorboard_gets_every_step(whole):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    finish("--run.folder", "board", "--log.to", "tensorboard", "--train.steps", "2", "--evaluate.problems", "0")
    events = event_accumulator.EventAccumulator("board/tensorboard")
    events.Reload()
    logged = {e.step: e.value for e in events.Scalars("reward/outcome")}
    assert logged == pytest.approx({row["step"]: row["reward/outcome"] for row in metrics("board")})


def test_wrong_input_is_one_line_and_code_2():
    Path("bad.toml").write_text("[train]\nsteps = 'x'")
    Path("rows.jsonl").write_text('{"problem": "1+1?", "answer": "2"}\n{"problem": "2+2?"}\n')
    Path("empty.jsonl").write_text("")
    Path("own.py").write_text(
        "from diver.methods import Method, settings\n"
        "@settings\nclass Asks(Method):\n    needs = frozenset({'gradients'})\n"
        "def grade(response, problem):\n    return True\n"
        "class Given(Method):\n"
        "    def advantages(self, group, context):\n        return [float('nan')] * len(group)\n"
        "@settings\nclass Few(Given):\n    def advantages(self, group, context):\n        return [1.0]\n"
        "@settings\nclass Floats(Given):\n    def rewards(self, group, context):\n        return [1.0] * len(group)\n"
        "Nan = settings(type('Nan', (Given,), {}))\n"
    )
    Path("folder").mkdir()
    shutil.copytree(policy_folder(), "no_tokenizer", ignore=shutil.ignore_patterns("tokenizer*"))
    Path("adapters").mkdir()
    Path("adapters/adapter_config.json").write_text("{}")
    small = ("--train.batch_size", 1, "--train.mini_batch_size", 1, "--evaluate.problems", 0)
    for args, told in [
        (("train", "none.toml"), "none.toml: no such file or folder in "),
        (("compare", ".", "none"), "none: no such file or folder"),
        (("train", "bad.toml"), "train.steps"),
        (("train", "tiny.toml", "--train.stps", 3), "train.stps: unknown key"),
        (("train", "tiny.toml", "--sample.group_size", 1), "sample.group_size: must be at least 2"),
        (
            ("train", "tiny.toml", "--train.mini_batch_size", 8),
            r"mini_batch_size \(8\) must divide batch_size \(4\)",
        ),
        (("train", "tiny.toml", "--data.path", "none.jsonl"), "none.jsonl: no such file"),
        (("train", "tiny.toml", "--data.path", "rows.jsonl", *small), "rows.jsonl:2: no answer"),
        (("train", "tiny.toml", "--data.path", "empty.jsonl", *small), "empty.jsonl.*(empty|no problem|no row)"),
        (("train", "tiny.toml", "--model.path", "no_tokenizer"), "no_tokenizer.*has no tokenizer .*; save"),
        (("train", "tiny.toml", "--model.path", "folder"), "folder.*has no config.json, no tokenizer .*, no weights"),
        (("train", "tiny.toml", "--sample.max_tokens", 90), "exceeds the 96 positions"),
        (("train", "tiny.toml", "--model", "adapters"), "'adapters': has LoRA adapters, and diver train trains whole"),
        (("train", "tiny.toml", "--train.batch_size", 128), "only 64"),
        (("train", "tiny.toml", "--data.template", "poem"), "poem"),
        (
            ("train", "tiny.toml", "--data.path", "rows.jsonl", "--data.verifier", "own:graed"),
            "data.verifier: 'own:graed'",
        ),
        (("train", "tiny.toml", "--method", "own:Asks"), "'own:Asks' needs gradients, which the built-in trainer does"),
        (("train", "tiny.toml", "--data.template", "chat"), "chat template"),
        (("train", "tiny.toml", "--method", "own:Nan"), "'own:Nan', problem .* must be 4 finite numbers, not .nan"),
        (("train", "tiny.toml", "--method", "own:Few"), "'own:Few', problem .* must be 4 finite numbers, not .1"),
        (("train", "tiny.toml", "--method", "own:Floats"), "'own:Floats', problem .*: rewards must give 4 Reward"),
        (("train", "tiny.toml", "--model.device", "gpu"), "model.device: should match pattern .*auto|cpu"),
        (("train", "tiny.toml", "--verify.workers", "-1"), "verify.workers: must be at least 0, not -1"),
        (("train", "tiny.toml", "--train.betas", 0.9, 1.0), "train.betas.1: should be less than 1"),
        (("train", "tiny.toml", "--train.betas", 0.9), "command line: train.betas.1: Field required"),
        (("train", "tiny.toml", "--jobs", 0), "command line: jobs: must be at least 1, not 0"),
        (("train", "tiny.toml", "--jobs", 2), "--jobs 2: is for the runs of --seeds, and this is one run"),
        (("train", "tiny.toml", "--run.seed", "-1"), "run.seed: must be at least 0, not -1"),
        (("train", "tiny.toml", "--run.seed=5", "--seeds", "0..3"), "--run.seed: the seeds are those of --seeds 0..3"),
        (("train", "--train.steps", 3), "name a recipe"),
        (("eval", "--smaples", 3), "command line: --smaples: unknown choice 'smaples', did you mean 'samples'"),
        (("eval", "--samples", "x"), "command line: samples: should be a valid integer.*'x'"),
        (("measure",), "name at least one|rollouts"),
        (("browse", "a", "--groups", "x"), "command line: groups: should be a valid integer.*'x'"),
        (
            ("train", "tiny.toml", "--engine", "verl", "--method.shaping.coeff", 1),
            "method.shaping.coeff: unknown key, did you mean 'coef'",
        ),
        (("train", "tiny.toml", "--sample.max_prompt_tokens", 1), "no problem is left to train on.*max_prompt_tokens"),
        (("trian", "tiny.toml"), "command: unknown choice 'trian', did you mean 'train'"),
        (("browse", "folder"), "folder"),
    ]:
        line = fails(*args)
        assert re.search(told, line), line
        if args[0] == "train" and not line.startswith("diver: command line: "):  # what the flags say is read once
            assert fails(*args, "--dry-run") == line
        assert not Path("runs").exists()


@pytest.mark.slow
def test_an_encoder_that_is_missing_is_told_before_the_first_step():
    pytest.importorskip("sentence_transformers")
    flags = ("--method", "dra-grpo", "--method.diversity.embedding.model", "nowhere")
    for more in ((), ("--dry-run",)):
        assert "embedding.model 'nowhere': cannot be loaded" in fails("train", "tiny.toml", *flags, *more)
        assert not Path("runs").exists()


def test_a_verifier_that_fails_on_every_response_stops_the_run():
    Path("broken.py").write_text("def grade(response, problem):\n    raise KeyError('level')\n")
    flags = ("--data.verifier", "broken:grade", "--evaluate.problems", "0")
    line = fails("train", "tiny.toml", *flags)
    assert "verifier broken:grade: failed on all 16 responses; the log above says how" in line
    assert not Path("runs/tiny/metrics.jsonl").exists()


def test_a_verifier_that_fails_wherever_it_is_asked_stops_the_run():
    """A response that was cut and that it does not see must not count as a grade. With four numbers, all are cut."""
    verifier = "def grade(response, problem):\n    raise KeyError('level')\n\ngrade.sees_truncated = False\n"
    Path("blind.py").write_text(verifier)
    mix = ("--data.countdown.mix", "three", 0.5, "four", 0.5, "--run.seed", 1, "--sample.max_tokens", 20)
    line = fails("train", "tiny.toml", "--data.verifier", "blind:grade", "--evaluate.problems", 0, *mix)
    assert "failed on all 8 responses; 8 others were cut off at the length limit; the log above says how" in line, line


def test_failures_of_a_verifier_count_over_batches():
    """With four numbers responses are cut, so few batches have enough failures to stop a run."""
    verifier = "def grade(response, problem):\n    raise KeyError\n\ngrade.sees_truncated = False\n"
    Path("sightless.py").write_text(verifier)
    mix = ("--data.countdown.mix", "three", 0.5, "four", 0.5, "--run.seed", 1, "--sample.max_tokens", 18)
    sizes = ("--train.batch_size", 2, "--train.mini_batch_size", 2, "--sample.group_size", 2, "--train.steps", 8)
    line = fails("train", "tiny.toml", "--data.verifier", "sightless:grade", "--evaluate.problems", 0, *mix, *sizes)
    assert re.search(r"failed on all (8|9|1\d) responses; \d+ others were cut off at the length limit", line), line


def test_a_verifier_that_takes_the_known_answer_for_wrong_is_a_note():
    """Here it takes the Problem for the answer; nothing can say that this is not meant."""
    rows = [{"problem": f"{i} + 1?", "answer": str(1 + i)} for i in range(8)]
    write_rows(Path("sums.jsonl"), rows)
    Path("judges.py").write_text(
        "def strict(response, answer):\n    return response == answer\n"
        "def right(response, problem):\n    return problem.answer in response\n"
        "def broken(response, problem):\n    raise KeyError('level')\n"
    )
    flags = ("--data", "sums.jsonl", "--evaluate.problems", "0", "--dry-run", "--data.verifier")
    for name, told in (("strict", "the grade wrong"), ("broken", "the grade error"), ("right", None)):
        code, _, err = diver("train", "tiny.toml", *flags, f"judges:{name}")
        assert code == 0 and (told in err if told else "the grade" not in err), err
        assert f"verifier judges:{name}: also judges responses cut at the length limit" in err
        assert ("whose answer is problem.answer" in err) == bool(told)


def test_a_selection_that_leaves_no_signal_is_refused_before_the_first_step():
    """Correct responses alone have equal rewards; DIVER still tells them apart, and psr does not compare them."""
    for method in ("clip-higher", "rs-grpo", "max-rl"):
        line = fails("train", "tiny.toml", "--method", method, "--method.selection.outcomes", "correct", "--dry-run")
        assert f"method '{method}': selection.outcomes = 'correct' leaves responses with equal rewards" in line
    for method in ("diver-mix", "psr"):
        flags = ("--method", method, "--method.selection.outcomes", "correct")
        assert diver("train", "tiny.toml", *flags, "--dry-run").returncode == 0


@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        (
            *("short", "    def advantages(self, group):\n        return [0.0]\n"),
            r"'short:Own': TypeError: Own\.advantages\(\) takes 2 positional arguments but 3 were given$",
        ),
        (
            *("raises", "    def advantages(self, group, context):\n        return {}['x']\n"),
            r"method 'raises:Own', problem '.+': KeyError: 'x' \(.*/raises\.py:7\)$",
        ),
        (  # the error arises in a file of this package
            *("package", "    def rewards(self, group, context):\n        return [group.rollouts[0].replace(x=1)]\n"),
            r"method 'package:Own', problem '.+': TypeError: .+ \(.*/package\.py:7\)$",
        ),
        (  # and in one of NumPy
            *(
                "stacks",
                "    def advantages(self, group, context):\n        import numpy\n        return numpy.stack([])\n",
            ),
            r"method 'stacks:Own', problem '.+': ValueError: .+ \(.*/stacks\.py:8\)$",
        ),
        (
            "sets",
            "    def update_state(self, group, state):\n        state['seen'] = {1}\n",
            "its state changes when it is saved as JSON",
        ),
        (
            "arrays",
            "    def update_state(self, group, state):\n        import numpy\n        state['seen'] = numpy.zeros(3)\n",
            "its state changes when it is saved as JSON",
        ),
        (
            "keys",
            "    def update_state(self, group, state):\n        state['seen'] = {1: 2}\n",
            "its state changes when it is saved as JSON",
        ),
    ],
)
def test_what_a_method_of_ones_own_does_wrong_is_one_line_before_the_first_step(name, body, told):
    head = (
        "from diver.methods.grpo import Grpo\nfrom diver.core.settings import settings\n\n@settings\nclass Own(Grpo):\n"
    )
    Path(f"{name}.py").write_text(head + body)
    line = fails("train", "tiny.toml", "--method", f"{name}:Own", "--dry-run")
    assert re.search(told, line), line


def test_code_of_ones_own_that_changed_since_the_run_began_is_told():
    """Not refused: a mistake in it may have been mended."""
    flags = ("--data.verifier", "lenient:right", "--evaluate.problems", 0)
    Path("lenient.py").write_text("def right(response, problem):\n    return True\n")
    told = "runs/tiny: the file of lenient:right has changed since this run began with another one\n"
    for steps, body in ((1, "True"), (2, "True"), (3, "False")):
        Path("lenient.py").write_text(f"def right(response, problem):\n    return {body}\n")
        code, _, err = diver("train", "tiny.toml", *flags, "--train.steps", steps)
        assert code == 0 and (told in err) == (body == "False"), err


def test_a_policy_that_diverges_is_reported_and_its_weights_are_not_saved():
    flags = ("--train.learning_rate", "1e30", "--train.save_steps", "1", "--evaluate.problems", "0")
    code, _, err = diver("train", "tiny.toml", *flags)
    assert code == 2 and "diverged" in err.strip().splitlines()[-1]
    assert not [*Path("runs/tiny").glob("checkpoints/*")]


def test_another_recipe_in_a_used_folder_is_refused(whole):
    shutil.copytree(whole[0], "runs/tiny")
    before = {p: p.read_bytes() for p in Path("runs/tiny").rglob("*") if p.is_file()}
    line = fails("train", "tiny.toml", "--method.name", "grpo")
    assert "another recipe" in line and "method" in line
    line = fails("train", "tiny.toml", "--seeds", "0..1")
    assert "runs/tiny: is the folder of one run; choose another run.folder for those of --seeds" in line
    assert {p: p.read_bytes() for p in Path("runs/tiny").rglob("*") if p.is_file()} == before


@pytest.mark.slow
def test_a_full_disk_is_told_and_the_run_goes_on_when_there_is_room(whole):
    """A real limit: no file of this process may pass 3 MB, and the weights have 3.6.

    The run is without evaluations, which change nothing in the training.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, before[1]))
    try:
        code, _, err = diver("train", "tiny.toml", "--run.folder", "full", "--evaluate.problems", 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    last = err.strip().splitlines()[-1]
    assert code == 2 and "could not be saved" in last and "same command again" in last
    finish("--run.folder", "full", "--evaluate.problems", 0)
    rows = [{k: v for k, v in row.items() if not k.startswith("eval/")} for row in metrics(whole[0])]
    assert metrics("full") == rows[1:]


def test_a_loss_that_is_named_keeps_no_bound_of_the_recipes_other_loss():
    """The clip of GRPO, 0.28, is 700 times the bound of GSPO."""
    Path("own.toml").write_text(RECIPE + "[method]\nname = 'grpo'\n[method.loss]\nclip_high = 0.28\nkl_coef = 0.01\n")
    flags = ("--train.steps", 1, "--evaluate.problems", 0, "--method.loss.name", "gspo")
    code, _, err = diver("train", "own.toml", *flags, "--method.loss.kl_coef", "0.02")
    told = "own.toml: method.loss.clip_high not used: the command line gives others\n"
    assert code == 0 and err.startswith(told)
    loss = json.loads(Path("runs/own/config.json").read_text())["recipe"]["method"]["loss"]
    assert (loss["clip_high"], loss["kl_coef"]) == (4e-4, 0.02)


def test_a_baseline_keeps_nothing_of_the_recipes_own_diversity_reward():
    own = (
        "[method]\nname = 'diver-mix'\n[method.shaping]\ncoef = 0.9\n[method.diversity_rewards.textual]\n"
        "clip_max = 0.9\n"
    )
    Path("own.toml").write_text(RECIPE + own)
    flags = ("--train.steps", 1, "--evaluate.problems", 0)
    code, _, err = diver("train", "own.toml", *flags, "--method", "clip-higher")
    unused = "method.shaping.coef, method.diversity_rewards.textual.clip_max"
    told = f"own.toml: {unused} not used: the command line gives others\n"
    assert code == 0 and err.startswith(told)
    assert diver("train", "own.toml", *flags, "--run.folder", "rewarded")[0] == 0
    for run, extra in (("runs/own", False), ("rewarded", True)):
        rows = [row for path in Path(run, "rollouts").glob("*.jsonl") for row in map(json.loads, path.open())]
        shaped = [row["reward"]["total"] != float(row["grade"] == "correct") for row in rows]
        assert len(rows) == 16 and any(shaped) == extra


def test_an_unchanged_policy_shows_a_change_of_exactly_0():
    """Base and trained are evaluated on the same random streams; a learning rate of 0 leaves the weights."""
    finish("--train.learning_rate", 0, "--train.steps", 2, "--evaluate.every", 1, "--sample.max_num_seqs", 7)
    base, between, trained = (json.loads(Path(f"runs/tiny/eval/step_000{step}.json").read_text()) for step in (0, 1, 2))
    for few, many in zip(between["per_problem"], base["per_problem"], strict=True):  # 2 of the same 4 samples
        assert (few["n"], many["n"]) == (2, 4) and few["c"] <= many["c"] <= few["c"] + 2
    assert base["per_problem"] == trained["per_problem"] and base["estimates"] == trained["estimates"]
    assert 0 < base["estimates"]["pass@1"]["mean"] < 1 and {"pass@4", "distinct@4"} <= base["estimates"].keys()
    first, last = metrics("runs/tiny")[0], metrics("runs/tiny")[-1]
    assert {k: v for k, v in first.items() if k.startswith("eval/")} == {
        k: last[k] for k in first if k.startswith("eval/")
    }
    _, out, _ = diver("compare", "runs/tiny/eval/step_0000.json", "runs/tiny/eval/step_0002.json")
    for name in ("Pass@4", "Distinct@4"):
        assert re.search(rf"{name} .* \+0\.0 \[-([\d.]+), \1\]   \|", out), out


@pytest.mark.parametrize("step", [pytest.param(0, marks=pytest.mark.slow), 5])
def test_a_killed_evaluation_continues_without_drawing_anew(whole, monkeypatch, step):
    """Stopped after 9 of 24 responses, before or after training: the same numbers as an uninterrupted run."""
    appended = JsonlLog.append

    def append(log, row):
        appended(log, row)
        if log.path.name == f"step_000{step}.generations.jsonl" and len([*log.rows()]) == 9:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(JsonlLog, "append", append)
        assert diver("train", "tiny.toml")[0] == 130
    stored = Path(f"runs/tiny/eval/step_000{step}.generations.jsonl")
    before = stored.read_text()
    out = finish()
    assert stored.read_text().startswith(before) and len(stored.read_text().splitlines()) == 24
    assert "countdown: 6 problems x 4 samples; 15 responses to sample, of up to 28 tokens" in out
    assert "what is left takes about" not in out  # all come at once, and nothing can be told before
    assert "15 sampled, 9 stored before; 24 graded" in out
    assert metrics("runs/tiny") == metrics(whole[0])


def test_responses_of_other_weights_are_not_taken(whole):
    """A run that is trained again up to an evaluation may differ on a GPU; there its responses are drawn anew."""
    shutil.copytree(whole[0], "runs/tiny")
    rows = [json.loads(line) for line in Path("runs/tiny/eval/step_0005.generations.jsonl").read_text().splitlines()]
    write_rows(Path("runs/tiny/eval/step_0000.generations.jsonl"), rows)
    shutil.rmtree("runs/tiny/checkpoints")
    Path("runs/tiny/metrics.jsonl").unlink()
    assert "24 sampled, 0 stored before; 0 graded" in finish("--train.steps", 1)
    assert metrics("runs/tiny")[0] == metrics(whole[0])[0]


def test_dry_run_prints_a_recipe_that_gives_the_same_run_and_writes_nothing():
    flags = ("--method.name", "clip-higher", "--log.project", 'a "b" \\ é\n', "--evaluate.source.path", "countdown")
    printed = finish("--dry-run", *flags)
    changes = tomllib.loads(printed)
    assert changes["train"] == tomllib.loads(RECIPE)["train"] and changes["method"] == {"name": "clip-higher"}
    assert {*changes} == {"run", "model", "data", "sample", "method", "train", "evaluate", "log"}
    assert changes["log"]["project"] == 'a "b" \\ é\n' and changes["run"]["folder"] == "runs/tiny"
    Path("again.toml").write_text(printed)
    assert succeeds("train", "again.toml", "--dry-run") == printed
    assert load_recipe(Path("again.toml")) == load_recipe(Path("tiny.toml"), flags)
    assert tomllib.loads(finish("--dry-run", "--trl.lora_rank", 4))["trl"]["lora_rank"] == 4
    seeds = finish("--dry-run", "--seeds", "0,2")
    assert tomllib.loads(seeds)["train"]["steps"] == 5
    assert seeds.splitlines()[-2:] == ["#   runs/tiny/seed_0", "#   runs/tiny/seed_2"]
    assert not Path("runs").exists()


def test_dry_run_shows_the_first_prompt_as_the_model_reads_it():
    """With what a chat template adds, here a special token."""
    from transformers import AutoTokenizer

    shutil.copytree(policy_folder(), "chat")
    opening = AutoTokenizer.from_pretrained("chat").all_special_tokens[0]
    Path("chat/chat_template.jinja").write_text(opening + "{{ messages[-1].content }}")
    write_rows(Path("sums.jsonl"), [{"problem": f"Use {i}", "answer": "3"} for i in range(1, 9)])
    flags = (
        "--data",
        "sums.jsonl",
        "--model",
        "chat",
        "--evaluate.problems",
        0,
        "--data.template",
        "chat",
        "--dry-run",
    )
    err = diver("train", "tiny.toml", *flags).stderr
    assert f"first prompt, 3 tokens, as the model reads it:\n{opening}Use 1\n" in err, err


def test_everything_that_is_wrong_is_told_at_once():
    Path("wrong.toml").write_text(
        "[train]\nstps = 3\nsteps = 0\n[sample]\ngroup_size = 1\n[modle]\n[method]\nname = 'divr-mix'\n"
        "[model.chat_template_kwargs]\na = [1]\n"
    )
    code, out, err = diver("train", "wrong.toml", "--dry-run")
    lines = [line.removeprefix("diver: wrong.toml: ").partition(",")[0] for line in err.splitlines()]
    assert (code, out) == (2, "") and lines == [
        "section: unknown choice 'modle'",
        "model.chat_template_kwargs.a: should be a valid boolean",
        "sample.group_size: must be at least 2",
        "method.name: unknown choice 'divr-mix'",
        "train.steps: must be at least 1",
        "train.stps: unknown key",
    ]
    lines = diver("train", "tiny.toml", "--train.stps", 3, "--lr", 1).stderr.splitlines()
    assert [line.partition(": ")[2][:28] for line in lines] == [
        "command line: train.stps: un",
        "command line: '--lr': did yo",
    ]
    Path("empty").mkdir()
    write_rows(Path("mine/other.jsonl"), [])
    flags = ("--data", "none.jsonl", "--model", "empty", "--run.folder", "mine", "--log.to", "trackio")
    for more in ((), ("--dry-run",)):
        lines = diver("train", "tiny.toml", *flags, *more).stderr.splitlines()
        told = [
            "mine: has files but no config.json",
            "log.to: trackio",
            "none.jsonl: no such file",
            "'empty': the folder has no config.json",
        ]
        told = told if more else told[:1]
        assert len(lines) == len(told) and all(words in line for words, line in zip(told, lines, strict=True)), lines


def test_what_cannot_be_checked_without_a_network_is_a_note(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    code, out, err = diver("train", "tiny.toml", "--model.path", "owner/name", "--dry-run")
    assert code == 0 and tomllib.loads(out)["model"]["path"] == "owner/name"
    assert "duration: --estimate measures it" in err
    assert re.search("^not checked: model.path owner/name: the hub .* cannot be reached", err)
    assert "cannot be reached" in fails("train", "tiny.toml", "--model.path", "owner/name")


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory):
    """The folder of `--seeds 0,1` with evaluations, and what the command printed."""
    folder = tmp_path_factory.mktemp("seeds")
    (folder / "tiny.toml").write_text(RECIPE)
    with contextlib.chdir(folder), runs_in_this_process():
        return folder / "runs" / "tiny", finish("--seeds", "0,1", "--train.steps", 2, "--evaluate.every", 0)


def test_the_result_of_each_seed_is_in_the_console(two_seeds):
    """One headline a seed, before the table over both; the first line says what is trained."""
    _, out = two_seeds
    assert out.startswith("method diver-mix, seeds 0, 1, engine built-in\n")
    for seed in (0, 1):
        assert re.search(rf"^seed_{seed}: After 2\xa0?steps, Pass@1", out.replace(" steps", "\xa0steps"), re.M), out
    assert out.index("seed_1: ") < out.index("| variant ")


@pytest.mark.parametrize(
    "processes", [runs_in_this_process, pytest.param(contextlib.nullcontext, marks=pytest.mark.slow)]
)
def test_alerts_and_what_taught_nothing_are_in_the_console_for_each_seed(processes):
    """Every grade is wrong, so no group has a difference to learn from. Seed 3 begins after the end of seed 0."""
    Path("hopeless.py").write_text("def wrong(response, problem):\n    return False\n")
    flags = ("--data.verifier", "hopeless:wrong", "--evaluate.problems", 0, "--seeds", "0,3", "--train.steps", 5)
    with processes():
        lines = finish(*flags).splitlines()
    places = []
    for seed in (0, 3):
        why = "so nothing was learned: in 100% of the groups no response was correct"
        start = f"seed_{seed}: step 5: Steps without a gradient. "
        places += [i for i, line in enumerate(lines) if line.startswith(start)]
        ends = f"seed_{seed}: None of the 5 steps had a gradient, {why}; "
        places += [i for i, line in enumerate(lines) if line.startswith(ends)]
        assert any(re.match(rf"seed_{seed}: .+ \(steps 1–5\)\. ", line) for line in lines), lines
    assert places == sorted(places) and len(places) == 4


def test_the_folder_of_several_seeds_is_known_to_every_command(two_seeds):
    shutil.copytree(two_seeds[0], "runs/tiny")
    shutil.rmtree("runs/tiny/seed_1/checkpoints")
    Path("runs/tiny/seed_1/report.html").unlink()
    told = "diver: runs/tiny: is a folder of several runs, such as seed_0; choose another run.folder, or continue them"
    for flags in ((), ("--dry-run",)):
        assert fails("train", "tiny.toml", *flags) == f"{told} with --seeds"
    assert "(2 seeds)" in succeeds("compare", "runs/tiny")
    file = "runs/tiny/seed_0/eval/step_0002.json"
    assert fails("compare", "runs/tiny", file).startswith(f"diver: {file} is an evaluation and runs/tiny is not: ")
    out = succeeds("browse", "runs/tiny").splitlines()
    assert [line.partition(": ")[0] for line in out] == [
        "runs/tiny/seed_0",
        "runs/tiny/seed_1",
        "runs/tiny/report.html",
    ]
    assert Path("runs/tiny/report.html").read_text().count('<th scope="row">') >= 2
    with runs_in_this_process():
        err = diver("train", "tiny.toml", "--seeds", "0,1", "--train.steps", 2, "--evaluate.every", 0).stderr
    assert "runs/tiny/seed_1: goes on at step 1, since there is no checkpoint; steps 1 to 2 are done again" in err


def test_a_dry_run_checks_the_folder(whole):
    shutil.copytree(whole[0], "runs/tiny")
    assert "has a run of another recipe" in fails("train", "tiny.toml", "--run.seed", 1, "--dry-run")
    assert (
        tomllib.loads(finish("--run.seed", 1, "--dry-run", "--restart"))["run"]["seed"] == 1
    )  # and the run is left as it is
    Path("notes.txt").write_text("")
    for folder, flags in (("notes.txt", ()), ("notes.txt/many/runs", ("--dry-run",))):
        assert "no folder can be made here" in refused(folder, *flags)
    for words in (("compare", "runs/tiny"), ("compare", *sorted(Path("runs/tiny/eval").glob("step_*[0-9].json")))):
        line = diver(*words, "--out", "notes.txt").stderr.splitlines()[-1]
        assert line == "diver: notes.txt: no folder can be made here, notes.txt is a file; name another"


def refused(folder, *flags):
    line = fails("train", "tiny.toml", "--run.folder", folder, *flags)
    assert line.startswith(f"diver: {folder}")
    return line


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc, where nobody can make a folder")
def test_a_folder_that_cannot_be_made(whole):
    for flags in ((), ("--dry-run",), ("--seeds", "0..1")):
        assert "no folder can be made here" in refused("/proc/run", *flags)
    shutil.copytree(whole[0], "runs/tiny")
    for words in (("compare", "runs/tiny"), ("compare", *sorted(Path("runs/tiny/eval").glob("step_*[0-9].json")))):
        assert diver(*words, "--out", "/proc").stderr.splitlines()[-1].startswith("diver: /proc/")


def test_help_teaches():
    code, out, _ = diver("train", "--help")
    assert code == 0 and "--sample.group_size INT" in out and "--method.shaping.coef FLOAT" in out
    code, out, _ = diver("train", "--engine", "verl", "--help", "all")
    assert code == 0 and "--problems_only" in out and "actor_rollout_ref.rollout.n" in out
    code, out, _ = diver("--help")
    listed = [line for line in out.splitlines() if line.startswith("  ")]
    assert code == 0 and [line.split()[0] for line in listed] == [*VERBS, *added(COMMANDS)]
    assert len({len(re.match(r"  \S+ +", line)[0]) for line in listed}) == 1  # the second column is one


def test_methods_are_listed_with_their_engines():
    code, out, _ = diver("methods")
    shown = out.splitlines()
    assert code == 0 and all(len(line) <= 120 for line in shown)
    apart = shown.index(APART)
    tables = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown if line.startswith("| ")]
    assert tables[0] == ["method", "what it changes", "part", "Pass@1", "Pass@64", "time", "engines"]
    rows = {row[0].partition(" (")[0]: row[1:] for row in tables if set(row[0]) != {"-"} and row[0] != "method"}
    assert [*rows] == [*METHODS] and shown[apart + 4].split("|")[1].strip() == "bbg"
    assert {row.split("|")[1].strip() for row in shown[apart + 4 :] if row.startswith("| ")} == {*STUDIES["methods"]}
    assert {name: " ".join(rows[name][-1]) for name in KNOWN} == MARKS_BY_HAND
    assert rows["clip-cov"] == ["Drops some tokens of high covariance", "loss", "", "", "", "B.DV....A"]
    assert rows["diver-mix"][:2] == ["Bonus for other words and formulas", "reward"]
    assert "| diver-mix (default) |" in out and "| clip-higher (start) |" in out
    assert [*MARKS] == [*ENGINES] and len({*MARKS.values()}) == len(MARKS)
    assert "\nB built-in, T TRL, D DiverTrainer, V verl, M ms-swift, S slime, K SkyRL, C tinker-cookbook," in out


def facts(out):
    """What `diver methods NAME` says of source, loss and so on, which the table of methods leaves out."""
    return dict(re.findall(r"^  (source|loss|needs|zero mean|engines) +(.*)$", out, re.M))


def test_a_method_is_shown_with_its_formula_source_needs_defaults_and_engines():
    out = succeeds("methods", "clip-cov")
    carried = {"engines": "built-in, DiverTrainer, verl, diver.advantages"}
    told = {"source": "arXiv 2505.22617", "loss": "clip-cov 1 / 1", "needs": "outcomes", "zero mean": "yes"}
    assert facts(out) == told | carried
    text = " ".join(out.split())
    assert "A_i = (r_i - mean) / std over the group" in text and "chosen at random among the candidates" in text
    out = succeeds("methods", "diver-mix", "pkpo")
    mix, pkpo = out.split("\n\npkpo\n")
    formula = "r'_i = r_i + lambda_t clip(gamma^T d_i, 0, sigma) I(r_i) (Eqs. 8 and 9, section 3.5)"
    assert formula in " ".join(mix.split())
    assert facts(mix)["needs"] == "responses" and "not run by" not in mix
    assert f" engines {', '.join(ENGINES)} " in " ".join(mix.split())
    default = dataclasses.asdict(method_named("diver-mix"))
    for key, value in flatten({"method": default}).items():
        if key != "method.name" and not key.startswith("method.diversity_rewards."):
            assert f"--{key}" in mix, key
            if isinstance(value, int | float) and not isinstance(value, bool):
                text = re.search(rf"--{re.escape(key)} .*?Default:\s+(\S+)\.(\n|$)", mix, re.S)[1]
                assert float(text) == value, key
    assert facts(pkpo)["zero mean"] == "no"
    refused = pkpo.partition("not run by:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^  (\S+)  ", refused, re.M) == ["TRL", "ms-swift", "tinker-cookbook"]
    words = " ".join(refused.split())
    assert "its advantages do not sum to 0 in a group, and tinker-cookbook subtracts their mean" in words


HELP = [(verb, "--help", *more) for verb in (*VERBS, *added(COMMANDS)) for more in ((), ("all",))]
ENGINE_HELP = [("train", "--engine", engine, "--help", "all") for engine in ("trl", "verl")]


@pytest.mark.parametrize("words", [*HELP, *ENGINE_HELP, *(("methods", name) for name in METHODS)], ids=" ".join)
def test_help_fits_and_its_sentences_are_short(words, monkeypatch):
    """No line is wider than the terminal, and no sentence has more than 30 words or one interval."""
    monkeypatch.setenv("COLUMNS", "100")
    lines = succeeds(*words).splitlines()
    assert max(map(len, lines)) <= 100
    assert 5 < len(lines) <= {("train", "--help"): 60, ("eval", "--help"): 50}.get(words, 600)
    parts = re.split(r"\n\n|\n(?=  ?\S)", "\n".join(lines))  # paragraphs, and options with their meanings
    texts = [" ".join(text.split()) for part in parts for text in re.split(r"(?<=\S)\s{3,}", part, maxsplit=1)]
    for sentence in (sentence for text in texts for sentence in re.split(r"(?<=[.?!]) ", text)):
        assert len(sentence.split()) <= 30, sentence
        assert not sentence.startswith("Of ") and "None" not in sentence, sentence
        assert len(re.findall(r"±|\[[-+]?\d", sentence)) <= 1, sentence
    monkeypatch.setenv("COLUMNS", "60")
    wide = [line for line in succeeds(*words).splitlines() if len(line) > 60]
    assert all(line.startswith(("usage: ", "    diver ")) or len(line.split()) <= 2 for line in wide), wide


def test_the_short_help_names_only_options_that_there_are():
    """A renamed key would silently leave the screen."""
    for verb, settings in (
        (train, TrainArguments()), (eval_, EvalConfig), (compare, CompareArguments), (grade, GradeConfig),
        (measure, Measure), (browse, Browse), (judge, Judge),
    ):  # fmt: skip
        known = {option.key for option in options(settings)}
        assert {key for keys in verb.COMMON.values() for key in keys.split()} <= known, verb.__name__


def test_a_method_of_ones_own_is_shown_with_the_reasons_and_without_an_engine():
    Path("listed.py").write_text(
        "from diver.methods import Method, settings\n"
        '@settings\nclass Mine(Method):\n    """Mine,\n    of 0.5. And more."""\n    needs = frozenset({"logprobs"})\n'
    )
    program = "import sys; from diver.cli import main; main(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, "methods", "listed:Mine"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    out, _, modules = done.stdout.rstrip().rpartition("\n")
    assert out.startswith("listed:Mine\n\nMine, of 0.5. And more.\n\n")
    told = {"loss": "clip 0.2 / 0.28", "needs": "logprobs", "zero mean": "no"}
    assert facts(out) == told | {"engines": "built-in, DiverTrainer, verl, slime, SkyRL, diver.advantages"}
    words = " ".join(out.split())
    assert "not run by: TRL method 'listed:Mine' needs logprobs, which TRL does not provide" in words
    assert "its advantages do not sum to 0 in a group, and tinker-cookbook subtracts their mean" in words
    assert not {"torch", "accelerate", "trl", "verl"} & set(modules.split())
    assert "unknown choice 'mine'; choices: grpo" in fails("methods", "mine")


def test_a_package_adds_a_command(tmp_path, monkeypatch):
    (tmp_path / "mine-1.0.dist-info").mkdir()
    (tmp_path / "mine-1.0.dist-info" / "METADATA").write_text("Name: mine\nVersion: 1.0\n")
    (tmp_path / "mine-1.0.dist-info" / "entry_points.txt").write_text("[diver.commands]\nmine = mine_command:run\n")
    (tmp_path / "mine_command.py").write_text('def run(args):\n    """Do mine.\n\n    At length."""\n    print(args)')
    monkeypatch.syspath_prepend(tmp_path)
    assert diver("mine", "a", "--b") == (0, "['a', '--b']\n", "")
    assert "\n  mine      Do mine.\n" in diver("--help")[1]
    assert "choices: train, sweep, eval, blend, compare, grade, measure, browse, methods, judge, mine, " in fails(
        "thine"
    ) and "mine" in fails("thine")


@pytest.mark.parametrize(
    "error, told",
    [
        ("ImportError('x.so: failed to map segment from shared object')", "x.so: failed to map segment"),
        ("ImportError('libx.so.0: cannot allocate memory in static TLS block')", "libx.so.0: cannot allocate"),
        ("MemoryError()", "MemoryError"),
    ],
)
def test_too_little_memory_to_load_a_library_is_one_line(tmp_path, monkeypatch, error, told):
    """As under `ulimit -v`. The loader's words are written here, since machines differ in what they need."""
    (tmp_path / "mine-1.0.dist-info").mkdir()
    (tmp_path / "mine-1.0.dist-info" / "METADATA").write_text("Name: mine\nVersion: 1.0\n")
    (tmp_path / "mine-1.0.dist-info" / "entry_points.txt").write_text("[diver.commands]\nlarge = large_command:run\n")
    (tmp_path / "large_command.py").write_text(f"raise {error}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "large_command", raising=False)
    assert fails("large").startswith(f"diver: not enough memory ({told}")
    (tmp_path / "large_command.py").write_text("raise ImportError('cannot import name x')")
    with pytest.raises(ImportError, match="cannot import name x"):
        diver("large")


def test_python_m_diver_is_the_command_and_begins_without_torch():
    wrong = subprocess.run([*DIVER, "trian"], capture_output=True, text=True)
    assert wrong.returncode == 2 and wrong.stderr.startswith("diver: command: unknown choice 'trian'")
    program = "import sys; sys.argv = ['diver', '--help']; from diver.cli import main; main(); print({*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and "  train " in done.stdout
    assert not {"torch", "pandas", "transformers"} & set(re.findall(r"'(\w+)'", done.stdout))
