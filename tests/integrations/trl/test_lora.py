"""`diver train --engine trl` trains the bundled policy under stock TRL, with LoRA in this process and on two processes.
`make test-trl`."""

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

pytest.importorskip("trl", reason="in the environment of `make test-trl` only")

import numpy as np
import torch
import trl
from report_page import curve
from safetensors.torch import load_file
from transformers import AutoTokenizer

from diver import cli
from diver.core.files import JsonlLog, read_jsonl
from diver.core.run_folder import groups_from_rows
from diver.core.types import DiverError, Progress
from diver.integrations.trl.launch import arguments
from diver.integrations.trl.objective import OLDEST_OF_TRAINER, dotted, installed
from diver.integrations.trl.run import METRICS, RunRecorder, check_arguments
from diver.methods import method_named
from diver.recipe.recipe import make_recipe
from diver.tasks.testbeds import policy_folder

RECIPE = """
[run]
folder = "run"
[model]
device = "cpu"
[data.countdown]
problems = 24
[sample]
max_tokens = 28
max_prompt_tokens = 24
[method]
name = "diver-mix"
[train]
steps = 2
batch_size = 4
mini_batch_size = 2
save_steps = 1
learning_rate = 1e-3
[evaluate]
problems = 4
num_samples = 4
[trl]
rows_per_device = 4
"""


current = pytest.mark.skipif(installed() < OLDEST_OF_TRAINER, reason="an older TRL is refused, see below")


def diver(monkeypatch, folder, *words):
    (folder / "tiny.toml").write_text(RECIPE)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["diver", *words])
    cli.main()


def rows(folder):
    return list(JsonlLog(folder / "run" / "metrics.jsonl").rows())


def groups(folder, step):
    return groups_from_rows(read_jsonl(folder / "run" / "rollouts" / f"step_{step:04d}.jsonl"))


