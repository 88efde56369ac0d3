"""The update of `DiverTrainer` is that of the built-in trainer on the same rollouts. `make test-trl`."""

import hashlib
import inspect
import os
import re
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("trl", reason="in the environment of `make test-trl` only")

from diver.integrations.trl.objective import dotted, installed

if installed() < (1, 16):
    pytest.skip("DiverTrainer is for TRL 1.16", allow_module_level=True)

import numpy as np
import pandas as pd
import torch
import trl
from peft import LoraConfig
from safetensors.torch import load_file
from test_lora import diver
from test_trl import example, names_of_page, run_example
from updates import OF_TWO, G, P, check_updates, logprobs, made

from diver.core.files import JsonlLog
from diver.core.settings import settings
from diver.core.types import DiverError
from diver.integrations.engines import refusals
from diver.integrations.trl import DiverTrainer
from diver.methods import METHODS, method_named
from diver.methods.grpo import Grpo

named = method_named
HERE = Path(__file__).parent
PAGE = (HERE.parents[2] / "docs" / "engines" / "trl.md").read_text(encoding="utf-8")


@settings
class Rising(Grpo):
    """An advantage for each token: that of GRPO, from 0 at the first token to all of it at the last."""

    name: str = "rising"
    per_token = True
    zero_mean = False
    formula_needs = frozenset({"tokens"})

    def advantages(self, group, context):
        each = zip(super().advantages(group, context), group.rollouts, strict=True)
        return [a * np.linspace(0, 1, r.length) for a, r in each]


ONE_STEP = {"steps_per_generation": 2, "per_device_train_batch_size": 8, "max_steps": 2}
CASES = {
    # name: (method, what the trainer is given, what `check_updates` is given, what must have happened)
    "grpo": (named("grpo"), {}, {}, "signal"),
    "verified-replay": (named("verified-replay"), {}, {}, "replayed"),
    "max-rl with replay, one step": (named("max-rl", replay={"alpha": 0.3}), ONE_STEP, {"mini": P}, "replayed"),
    "per token": (Rising(), {}, {}, "signal"),
    "gigpo, KL": (named("gigpo", loss={"kl_coef": 0.1}), {}, {}, "signal"),
    "pkpo": (named("pkpo", k=2), {}, {}, "signal"),
    "psr": (named("psr"), {}, {}, "dropped"),
    "nsr": (named("nsr"), {}, {}, "dropped"),
    "dapo": (named("dapo"), {}, {}, "dropped"),
    "selection": (named("grpo", selection={"keep": "most", "samples": 2}), {}, {}, "dropped"),
    "high-entropy": (named("high-entropy"), {}, {}, "selected"),
    "clip-cov": (named("clip-cov", loss={"low": 0.01, "fraction": 0.05}), {}, {}, "selected"),
    "kl-cov": (named("kl-cov", loss={"fraction": 0.1}), {}, {}, "selected"),
    "siren": (named("siren", loss={"beta": 0.5}), {}, {}, "selected"),
    "dppo": (named("dppo"), {}, {}, "signal"),
    "gmpo": (named("gmpo"), {}, {}, "signal"),
    "gspo": (named("gspo"), {}, {}, "signal"),
    "entropy-advantage": (named("entropy-advantage"), {}, {}, "signal"),
    "entropy-bonus": (named("entropy-bonus", loss={"entropy_coef": 0.1}), {}, {}, "signal"),
    "unlikeliness": (named("unlikeliness"), ONE_STEP, {"mini": P}, "signal"),
    "diver-mix, sum": (named("diver-mix", loss={"aggregation": "token-sum"}), {}, {}, "signal"),
    "retries": (named("grpo", selection={"retries": 2}), {}, {}, "retried"),
    "dph-rl": (named("dph-rl", start_responses=G, solved=0.25, coef=0.5), {}, {}, "replayed"),
    "dph-rl, js, 18 problems": (
        named("dph-rl", start_responses=G, solved=0.25, coef=0.5, divergence="js"),
        {"rows": 18},
        {},
        "dropped",
    ),
    "pba": (named("pba", start_responses=G, coef=0.5), {}, {}, "replayed"),
    "two iterations": (
        named("grpo", loss={"clip_low": 0.01, "clip_high": 0.02}),
        {"num_iterations": 2, "max_steps": 8},
        {"iterations": 2},
        "signal",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_update_is_that_of_the_built_in_trainer(tmp_path, name):
    method, given, about, happened = CASES[name]
    record = made(tmp_path, method, **given)
    record.trainer.train()
    assert len(record.generations) == 2
    seen = check_updates(record.generations, method, start=record.start, **about)
    assert getattr(seen, happened) and seen.signal
    if method.start_responses:
        assert [group.prompt for group in record.start] == [row["prompt"] for row in record.trainer.pool]
        kept, again = (
            [(name, [*entry["responses"]]) for name, entry in state["start"].items()]
            for state in (record.trainer.state_of_method, seen.state)
        )
        assert kept == again != [] and seen.dropped


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    words = [*launch, str(HERE / "updates.py"), str(folder), *OF_TWO]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.mark.parametrize("name", OF_TWO)
def test_two_processes_update_as_one(two_processes, name):
    parts = [torch.load(two_processes / f"{name}_{i}.pt", weights_only=False) for i in range(2)]
    assert [part["processes"] for part in parts] == [2, 2]
    for part in parts:
        generations = [SimpleNamespace(**generation) for generation in part["generations"]]
        seen = check_updates(generations, named(name, **OF_TWO[name]), start=part["start"])
        assert seen.signal and (seen.replayed or seen.dropped or seen.selected or seen.retried)


def test_a_run_resumes_within_a_generation(tmp_path):
    """After each optimizer step of four, which are two generations; the weights and the bank are then the same."""
    method = named("verified-replay")
    saves = {"save_strategy": "steps", "save_steps": 1, "optim": "adamw_torch", "learning_rate": 1e-3}
    whole = made(tmp_path, method, **saves)
    whole.trainer.train()
    for step in (1, 2, 3):
        again = made(tmp_path / "again", method, **saves).trainer
        again.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        for (name, one), other in zip(whole.trainer.model.named_parameters(), again.model.parameters(), strict=True):
            assert torch.equal(one, other), (step, name)
        assert str(again.state_of_method) == str(whole.trainer.state_of_method) and again.state_of_method
    (tmp_path / "checkpoint-1" / "generation_0.pt").unlink()
    with pytest.raises(DiverError, match="generation_0.pt: is missing, the rest of a generation; resume with as many"):
        made(tmp_path / "missing", method, **saves).trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))


