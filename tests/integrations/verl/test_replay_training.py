"""`diver train --engine verl` with replay, killed and started again: what is replayed, what it is trained with,
and what is logged."""

import json

import numpy as np
import pytest

pytest.importorskip("verl.trainer.ppo", reason="in the environment of `make test-verl` only")

import stock
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from waiting import until

from diver.core.files import JsonlLog, lock
from diver.core.types import DiverError
from diver.train.checkpoint import read_state

RECIPE = """
[run]
folder = "run"
[model]
path = "policy"
[data.countdown]
problems = 24
[sample]
group_size = 4
temperature = 0.8
max_tokens = 40
max_prompt_tokens = 24
[method]
name = "verified-replay"
[train]
steps = 3
batch_size = 8
mini_batch_size = 4
learning_rate = 1e-4
save_steps = 1
[evaluate]
problems = 0
[verl]
gpus = 1
attention = "sdpa"
"""
STEPS = (1, 2, 3)
CORRECTION = {"": "token", "_batch_normalize": True}
"""verl weighs tokens by how far the sampler is from the trainer; here both compute in float32."""


def is_free(run):
    try:
        lock(run).close()
    except DiverError:
        return False
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Killed with -9 after the second step and started again."""
    home = tmp_path_factory.mktemp("replay")
    stock.prepare(home)
    (home / "replay.toml").write_text(RECIPE)
    options = {"trainer.default_local_dir": home / "checkpoints", "trainer.rollout_data_dir": home / "rollouts"}
    options |= {f"algorithm.rollout_correction.rollout_is{key}": value for key, value in CORRECTION.items()}
    options["trainer.max_actor_ckpt_to_keep"] = len(STEPS)  # the tests read the bank of each step
    arguments = stock.verb("replay.toml", **options)
    assert stock.started(home, arguments, 2) >= 2
    until(lambda: is_free(home / "run"))  # Ray ends its workers a little later
    stock.run(home, arguments, VERL_FILE_LOGGER_PATH=str(home / "resumed.jsonl"))
    return home


def checkpoint(folder, step):
    return folder / "checkpoints" / f"global_step_{step}"


def bank(folder, step):
    return read_state(checkpoint(folder, step))["replay"] if step else {}


def replayed(folder, step):
    """(prompt, tokens, age) of what a step replayed: the problems that the saved bank has last, eight at most."""
    return [
        (entry["prompt"], response["tokens"], step - 1 - response["found"])
        for entry in list(bank(folder, step).values())[-stock.PROMPTS :]
        for response in entry["responses"].values()
    ]


def logged(folder):
    return stock.metrics(folder) | stock.metrics(folder, "resumed.jsonl")


def test_the_bank_has_every_solution_of_every_step_also_after_the_kill(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder / "policy")

    def text(tokens):
        return tokenizer.decode(tokens, skip_special_tokens=True)

    for step in STEPS:
        solved = [(row["input"], row["output"]) for row in stock.dump(folder, step) if row["grade"] == "correct"]
        before, after = bank(folder, step - 1), bank(folder, step)
        for name, entry in before.items():
            for solution, response in entry["responses"].items():
                kept = after[name]["responses"][solution]
                assert {**kept, "tokens": kept["tokens"].tolist()} == {
                    **response,
                    "tokens": response["tokens"].tolist(),
                }
        new = {name: entry for name, entry in after.items() if name not in before}  # no problem comes twice in 3 steps
        found = [(entry, response) for entry in new.values() for response in entry["responses"].values()]
        assert {response["found"] for _, response in found} == {step - 1}
        assert sum(response["seen"] for _, response in found) == len(solved) > len(found) / 2 > 0
        assert {(text(entry["prompt"]), text(response["tokens"])) for entry, response in found} <= {*solved}


def test_the_second_step_replays_what_the_first_has_found(folder):
    names = list(bank(folder, 2))[-stock.PROMPTS :]
    assert set(bank(folder, 1)) <= set(names)
    ages = [age for _, _, age in replayed(folder, 2)]
    assert 1 in ages and {age for _, _, age in replayed(folder, 1)} == {0}


def test_a_step_has_as_many_optimizer_steps_as_without_replay(folder):
    for step in STEPS:
        saved = torch.load(checkpoint(folder, step) / "actor" / "optim_world_size_1_rank_0.pt", weights_only=False)
        assert {int(of["step"]) for of in saved["state"].values()} == {2 * step}


def test_the_metrics_are_of_what_was_replayed(folder):
    rows = {row["step"]: row for row in JsonlLog(folder / "run" / "metrics.jsonl").rows()}
    assert list(rows) == list(STEPS)
    for step, verls in logged(folder).items():
        ours = {name.removeprefix("diver/"): value for name, value in verls.items() if "/replay/" in name}
        given, whole = replayed(folder, step), bank(folder, step)
        assert {name: rows[step][name] for name in ours} == pytest.approx(ours)
        assert ours["replay/rollouts"] == len(given) and ours["replay/tokens"] == sum(len(t) for _, t, _ in given)
        assert ours["replay/problems"] == min(stock.PROMPTS, len(whole))
        assert ours["replay/age"] == pytest.approx(np.mean([age for *_, age in given]))
        assert ours["replay/bank_problems"] == len(whole)
        assert ours["replay/bank_responses"] == sum(len(entry["responses"]) for entry in whole.values())
        assert 0 < ours["replay/gradient_share"] < 1


def test_replayed_rows_have_the_prompts_that_they_were_sampled_with(folder):
    """Their mean log-prob under the initial policy is that which transformers gives, with no verl in between."""
    model = AutoModelForCausalLM.from_pretrained(folder / "policy", dtype=torch.float32).eval()
    means = []
    for prompt, tokens, _ in replayed(folder, 1):
        row = torch.from_numpy(np.concatenate([prompt, tokens])).long()[None]
        with torch.no_grad():
            logits = model(row).logits[0, len(prompt) - 1 : -1] / 0.8
        means.append(float(logits.log_softmax(-1).gather(-1, row[0, len(prompt) :, None]).mean()))
    assert logged(folder)[1]["diver/replay/logprob"] == pytest.approx(np.mean(means), abs=1e-5)


def test_what_is_logged_and_dumped_is_of_sampled_responses(folder):
    for step, verls in logged(folder).items():
        rows = stock.dump(folder, step)
        assert len(rows) == stock.PROMPTS * stock.GROUP and not any(
            row["uid"].startswith(("replay", "pad")) for row in rows
        )
        text = (folder / "run" / "rollouts" / f"step_{step:04d}.jsonl").read_text()
        kept = [json.loads(line) for line in text.splitlines()]
        assert sorted(row["response"] for row in kept) == sorted(row["output"] for row in rows)
        lengths = [row["length"] for row in kept]
        assert verls["response_length/mean"] == pytest.approx(np.mean(lengths), rel=1e-6)
        assert verls["response_length/max"] == max(lengths)
        assert verls["critic/score/mean"] == pytest.approx(np.mean([row["score"] for row in rows]))
        assert verls["critic/advantages/max"] == pytest.approx(max(row["advantage"] for row in rows), rel=1e-6)
        assert verls["training/rollout_probs_diff_max"] < 1e-4 and verls["diver/policy/logprob_mismatch"] < 1e-4
        assert verls["rollout_corr/rollout_is_mean"] == pytest.approx(1, abs=1e-4)
        assert verls["training/global_step"] == step and verls["actor/grad_norm"] > 0
