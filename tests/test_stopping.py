"""Checkpoints by the clock and by signals, a method's state in them, stop tokens, and bfloat16, by the real command."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from diver_command import diver
from test_cli import RECIPE, finish, killed, metrics
from waiting import until

from diver.cli.train import train
from diver.core.progress import QUIET, progress_bar
from diver.core.run_folder import RunFolder
from diver.core.types import DiverError
from diver.evaluate import run as evaluation
from diver.evaluate.config import EvalConfig
from diver.losses import ClipLoss
from diver.recipe.load import load_recipe
from diver.recipe.sections import Model, Train
from diver.sample import policy as policies
from diver.sample.base import SamplingParams, requests
from diver.sample.hf import HFGenerator, sample_groups
from diver.sample.policy import load_policy, precision_note
from diver.tasks import countdown
from diver.train import checkpoint
from diver.train.parallel import ParallelRun, run_all
from diver.train.trainer import Trainer
from diver.train.update import update


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(RECIPE)


@pytest.mark.parametrize(("number", "name", "code"), [(signal.SIGTERM, "SIGTERM", 143), (signal.SIGINT, "Ctrl-C", 130)])
def test_a_signal_finishes_the_step_saves_and_the_same_command_resumes(monkeypatch, number, name, code):
    """The signal comes while step 1 samples; a checkpoint is due after step 5 only."""
    args = ("--train.steps", 2, "--train.save_steps", 5, "--evaluate.problems", 0)
    finish(*args, "--run.folder", "whole")
    handlers = [signal.getsignal(known) for known in (signal.SIGTERM, signal.SIGINT)]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_batch", signalled_in_step(1, [number]))
        stopped = diver("train", "tiny.toml", *args, "--run.folder", "stopped", "--restart")
    where = "stopped after step 1 of 2, saved in stopped/checkpoints/step_0001"
    told = f"{name}: {where}; the same command without --restart resumes\n"
    assert stopped.returncode == code and stopped.stdout.endswith(told)
    assert [signal.getsignal(known) for known in (signal.SIGTERM, signal.SIGINT)] == handlers
    assert os.listdir("stopped/checkpoints") == ["step_0001"]
    finish(*args, "--run.folder", "stopped")
    assert metrics("stopped") == metrics("whole")


def signalled_in_step(number, signals):
    """`Trainer._batch`, in whose step `number` these signals reach the process."""
    batch = Trainer._batch

    def signalled(self, step, *args):
        for each in signals if step == number else ():
            os.kill(os.getpid(), each)
        return batch(self, step, *args)

    return signalled


@pytest.mark.parametrize("signals", [[signal.SIGINT, signal.SIGINT], [signal.SIGTERM, signal.SIGTERM, signal.SIGINT]])
def test_a_second_ctrl_c_stops_at_once_and_no_row_is_lost(monkeypatch, signals):
    """Step 1 is not saved: it is done again, which is said, and its row is kept. A second SIGTERM changes nothing."""
    args = ("--train.steps", 2, "--train.save_steps", 5, "--evaluate.problems", 0)
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_batch", signalled_in_step(2, signals))
        code, _, err = diver("train", "tiny.toml", *args)
    assert code == 130 and err.endswith("diver: stopped; the same command resumes from what is saved\n")
    row = Path("runs/tiny/metrics.jsonl").read_text()
    assert json.loads(row)["step"] == 1 and not Path("runs/tiny/checkpoints").exists()
    code, _, err = diver("train", "tiny.toml", *args)
    kept = "step 1 is done again, the rows so far are kept in metrics.replaced.jsonl"
    assert code == 0 and f"runs/tiny: goes on at step 1, since there is no checkpoint; {kept}\n" in err
    assert Path("runs/tiny/metrics.replaced.jsonl").read_text() == row
    assert [row["step"] for row in metrics("runs/tiny")] == [1, 2]


TERM, INT = (signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")
USUAL = [("the parent", *TERM), ("all", *INT)]  # `kill`, and a terminal
OTHERS = [pytest.param(*case, marks=pytest.mark.slow) for case in (("the parent", *INT), ("all", *TERM))]


@pytest.mark.parametrize(("signalled", "number", "name"), [*USUAL, *OTHERS])
def test_a_signal_reaches_the_runs_of_several_seeds(signalled, number, name):
    """Two of three runs have begun: each finishes its step, which takes longer than the parent's next look, and saves.

    A terminal and a scheduler send the signal to every process of the group: a run has it from them and its parent.
    """
    Path("waiting.py").write_text(
        "import time\nfrom pathlib import Path\nfrom diver.train.stopping import stop_request\n"
        "def run(name):\n    with stop_request() as stop:\n        Path(name).touch()\n        stop.wait(600)\n"
        "        time.sleep(1.5)\n        Path(f'{name} saved').touch()\n    raise SystemExit(143)\n"
    )
    program = (
        "from functools import partial\nfrom pathlib import Path\n"
        "from diver.train.parallel import ParallelRun, run_all\nfrom waiting import run\n"
        "run_all([ParallelRun(n, partial(run, n), Path(n), 0) for n in 'abc'], Path('logs'), 2)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    until(lambda: Path("a").exists() and Path("b").exists(), parent)
    (os.killpg if signalled == "all" else os.kill)(parent.pid, number)
    out, _ = parent.communicate(timeout=600)
    assert parent.returncode == 128 + number
    assert f"{name}: stopped; 0 of 3 runs finished, the same command resumes" in out
    assert Path("a saved").exists() and Path("b saved").exists() and not Path("c").exists()


def test_a_run_that_fails_is_told_with_its_reason():
    """By the last line of its log, the exception; one that is killed, such as for want of memory,
    has no time to write one."""
    endings = {"a": "raise RuntimeError('boom')", "b": "import os; os.kill(os.getpid(), 9)"}
    runs = [
        ParallelRun(name, partial(exec, f"print('step 1', flush=True); {end}"), Path(name), 0)
        for name, end in endings.items()
    ]
    with pytest.raises(DiverError) as failure:
        run_all(runs, Path("logs"), 1)
    a, b = Path("logs/a.log"), Path("logs/b.log")
    told = f"2 of 2 runs failed ({a}: RuntimeError: boom; {b}: killed by signal 9); the same command makes them again"
    assert str(failure.value) == told


def test_steps_that_a_run_leaves_out_are_not_counted(monkeypatch):
    """Two runs of five steps: the first ends after two of them, as one that diverges does."""
    bars = []

    def bar(*given, **options):
        bars.append(progress_bar(*given, **options))
        return bars[0]

    monkeypatch.delenv(QUIET, raising=False)
    monkeypatch.setattr("diver.train.parallel.progress_bar", bar)
    rows = "open('{0}/metrics.jsonl', 'w').write('{{}}\\n' * {1})"
    runs = []
    for name, steps in (("a", 2), ("b", 5)):
        Path(name).mkdir()
        runs.append(ParallelRun(name, partial(exec, rows.format(name, steps)), Path(name), 5))
    run_all(runs, Path("logs"), 1)
    assert (bars[0].n, bars[0].total) == (7, 7)


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
    """The closing bracket of a formula ends the response; it is the recipe's,
    so another run may not resume with others."""
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
    evaluated = evaluation.sampler(EvalConfig(model="countdown"), low).open()  # that of `diver eval`
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
