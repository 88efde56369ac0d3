"""Checkpoints by the clock and by SIGTERM, a method's state in them, stop tokens, and bfloat16, by the real command."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from diver_command import diver
from test_cli import RECIPE, finish, killed, metrics

from diver.cli.train import train
from diver.config.load import load_recipe
from diver.config.sections import Model, Train
from diver.data import countdown
from diver.evaluate.config import EvalConfig
from diver.evaluate.samplers import transformers
from diver.generate import policy as policies
from diver.generate.base import SamplingParams, requests, sample_groups
from diver.generate.hf import HFGenerator
from diver.generate.policy import load_policy, precision_note
from diver.io.run_folder import RunFolder
from diver.losses import ClipLoss
from diver.train import checkpoint
from diver.train.parallel import Run, run_all
from diver.train.trainer import Trainer
from diver.train.update import update
from diver.types import DiverError


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(RECIPE)


def test_sigterm_finishes_the_step_saves_and_the_same_command_resumes(monkeypatch):
    """The signal comes while step 1 samples; a checkpoint is due after step 5 only."""
    args = ("--train.steps", 2, "--train.save_steps", 5, "--evaluate.problems", 0)
    finish(*args, "--run.folder", "whole")
    sample = Trainer._sample

    def terminated(self, step):
        if step == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return sample(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_sample", terminated)
        code, out, _ = diver("train", "tiny.toml", *args, "--run.folder", "stopped")
    assert code == 143 and "SIGTERM: stopped after step 1, which is saved" in out
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert os.listdir("stopped/checkpoints") == ["step_0001"]
    finish(*args, "--run.folder", "stopped")
    assert metrics("stopped") == metrics("whole")


@pytest.mark.parametrize("signalled", ["the parent", pytest.param("all", marks=pytest.mark.slow)])
def test_sigterm_reaches_the_runs_of_several_seeds(signalled):
    """Two of three runs have begun: each has the time to save, and the third is not begun."""
    Path("waiting.py").write_text(
        "from pathlib import Path\nfrom diver.train.stopping import sigterm\n"
        "def run(name):\n    with sigterm() as stop:\n        Path(name).touch()\n        stop.wait(60)\n"
        "        Path(f'{name} saved').touch()\n    raise SystemExit(143)\n"
    )
    program = (
        "from pathlib import Path\nfrom diver.train.parallel import Run, run_all\n"
        "run_all([Run(n, 'waiting:run', {'name': n}, Path(n), 0) for n in 'abc'], Path('logs'), 2)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while not (Path("a").exists() and Path("b").exists()):
        assert parent.poll() is None
        time.sleep(0.05)
    (os.killpg if signalled == "all" else os.kill)(parent.pid, signal.SIGTERM)
    out, _ = parent.communicate(timeout=60)
    assert parent.returncode == 143 and "SIGTERM: stopped; 0 of 3 runs are finished, the same command goes on" in out
    assert Path("a saved").exists() and Path("b saved").exists() and not Path("c").exists()


def test_a_run_that_fails_is_told_with_its_reason():
    """By the last line of its log, the exception; one that is killed, such as for want of memory, has no time to write one."""
    Path("failing.py").write_text(
        "import os\ndef run(number):\n    print('step 1', flush=True)\n    if number:\n        os.kill(os.getpid(), number)\n"
        "    raise RuntimeError('boom')\n"
    )
    runs = [Run(name, "failing:run", {"number": number}, Path(name), 0) for name, number in (("a", 0), ("b", 9))]
    with pytest.raises(DiverError) as failure:
        run_all(runs, Path("logs"), 1)
    a, b = Path("logs/a.log"), Path("logs/b.log")
    told = f"2 of 2 runs failed ({a}: RuntimeError: boom; {b}: killed by signal 9); the same command makes them again"
    assert str(failure.value) == told


@pytest.mark.slow
def test_the_counts_of_a_killed_run_are_those_of_the_whole_one():
    """The same four problems in every step, so what was counted in one is in the rewards of the next."""
    args = ("--method", "outcome-ucb-con", "--data.countdown.problems", "4", "--evaluate.problems", "0")
    finish(*args, "--run.folder", "whole")
    killed("killed", 3, *args)
    finish(*args, "--run.folder", "killed")
    assert metrics("killed") == metrics("whole") and len(metrics("whole")) == 5
    for step in (4, 5):
        name = f"checkpoints/step_{step:04d}/method.json"
        assert Path("killed", name).read_bytes() == Path("whole", name).read_bytes()
        counts = json.loads(Path("whole", name).read_text())["counts"]
        assert [sum(of_problem.values()) for of_problem in counts.values()] == [4 * step] * 4


def test_a_checkpoint_is_due_by_steps_or_by_minutes(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(checkpoint, "save", lambda *_: None)
    saver = checkpoint.Saver(None, None, None, Train(save_steps=4, save_minutes=2.0), 0, {})
    due = []
    for step in range(1, 9):
        now[0] += 50
        if saver.due(step):
            due.append(step)
            saver.save(step)
    assert due == [3, 4, 7, 8]  # 150 s, the fourth step, 150 s, the eighth step
    never = checkpoint.Saver(None, None, None, Train(save_steps=4, save_minutes=0.0), 0, {})
    now[0] += 1e6
    assert [step for step in range(1, 9) if never.due(step)] == [4, 8]


def test_a_checkpoint_of_a_tokenizer_with_several_chat_templates(tmp_path):
    """transformers writes them into a folder beside the other files."""
    policy = load_policy(Model())
    policy.tokenizer.chat_template = {"default": "{{ messages[0].content }}", "tool_use": "tools"}
    folder = RunFolder(tmp_path / "run", {"recipe": {}}, {})
    optimizer = torch.optim.AdamW(policy.model.parameters())
    checkpoint.save(folder, 1, policy, optimizer, keep=1)
    (saved,) = folder.checkpoints()
    checkpoint.check(saved)
    (template,) = (path for path in saved.rglob("*tool_use*"))
    template.write_text("others")
    with pytest.raises(DiverError, match=f"{template.relative_to(saved)} of this checkpoint has changed"):
        checkpoint.check(saved)


@pytest.mark.parametrize("error", [DiverError("the verifier failed"), KeyboardInterrupt()])
def test_loggers_are_closed_however_a_run_ends(monkeypatch, error):
    """Or the last points of TensorBoard are lost, and MLflow's run goes on for ever."""
    closed = []

    class Kept:
        def log(self, step, metrics):
            pass

        def close(self):
            closed.append(True)

    def fail(*_):
        raise error

    monkeypatch.setattr("diver.train.trainer.open_loggers", lambda *_: [Kept()])
    monkeypatch.setattr(Trainer, "_step", fail)
    recipe = load_recipe("tiny.toml", ["--evaluate.problems", "0"])
    with pytest.raises(type(error)):
        train(recipe)
    assert closed == [True]