def check_run(folder, steps, schedule=2):
    """The run folder has TRL's own figures, and the advantages that the method gives for the texts."""
    (saved,) = sorted((folder / "run" / "trl").glob("checkpoint-*"), key=lambda p: int(p.name.partition("-")[2]))[-1:]
    state = json.loads((saved / "trainer_state.json").read_text())
    logged = {entry["step"] // 2: entry for entry in state["log_history"] if "time/verify" in entry}
    found = {row["step"]: row for row in rows(folder)}
    assert list(found) == list(logged) == list(range(1, steps + 1))
    for step, row in found.items():
        trls = logged[step]
        assert row["reward/outcome"] == trls["reward/outcome"] == np.mean([g.outcomes for g in groups(folder, step)])
        assert row["response/length_mean"] == pytest.approx(trls["completions/mean_length"])
        assert row["response/truncated"] == pytest.approx(trls["completions/clipped_ratio"])
        assert {ours: row[ours] for ours in METRICS if ours in row} == {
            o: trls[t] for o, t in METRICS.items() if t in trls
        }
        assert {"policy/loss", "policy/entropy", "policy/grad_norm", "time/sample", "time/update"} <= row.keys()
        expected = method_named("diver-mix").apply(groups(folder, step), Progress(step - 1, schedule))
        for group, again in zip(groups(folder, step), expected, strict=True):
            assert len(group) == 8 and group.prompt.startswith("Use ") and group.problem.answer in group.prompt
            assert group.advantages == pytest.approx(again.advantages)
    return found


@current
def test_the_samplers_log_probs_are_compared_by_trl():
    """Only with vLLM, which cannot run here: TRL's source has the name under which the run folder looks for it."""
    assert f'"{METRICS["policy/logprob_mismatch"]}"' in inspect.getsource(trl.GRPOTrainer)


@current
def test_lora_trains_resumes_and_is_reported(monkeypatch, tmp_path, capsys):
    lora = ["train", "tiny.toml", "--engine", "trl", "--trl.lora_rank", "4", "--trl.lora_targets", "q_proj", "v_proj"]
    diver(monkeypatch, tmp_path, *lora)
    first = check_run(tmp_path, 2)
    checkpoints = tmp_path / "run" / "checkpoints"
    assert [path.name for path in sorted(checkpoints.iterdir())] == ["step_0001", "step_0002"]
    one, two = (load_file(checkpoints / f"step_000{i}" / "adapter_model.safetensors") for i in (1, 2))
    assert {name.rpartition("self_attn.")[2].partition(".")[0] for name in two} == {"q_proj", "v_proj"}
    assert max(float((two[name] - one[name]).abs().max()) for name in two) > 0  # the adapters were trained
    assert AutoTokenizer.from_pretrained(checkpoints / "step_0002").chat_template is None
    page = tmp_path / "run" / "report.html"
    for name in ("policy/entropy", "reward/outcome", "diversity/textual"):
        assert curve(page, name) == ([1, 2], pytest.approx([first[i][name] for i in (1, 2)], rel=1e-3, abs=1e-4))

    diver(monkeypatch, tmp_path, "measure", "run")
    diver(monkeypatch, tmp_path, "eval", "run", "--out", "evaluated")
    told = capsys.readouterr().out
    assert "diver train: 64 responses to 8 problems" in told and "after 2 steps: run/checkpoints/step_0002" in told
    assert {path.name for path in (tmp_path / "evaluated").iterdir()} >= {"step_0000", "step_0002"}

    # as if killed while the second step was saved: transformers writes this file last
    (checkpoints.parent / "trl" / "checkpoint-4" / "trainer_state.json").unlink()
    diver(monkeypatch, tmp_path, *lora)
    again = check_run(tmp_path, 2)
    assert again[2]["shaping/coef"] == first[2]["shaping/coef"] and again[1] == first[1]
    diver(monkeypatch, tmp_path, *lora, "--train.steps", "3")  # lambda keeps its schedule: it has ended
    assert rows(tmp_path)[2]["shaping/coef"] == 0.0
    capsys.readouterr()
    for words in (
        ["train", "tiny.toml", "--engine", "trl"],
        [*lora, "--method", "clip-higher"],
        ["train", "tiny.toml"],
    ):
        with pytest.raises(SystemExit) as stop:
            diver(monkeypatch, tmp_path, *words)
        told = capsys.readouterr().err
        assert stop.value.code == 2 and "run: has a run of another recipe (" in told and told.count("\n") == 1


@current
def test_a_resumed_run_sees_the_problems_that_it_would_have_seen(monkeypatch, tmp_path):
    """Epochs are of two steps: it is killed within the second one, and at its end, and is extended by a step."""
    words = ["train", "tiny.toml", "--engine", "trl", "--data.countdown.problems", "8", "--train.save_total_limit", "6"]

    def seen(steps):
        return [
            {g.problem.id: [r.response for r in g.rollouts] for g in groups(tmp_path, s)} for s in range(1, steps + 1)
        ]

    diver(monkeypatch, tmp_path, *words, "--train.steps", "6")
    whole = seen(6)
    order = [[*step] for step in whole]
    assert all(len({*order[i], *order[i + 1]}) == 8 for i in (0, 2, 4)) and order[:2] != order[2:4] != order[4:]
    for kept, steps in ((3, 5), (4, 6)):
        for saved in (tmp_path / "run" / "trl").glob("checkpoint-*"):
            if int(saved.name.partition("-")[2]) > 2 * kept:
                shutil.rmtree(saved)
        assert (tmp_path / "run" / "trl" / f"checkpoint-{2 * kept}").is_dir()
        diver(monkeypatch, tmp_path, *words, "--train.steps", str(steps))
        assert seen(steps) == whole[:steps] and len(rows(tmp_path)) == steps


@current
def test_the_policy_is_sampled_whatever_its_generation_config_says(monkeypatch, tmp_path):
    """TRL leaves keys to the model's own file. Its checkpoint has the file as it was."""
    model, suppressed = tmp_path / "model", 13  # "}", which ends the box of an answer
    shutil.copytree(policy_folder(), model)
    saved = json.loads((model / "generation_config.json").read_text())
    del saved["_from_model_config"]
    saved |= {"suppress_tokens": [suppressed], "min_new_tokens": 20, "no_repeat_ngram_size": 2}
    (model / "generation_config.json").write_text(json.dumps(saved))
    words = ["train", "tiny.toml", "--engine", "trl", "--train.steps", "1"]
    diver(monkeypatch, tmp_path, *words, "--model.path", str(model))
    diver(monkeypatch, tmp_path, *words, "--run.folder", "plain")
    ours, plain = (
        [json.loads(line)["response"] for line in (tmp_path / run / "rollouts/step_0001.jsonl").open()]
        for run in ("run", "plain")
    )
    assert ours == plain and sum("}" in response for response in ours) > 16
    kept = json.loads((tmp_path / "run/checkpoints/step_0001/generation_config.json").read_text())
    assert (kept["suppress_tokens"], kept["min_new_tokens"]) == ([suppressed], 20)


@current
@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")])
def test_a_signal_saves_at_the_end_of_the_step(monkeypatch, tmp_path, capsys, number, name):
    """It comes in step 1, after the responses of which it would train twice; a checkpoint is due after step 50 only."""
    words = ["train", "tiny.toml", "--engine", "trl", "--train.save_steps", "50"]
    diver(monkeypatch, tmp_path, *words, "--run.folder", "whole")
    record = RunRecorder.on_rollouts

    def signalled(self, step, *given):
        os.kill(os.getpid(), number)
        record(self, step, *given)

    with monkeypatch.context() as patch, pytest.raises(SystemExit) as stopped:
        patch.setattr(RunRecorder, "on_rollouts", signalled)
        diver(monkeypatch, tmp_path, *words)
    assert stopped.value.code == 128 + number
    told = f"{name}: stopped after step 1 of 2, saved in run/checkpoints/step_0001; the same command resumes\n"
    assert capsys.readouterr().out.endswith(told) and [row["step"] for row in rows(tmp_path)] == [1]
    diver(monkeypatch, tmp_path, *words)
    assert [row["step"] for row in rows(tmp_path)] == [1, 2] and not (tmp_path / "run/metrics.replaced.jsonl").exists()
    responses = [
        [json.loads(line)["response"] for line in (tmp_path / run / "rollouts/step_0002.jsonl").open()]
        for run in ("run", "whole")
    ]
    assert responses[0] == responses[1]


@current
def test_two_processes_share_a_run(tmp_path):
    (tmp_path / "tiny.toml").write_text(RECIPE)
    words = ["train", "tiny.toml", "--engine", "trl", "--trl.processes", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    for steps in (1, 2):
        program = [sys.executable, "-m", "diver", *words, "--train.steps", str(steps)]
        done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1800)
        assert done.returncode == 0, done.stderr[-4000:]
    check_run(tmp_path, 2, schedule=1)
    before = load_file(policy_folder() / "model.safetensors")
    after = load_file(tmp_path / "run" / "checkpoints" / "step_0002" / "model.safetensors")
    assert max(float((after[name] - before[name]).abs().max()) for name in after) > 1e-4


@current
def test_trl_has_every_field(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for table in ({}, {"trl": {"lora_rank": 8, "vllm": "server"}}, {"method": {"name": "gspo"}}):
        recipe = make_recipe({**table, "model": {"device": "cpu"}})
        check_arguments(recipe)
        assert {*arguments(recipe)} <= {*trl.GRPOConfig.__dataclass_fields__}
    with pytest.raises(DiverError, match="TRL refuses this recipe: .*unexpected keyword argument 'vlm_mode'"):
        check_arguments(make_recipe({"trl": {"options": {"vlm_mode": "server"}}}))


@pytest.mark.skipif(installed() >= OLDEST_OF_TRAINER, reason="where an older TRL is installed, `make test-trl-old`")
def test_an_older_trl_is_refused(monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        diver(monkeypatch, tmp_path, "train", "tiny.toml", "--engine", "trl", "--dry-run")
    told = capsys.readouterr().err.splitlines()[-1]
    assert stop.value.code == 2
    assert f"TRL {dotted(installed())} is installed; {dotted(OLDEST_OF_TRAINER)} or newer is needed" in told