START = "dph-rl", "--method.solved", "0.25", "--method.coef", "0.5"
RETRIES = "grpo", "--method.selection.retries", "1"


@pytest.mark.parametrize(
    "words", [("max-rl", "--method.replay.alpha", "0.3"), ("verified-replay",), ("dapo",), START, RETRIES]
)
def test_a_killed_command_resumes_with_equal_numbers(monkeypatch, tmp_path, words):
    def train(run):
        given = ["--method", *words, "--train.steps", "3", "--run.folder", run]
        diver(monkeypatch, tmp_path, "train", "tiny.toml", "--engine", "trl", *given)

    def figures(run):
        rows = JsonlLog(tmp_path / run / "metrics.jsonl").rows()
        return [{name: value for name, value in row.items() if not name.startswith("time/")} for row in rows]

    train("whole")
    process = get_context("fork").Process(target=train, args=("killed",))
    process.start()
    checkpoints = tmp_path / "killed" / "checkpoints"
    while process.is_alive() and not (checkpoints / "step_0001").exists():
        time.sleep(0.05)
    process.kill()  # with -9, within the second step
    process.join()
    assert process.exitcode == -signal.SIGKILL and not (checkpoints / "step_0003").exists()
    train("killed")
    assert figures("killed") == figures("whole") and len(figures("whole")) == 3
    assert words[0] in ("dapo", "grpo") or figures("whole")[2]["replay/rollouts"] > 0
    one, other = (load_file(tmp_path / run / "checkpoints/step_0003/model.safetensors") for run in ("whole", "killed"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_lora_with_replay(tmp_path):
    """By hand, of one optimizer step: ratios are 1, so the gradient is that of - sum of weight x A x log pi."""
    method = named("verified-replay", replay={"alpha": 0.3})
    lora = LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    record = made(tmp_path, method, peft_config=lora, **ONE_STEP)
    record.trainer.train()
    model, bank = record.trainer.model, {}
    for generation in record.generations:
        model.load_state_dict(generation.weights)
        model.zero_grad()
        tokens = sum(r.length for group in generation.groups for r in group.rollouts)
        for group in generation.groups:
            method.replay.remember(group, bank, generation.step - 1)
            for rollout in group.rollouts:
                (-rollout.advantage * logprobs(model, group, rollout).sum() / tokens).backward()
        again = method.replayed(bank, P, SimpleNamespace(step=generation.step - 1))
        assert again
        for group in again:
            for rollout in group.rollouts:
                value = logprobs(model, group, rollout).mean() / len(group) / len(again)
                (-rollout.advantage * value).backward()
        (found,) = generation.gradients
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        assert trained and all("lora_" in name for name in trained)
        for name, p in trained.items():
            assert (found[name] - p.grad).abs().max() < 1e-5 * max(1.0, float(p.grad.abs().max())), name


def test_tokens_of_an_environment_have_no_gradient(tmp_path):
    """They are the context of a replayed response, too."""
    made_of = []

    def rollout(prompts, trainer):
        ids, _, _ = trainer._tokenize_prompts(prompts)
        completions, _ = trainer._generate_single_turn(ids, None, {}, G)
        mask = [[int(i % 5 != 2) for i in range(len(row))] for row in completions]
        made_of.extend(zip(completions, mask, strict=True))
        return {
            "prompt_ids": ids,
            "completion_ids": completions,
            "logprobs": None,
            "env_mask": mask,
            "policy_mask": mask,
        }

    method = named("grpo", loss={"aggregation": "sequence-mean"})
    first = lambda completion_ids, **_: [float(sum(ids) % 2) for ids in completion_ids]  # noqa: E731
    record = made(tmp_path, method, rollout_func=rollout, outcome=first)
    record.trainer.train()
    rollouts = [r for generation in record.generations for group in generation.groups for r in group.rollouts]
    assert [(r.sequence[0].tolist(), r.sequence[1].tolist()) for r in rollouts] == [
        (ids, [bool(m) for m in mask]) for ids, mask in made_of
    ]
    assert check_updates(record.generations, method).signal


def test_an_evaluation_has_the_outcome_and_changes_nothing(tmp_path):
    evaluation = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4}
    rows = made(tmp_path / "rows", named("grpo")).trainer.train_dataset.select(range(1))
    record = made(tmp_path, named("verified-replay"), eval_dataset=rows, **evaluation)
    record.trainer.train()
    logged = [row["eval_reward"] for row in record.trainer.state.log_history if "eval_reward" in row]
    assert len(logged) == 4 and all(0 <= reward <= 1 for reward in logged)
    assert check_updates(record.generations, named("verified-replay")).replayed


def test_what_no_update_of_whole_groups_can_be_made_of_is_refused(tmp_path):
    for given, told in (
        ({"gradient_accumulation_steps": 3}, "steps_per_generation 4 / gradient_accumulation_steps 3 must"),
        ({"num_generations": 16}, "must divide 1 problems"),
        ({"epsilon": 0.3}, r"set epsilon=0.2 \(it is 0.3\)"),
        ({"beta": 0.1}, r"set beta=0.0 \(it is 0.1\)"),
        ({"off_policy_mask_threshold": 0.5}, "set off_policy_mask_threshold=None"),
        ({"top_entropy_quantile": 0.2}, "set top_entropy_quantile=1.0"),
    ):
        with pytest.raises(DiverError, match=told) as raised:
            made(tmp_path, named("grpo"), **given)
        assert "\n" not in str(raised.value)
    with pytest.raises(DiverError, match="start_responses = 8: set it to num_generations = 4"):
        made(tmp_path, named("dph-rl"))
    with pytest.raises(DiverError, match="num_generations = 4: is no multiple of method.selection.samples"):
        made(tmp_path, named("grpo", selection={"keep": "most", "samples": 3}))


def test_the_example_of_the_page_trains(tmp_path, monkeypatch):
    _, given = run_example(example("DiverTrainer"), tmp_path, monkeypatch, **names_of_page())
    assert given["reward"].method.name == "verified-replay" and given["reward"].sampled


def test_retries_keep_the_fields_of_each_row_and_the_table_of_completions(tmp_path):
    """A rollout_func writes a field into each row, and an evaluation adds rows of its own to the table."""

    def rollout(prompts, trainer):
        ids, _, _ = trainer._tokenize_prompts(prompts)
        completions, _ = trainer._generate_single_turn(ids, None, {}, G)
        totals = [sum(row) for row in completions]
        return {"prompt_ids": ids, "completion_ids": completions, "logprobs": None, "total": totals}

    def outcome(completion_ids, total, **_):
        assert total == [sum(row) for row in completion_ids]
        return [float(number % 5 == 0) for number in total]

    method = named("grpo", selection={"retries": 2})
    rows = made(tmp_path / "rows", named("grpo")).trainer.train_dataset.select(range(1))
    evaluation = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4, "eval_dataset": rows}
    table = {"log_completions": True, "logging_steps": 1}
    record = made(tmp_path, method, rollout_func=rollout, outcome=outcome, **evaluation, **table)
    record.trainer.train()
    assert check_updates(record.generations, method).retried
    (first, *_) = sorted(tmp_path.glob("completions/*.parquet"))
    found = pd.read_parquet(first)
    (name,) = record.trainer.reward_func_names
    assert len(found) == P * G and (found[name] == found["outcome"]).all()
    rows = [(group.prompt, r.response, r.advantage) for group in record.generations[0].groups for r in group.rollouts]
    told = [*zip(found["prompt"], found["completion"], found["advantage"], strict=True)][:-4]  # the last are evaluated
    last = rows[-P * G + 4 :]
    assert [row[:2] for row in told] == [row[:2] for row in last]
    assert [row[2] for row in told] == pytest.approx([row[2] for row in last])
    tokens = [row["num_tokens"] for row in record.trainer.state.log_history if "num_tokens" in row]
    assert tokens[-1] == record.trainer.state.num_input_tokens_seen