def test_stop_tokens_end_responses_in_training_and_evaluation():
    """The closing bracket of a formula ends the response; it is the recipe's, so another run may not resume with others."""
    policy = load_policy(Model())
    stop = policy.tokenizer.convert_tokens_to_ids("\\)")
    args = ("--sample.stop_token_ids", stop, "--train.steps", 1, "--evaluate.problems", 4, "--evaluate.num_samples", 4)
    finish(*args, "--run.folder", "run")
    rows = [json.loads(line) for line in Path("run/rollouts/step_0001.jsonl").read_text().splitlines()]
    ended = [row for row in rows if row["grade"] != "truncated"]
    assert len(ended) > len(rows) / 2 and all(row["response"].count("\\)") <= 1 for row in rows)
    assert any(row["response"].endswith("\\)") for row in ended)
    assert json.loads(Path("run/eval/step_0001.json").read_text())["stop_token_ids"] == [stop]
    assert json.loads(Path("run/config.json").read_text())["recipe"]["sample"]["stop_token_ids"] == [stop]
    code, _, err = diver("train", "tiny.toml", *args[2:], "--run.folder", "run")
    assert code == 2 and "stop_token_ids" in err
    code, _, err = diver("train", "tiny.toml", "--sample.stop_token_ids", 500, "--run.folder", "other")
    assert code == 2 and err.strip() == "diver: sample.stop_token_ids: 500 is no token of 'countdown', which has 419"


