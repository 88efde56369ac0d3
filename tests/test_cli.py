"""The real command, on the bundled policy made to work little: a run, its folder, kill -9, and everything users get wrong."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from diver import cli
from diver.data.countdown import policy_folder

DIVER = [sys.executable, "-c", "from diver.cli import main; main()"]
RECIPE = """
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


def start(*args):
    return subprocess.Popen(
        [*DIVER, "train", "tiny.toml", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(*args):
    process = start(*args)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out, err


def fails(capsys, monkeypatch, *args):
    """Exit code 2 and one line, from the command in this process."""
    monkeypatch.setattr(sys, "argv", ["diver", *map(str, args)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    line = capsys.readouterr().err.strip()
    assert stop.value.code == 2 and line.count("\n") == 0 and line.startswith("diver: "), line
    return line


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
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*DIVER, "train", "tiny.toml"], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "tiny", done.stdout


def test_the_run_folder(whole):
    run, out = whole
    config = json.loads((run / "config.json").read_text())
    assert config["recipe"]["train"]["steps"] == 5 and config["seed"] == 0 and config["versions"]["torch"]
    rows = metrics(run)
    assert [row["step"] for row in rows] == [0, 1, 2, 3, 4, 5]
    contract = (
        "reward/outcome reward/shaped diversity/textual diversity/equational shaping/coef shaping/clipped policy/entropy "
        "policy/clip_fraction group/solve_all group/solve_none grade/correct grade/wrong grade/no_answer "
        "grade/truncated grade/timeout grade/error response/length_mean response/truncated"
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
    assert (run / "report.html").stat().st_size > 10_000
    assert "first prompt:\nUse " in out and "Pass@4" in out and "report.html" in out


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
        paid = 0.1 * (np.minimum(td, 0.65) + np.minimum(ed, 0.65)) / 2 * [r["grade"] == "correct" for r in group]
        assert np.allclose(paid, [r["reward"]["diversity"] for r in group])
        total = np.array([r["reward"]["total"] for r in group])
        expected = (total - total.mean()) / total.std() if np.ptp(total) > 1e-8 else np.zeros(4)
        assert np.allclose(expected, [r["advantage"] for r in group])


@pytest.mark.parametrize("rows_before_kill", [2, 4])
def test_killed_and_run_again_ends_with_the_same_metrics(whole, rows_before_kill):
    process = start("--run.folder", "killed")
    path = Path("killed/metrics.jsonl")
    deadline = time.monotonic() + 120
    while not path.exists() or path.read_text().count("\n") < rows_before_kill:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with open(path, "a") as file:
        file.write('{"step": 99, "reward/ou')  # as if the kill had cut a row in half
    finish("--run.folder", "killed")
    assert metrics("killed") == metrics(whole[0])
    for step in range(1, 6):
        name = f"rollouts/step_{step:04d}.jsonl"
        assert (Path("killed") / name).read_bytes() == (whole[0] / name).read_bytes()


def test_evaluation_changes_nothing_in_the_training(whole):
    finish("--run.folder", "blind", "--evaluate.problems", "0")
    rows = [{k: v for k, v in row.items() if not k.startswith("eval/")} for row in metrics(whole[0])]
    assert metrics("blind") == rows[1:]


def test_a_finished_run_shows_its_summary_again_and_can_be_extended(whole):
    shutil.copytree(whole[0], "runs/tiny")
    before = Path("runs/tiny/metrics.jsonl").read_bytes()
    out, _ = finish()
    assert "Pass@4" in out and "first prompt" not in out
    assert Path("runs/tiny/metrics.jsonl").read_bytes() == before
    out, _ = finish("--train.steps", "6")
    assert "schedules run over the 5 steps" in out
    rows = metrics("runs/tiny")
    assert rows[:6] == metrics(whole[0])[:6] and rows[6]["step"] == 6 and rows[6]["shaping/coef"] == 0.0


def test_the_most_diverse_half_is_trained_on(whole):
    """2G are sampled, G of the highest mean of TD and ED are kept, and the outcome is over all that were sampled."""
    finish("--run.folder", "half", "--method.selection.keep", "most", "--train.steps", "2", "--evaluate.problems", "0")
    for step, row in enumerate(metrics("half"), start=1):
        rollouts = [json.loads(line) for line in Path(f"half/rollouts/step_{step:04d}.jsonl").read_text().splitlines()]
        assert len(rollouts) == 4 * 4  # four problems, G = 4
        assert row["reward/outcome"] * 32 == pytest.approx(round(row["reward/outcome"] * 32))
        kept = sum(sum(r["diversity"].values()) for r in rollouts) / 32
        assert kept == pytest.approx((row["diversity/textual"] + row["diversity/equational"]) / 2)
    diversity = [row["diversity/textual"] for row in (metrics("half")[0], metrics(whole[0])[1])]
    assert diversity[0] > diversity[1]


@pytest.mark.parametrize("method", ["clip-cov", "kl-cov", "pass-at-k", "entropy-bonus", "high-entropy"])
def test_every_baseline_trains(method, monkeypatch):
    flags = ("--method", method, "--method.pass_at_k.k", "2", "--train.steps", "2", "--evaluate.problems", "0")
    monkeypatch.setattr(sys, "argv", ["diver", "train", "tiny.toml", *flags])
    cli.main()
    row = metrics("runs/tiny")[1]
    assert row["policy/grad_norm"] > 0 and row["shaping/coef"] == 0
    assert ("policy/selected_frac" in row) == (method in ("clip-cov", "kl-cov", "high-entropy"))
    assert row.get("policy/selected_frac", 1) > 0


def test_what_clip_cov_draws_is_the_same_after_a_stop(monkeypatch):
    flags = ("--method", "clip-cov", "--train.save_steps", "1", "--evaluate.problems", "0")
    for folder, steps in (("one", "2"), ("two", "1"), ("two", "2")):
        arguments = ("--run.folder", folder, "--train.steps", steps)
        monkeypatch.setattr(sys, "argv", ["diver", "train", "tiny.toml", *arguments, *flags])
        cli.main()
    assert metrics("one") == metrics("two") and metrics("one")[1]["policy/selected_frac"] > 0


def test_bfloat16_and_gradient_checkpointing_train(whole):
    finish("--run.folder", "low", "--model.precision", "bfloat16", "--model.gradient_checkpointing", "true",
           "--train.steps", "2", "--evaluate.problems", "0")  # fmt: skip
    rows = metrics("low")
    assert all(row["policy/grad_norm"] > 0 and 0 < row["policy/logprob_mismatch"] < 0.1 for row in rows)


def test_tensorboard_gets_every_step(whole):
    event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    finish("--run.folder", "board", "--log.to", '["tensorboard"]', "--train.steps", "3", "--evaluate.problems", "0")
    events = event_accumulator.EventAccumulator("board/tensorboard")
    events.Reload()
    logged = {e.step: e.value for e in events.Scalars("reward/outcome")}
    assert logged == pytest.approx({row["step"]: row["reward/outcome"] for row in metrics("board")})


def test_wrong_input_is_one_line_and_code_2(capsys, monkeypatch):
    Path("bad.toml").write_text("[train]\nsteps = 'x'")
    Path("rows.jsonl").write_text('{"problem": "1+1?", "answer": "2"}\n{"problem": "2+2?"}\n')
    Path("empty.jsonl").write_text("")
    Path("folder").mkdir()
    shutil.copytree(policy_folder(), "no_tokenizer", ignore=shutil.ignore_patterns("tokenizer*"))
    small = ("--train.batch_size", 1, "--train.mini_batch_size", 1, "--evaluate.problems", 0)
    for args, told in [
        (("train", "none.toml"), "none.toml: there is no such recipe"),
        (("train", "bad.toml"), "train.steps"),
        (("train", "tiny.toml", "--train.stps", 3), "train.stps: unknown key"),
        (("train", "tiny.toml", "--sample.group_size", 1), "G is 1"),
        (
            ("train", "tiny.toml", "--train.mini_batch_size", 8),
            r"mini_batch_size \(8\) is larger than batch_size \(4\)",
        ),
        (("train", "tiny.toml", "--data.path", "none.jsonl"), "none.jsonl: no such file"),
        (("train", "tiny.toml", "--data.path", "rows.jsonl", *small), "rows.jsonl:2: no answer"),
        (("train", "tiny.toml", "--data.path", "empty.jsonl", *small), "empty.jsonl.*(empty|no problem|no row)"),
        (("train", "tiny.toml", "--model.path", "no_tokenizer"), "no_tokenizer.*has no tokenizer"),
        (("train", "tiny.toml", "--model.path", "folder"), "folder.*no config.json"),
        (("train", "tiny.toml", "--sample.max_tokens", 90), "exceeds the 96 positions"),
        (("train", "tiny.toml", "--train.batch_size", 128), "only 64"),
        (("train", "tiny.toml", "--data.template", "poem"), "poem"),
        (("train", "tiny.toml", "--data.template", "chat"), "chat template"),
        (("train", "tiny.toml", "--model.device", "gpu"), "device must be auto, cpu"),
        (("train", "tiny.toml", "--verify.workers", "-1"), "workers at least 0"),
        (("train", "tiny.toml", "--train.betas", "[0.9, 1.0]"), "betas must be"),
        (("train", "tiny.toml", "--sample.max_prompt_tokens", 1), "no problem is left to train on.*max_prompt_tokens"),
        (("trian", "tiny.toml"), "no command 'trian'"),
        (("report", "folder"), "folder"),
    ]:
        line = fails(capsys, monkeypatch, *args)
        assert re.search(told, line), line
        assert not Path("runs").exists()


def test_a_policy_that_diverges_is_told_and_its_weights_are_not_saved():
    process = start("--train.learning_rate", "1e30", "--train.save_steps", "1", "--evaluate.problems", "0")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and "diverged" in err.strip().splitlines()[-1]


def test_another_recipe_in_a_used_folder_is_refused(whole, capsys, monkeypatch):
    shutil.copytree(whole[0], "runs/tiny")
    before = {p: p.read_bytes() for p in Path("runs/tiny").rglob("*") if p.is_file()}
    line = fails(capsys, monkeypatch, "train", "tiny.toml", "--method.name", "grpo")
    assert "another recipe" in line and "method" in line
    assert {p: p.read_bytes() for p in Path("runs/tiny").rglob("*") if p.is_file()} == before


def test_a_full_disk_is_told_and_the_run_goes_on_when_there_is_room(whole):
    """A real limit: no file of this process may pass 3 MB, and the weights have 3.6."""
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000));"
        "sys.argv = ['diver', 'train', 'tiny.toml', '--run.folder', 'full']; from diver.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert "could not be saved" in last and "same command again" in last
    finish("--run.folder", "full")
    assert metrics("full") == metrics(whole[0])


def test_dry_run_prints_the_resolved_recipe_and_writes_nothing():
    out, _ = finish("--dry-run", "--method.name", "clip-higher")
    resolved = json.loads(out)
    assert resolved["method"]["loss"]["clip_high"] == 0.28 and resolved["train"]["steps"] == 5
    assert not Path("runs").exists()


def test_help_teaches():
    out = subprocess.run([*DIVER, "train", "--help"], capture_output=True, text=True)
    assert out.returncode == 0 and "[sample]" in out.stdout and "shaping.ratio" in out.stdout
    verbs = subprocess.run([*DIVER, "--help"], capture_output=True, text=True)
    told = [line for line in verbs.stdout.splitlines() if line.startswith("  ")]
    assert verbs.returncode == 0 and [line.split()[0] for line in told] == list(cli.COMMANDS)
    assert len({len(re.match(r"  \S+ +", line)[0]) for line in told}) == 1  # the second column is one