@pytest.mark.parametrize("own", [False, True])
def test_problems_without_an_id_are_told_apart(tmp_path, own):
    """Eight problems in two generations, whose rows have the same places in their batches."""
    outcome = (lambda completion_ids, **_: [float(sum(ids) % 2) for ids in completion_ids]) if own else None
    record = made(tmp_path, named("grpo"), outcome=outcome)
    record.trainer.train()
    groups = [group for generation in record.generations for group in generation.groups]
    assert len({group.problem.id for group in groups}) == len({group.prompt for group in groups}) == 2 * P


@pytest.mark.parametrize("outcome", [None, lambda completion_ids, **_: [0.0] * len(completion_ids)])
def test_one_id_of_two_prompts_is_refused_where_a_method_keeps_a_state(tmp_path, outcome):
    ids = [*range(15), 3]
    method = named("dph-rl", start_responses=G)
    with pytest.raises(DiverError, match=r"train_dataset\[15\]: another prompt has the id '?3'?, too; give"):
        made(tmp_path, method, ids=ids, outcome=outcome)
    assert made(tmp_path, named("grpo"), ids=ids, outcome=outcome)  # keeps nothing


def test_every_method_is_carried():
    assert not [name for name in METHODS if "DiverTrainer" in refusals(named(name))]


def test_trl_is_the_one_that_was_read():
    """The page names each method of TRL on which the trainer depends: its line, and a digest of its source."""
    rows = re.findall(r"^\| `(\w+)` +\| (\w+) +\| (\d+) +\| `(\w{12})` +\|", PAGE, re.MULTILINE)
    own = {name for name, value in vars(DiverTrainer).items() if inspect.isfunction(value)}
    assert {name for name, how, *_ in rows if how == "overridden"} == own & {*dir(trl.GRPOTrainer)} - {"__init__"}
    changed = []
    for name, _, line, digest in rows:
        source, first = inspect.getsourcelines(getattr(trl.GRPOTrainer, name))
        now = hashlib.sha256("".join(source).encode()).hexdigest()[:12]
        if (line, digest) != (str(first), now):
            changed.append(f"{name}: line {first}, `{now}`")
    assert rows and not changed, f"TRL {dotted(installed())} has changed {'; '.join(changed)}: read them again"