def test_a_response_that_ends_by_its_end_token_exactly_at_the_limit_is_not_truncated():
    policy = load_policy(Model())
    problem = countdown.problems(countdown.Countdown(), 1, held_out=True)[0]
    wanted = requests(0, "b", "p", problem.prompt, range(3))
    generator = HFGenerator(policy)
    free = [g.rollout for g in generator.generate(wanted, SamplingParams(1.0, 40))]
    for rollout in free:
        i = rollout.index
        at, below = (
            next(generator.generate(wanted[i : i + 1], SamplingParams(1.0, n))).rollout
            for n in (rollout.length, rollout.length - 1)
        )
        assert not rollout.truncated and not at.truncated and at.tokens == rollout.tokens
        assert below.truncated and below.tokens == rollout.tokens[:-1]
        (stopped,) = generator.generate(wanted[i : i + 1], SamplingParams(1.0, 3, [rollout.tokens[2]]))
        assert not stopped.rollout.truncated and stopped.rollout.length <= 3


def test_in_bfloat16_the_update_starts_where_the_sampler_was():
    """Log-probs of sampler and trainer differ by rounding: far less than the clip's 0.2, and more than in float32."""
    problems = countdown.problems(countdown.Countdown(), 4, held_out=True)
    mismatch = {}
    for precision in ("float32", "bfloat16"):
        policy = load_policy(Model(precision=precision))
        groups = sample_groups(
            HFGenerator(policy, max_num_seqs=5), problems, [p.prompt for p in problems], 4,
            temperature=1.0, max_tokens=40, seed=0,
        )  # fmt: skip
        groups = [dataclasses.replace(g, rollouts=tuple(r.replace(advantage=1.0) for r in g.rollouts)) for g in groups]
        optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.0)
        metrics = update(policy, optimizer, groups, ClipLoss(), Train(mini_batch_size=2, batch_size=4), temperature=1.0)
        mismatch[precision] = metrics["policy/logprob_mismatch"]
        assert metrics["policy/clip_fraction"] < 0.01
    assert 0 < mismatch["float32"] < 1e-4 < mismatch["bfloat16"] < 0.05


def test_inference_alone_has_one_copy_of_the_weights():
    """In bfloat16 weights are in bfloat16, with no autocast that would hold another copy; to be trained, in float32."""
    low = Model(precision="bfloat16")
    sampler, trained, plain = load_policy(low, inference=True), load_policy(low), load_policy(Model(), inference=True)
    assert (sampler.model.dtype, sampler.precision) == (torch.bfloat16, None)
    assert (trained.model.dtype, trained.precision) == (torch.float32, torch.bfloat16)
    assert (plain.model.dtype, plain.precision) == (torch.float32, None)
    evaluated = transformers(EvalConfig(), low).open()  # that of `diver eval`
    assert (evaluated.model.dtype, evaluated.precision) == (torch.bfloat16, None)
    problem = countdown.problems(countdown.Countdown(), 1, held_out=True)[0]
    wanted = requests(0, "b", "p", problem.prompt, range(16))
    mine, theirs = (
        [g.rollout for g in HFGenerator(p).generate(wanted, SamplingParams(1.0, 40))] for p in (sampler, plain)
    )
    assert sum(a.tokens[:4] == b.tokens[:4] for a, b in zip(mine, theirs, strict=True)) >= 12


def test_a_cpu_that_is_faster_in_bfloat16_is_offered_it(monkeypatch):
    model = load_policy(Model()).model
    monkeypatch.setattr(policies, "bf16_speedup", lambda: 2.84)
    assert precision_note(Model(), model) == ""  # too small to gain by it
    monkeypatch.setattr(policies, "BF16_PARAMETERS", 1000)
    note = "this CPU multiplies matrices 2.8 times as fast in bfloat16: --model.precision bfloat16"
    assert precision_note(Model(), model) == note
    assert precision_note(Model(precision="float32"), model) == ""
    monkeypatch.setattr(policies, "bf16_speedup", lambda: 1.1)
    assert precision_note(Model(), model) == ""
