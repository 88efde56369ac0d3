"""Same weights, same rollouts: verl and the built-in trainer have the same advantages and the same gradients.

One recipe goes both ways: `diver train --engine verl` makes verl's configuration of it,
and the built-in trainer reads it itself.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("verl.trainer.ppo", reason="in the environment of `make test-verl` only")

import on_cpu
import stock

from diver.core.types import Progress
from diver.grading import verify, with_keys
from diver.integrations.verl.launch import command
from diver.recipe.recipe import make_recipe
from diver.sample.hf import HFGenerator, sample_groups
from diver.sample.policy import load_policy
from diver.tasks.splits import load
from diver.tasks.templates import prompted
from diver.train.update import update

HERE = Path(__file__).parent
PROMPTS, G, MINI, PROGRESS = 8, 8, 4, Progress(1, 4)
CASES = {  # method, loss, how verl cuts a mini-batch of 32 rows
    "dynamic batches": ("diver-mix", {}, {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 200}),
    "rows": ("diver-mix", {}, {"use_dynamic_bsz": False, "ppo_micro_batch_size_per_gpu": 4}),
    "equation 1": (
        "clip-higher",
        {"aggregation": "token-sum"},
        {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 200},
    ),
    "means": ("grpo", {"aggregation": "sequence-mean"}, {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 200}),
    "entropy": ("diver-mix", {"entropy_coef": 0.01}, {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 200}),
    "annealed": ("diver-annealed", {}, {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 200}),
    "not centred": ("w-reinforce", {}, {"use_dynamic_bsz": False, "ppo_micro_batch_size_per_gpu": 4}),
    "pass-at-k": ("pass-at-k", {}, {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 200}),
}
DYNAMIC = {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 200}
REPLAYS = {  # aggregation, problems in a mini-batch, how verl cuts it; the last is run by two ranks
    "replay": ("token-mean", 8, DYNAMIC),
    "replay, rows": ("token-mean", 8, {"use_dynamic_bsz": False, "ppo_micro_batch_size_per_gpu": 4}),
    "replay, equation 1": ("token-sum", 8, DYNAMIC),
    "replay, means": ("sequence-mean", 8, DYNAMIC),
    "replay, two mini-batches": ("token-mean", 4, DYNAMIC),
    "replay, two ranks": ("token-mean", 8, DYNAMIC),
}
FAULTS = {  # what must not agree: verl's own third bound on the ratio, and its other way to add up
    "dual clip": ("diver-mix", {}, {"clip_ratio_c": 3.0, "ppo_max_token_len_per_gpu": 200}),
    "other sum": ("diver-mix", {}, {"loss_agg_mode": "seq-mean-token-mean", "ppo_max_token_len_per_gpu": 200}),
}


def recipe_of(method, loss, mini=MINI, **settings):
    return make_recipe(
        {
            "sample": {"group_size": G, "temperature": 0.8, "max_tokens": 40, "max_prompt_tokens": 24},
            "method": {"name": method, "loss": loss, **settings},
            "train": {"batch_size": PROMPTS, "mini_batch_size": mini, "micro_batch_tokens": 300, "max_grad_norm": 1e9},
            "model": {"threads": 1},
            "verl": {"attention": "sdpa"},
        }
    )


def rollout_batch(policy):
    """Sampled and verified groups; their log-probs are moved by up to 1.6, so tokens of both signs are clipped."""
    recipe = recipe_of("grpo", {})
    train, _, _ = load(recipe.data, None, 0)
    given = prompted(train[:PROMPTS], "plain", policy.tokenizer, 24)
    generator = HFGenerator(policy, max_num_seqs=64)
    groups = sample_groups(generator, given.problems, given.texts, G, temperature=0.8, max_tokens=40, seed=4)
    rng = np.random.default_rng(3)
    moved = [
        group.with_each(
            logprobs=[(r.logprobs + rng.uniform(-1.6, 1.6, r.length)).astype(np.float32) for r in group.rollouts]
        )
        for group in groups
    ]
    return with_keys(verify(moved))


class Recorder(torch.optim.SGD):
    """Keeps the gradient of every step, and does not move the parameters."""

    def __init__(self, model):
        super().__init__(model.parameters(), lr=0.0)
        self.named, self.gradients = dict(model.named_parameters()), []

    def step(self, closure=None):
        self.gradients.append({name: p.grad.clone() for name, p in self.named.items()})


def ours(policy, groups, recipe, replayed=None):
    recorder = Recorder(policy.model)
    method = recipe.method
    metrics = update(policy, recorder, groups, method.loss, recipe.train, temperature=0.8, replayed=replayed)
    return recorder.gradients, metrics


def shaped_and_replayed(method, groups):
    """An even number of groups is replayed, so that each of two mini-batches has the same number."""
    state = {}
    shaped = method.apply(groups, Progress(0, 4), state=state)
    replayed = method.replayed(state, PROMPTS, PROGRESS)
    return shaped, replayed[: len(replayed) // 2 * 2]


def options_of(recipe, changes):
    """The command of `diver train --engine verl`, and what a CPU needs: float32, another place, no GPU."""
    cpu = {
        k.lstrip("+"): k for k in stock.OPTIONS if "fsdp_config" in k or k.endswith(("strategy", "use_torch_compile"))
    }
    extra = [f"{full}={str(stock.OPTIONS[full]).lower()}" for full in cpu.values()]
    extra += ["trainer.device=cpu", "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4"]
    extra += [f"actor_rollout_ref.actor.{key}={str(value).lower()}" for key, value in changes.items()]
    return command(recipe, extra)[2:]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """For each case: our groups, gradients and metrics, and verl's advantages and gradients."""
    folder = tmp_path_factory.mktemp("agreement")
    policy = load_policy(recipe_of("grpo", {}).model)
    groups = rollout_batch(policy)
    mine, cases = {}, []

    def add(name, recipe, shaped, changes, replayed=None):
        mine[name] = shaped, *ours(policy, shaped, recipe, replayed)
        rows = [(g, r) for g in shaped for r in g.rollouts]
        batch = {
            "groups": groups,
            "progress": PROGRESS,
            "uid": [g.problem.id for g, _ in rows],
            "prompts": [list(g.prompt_tokens) for g, _ in rows],
            "tokens": [list(r.tokens) for _, r in rows],
            "logprobs": [r.logprobs for _, r in rows],
            **({} if replayed is None else {"replayed": replayed}),
        }
        cases.append({"options": options_of(recipe, changes), "batch": batch})

    for name, (method, loss, changes) in {**CASES, **FAULTS}.items():
        recipe = recipe_of(method, loss)
        add(name, recipe, recipe.method.apply(groups, PROGRESS), changes)
    for name, (aggregation, mini, changes) in REPLAYS.items():
        recipe = recipe_of("verified-replay", {"aggregation": aggregation}, mini, replay={"alpha": 0.5})
        shaped, replayed = shaped_and_replayed(recipe.method, groups)
        add(name, recipe, shaped, changes, replayed)
    found = in_verl(folder / "one", cases[:-1], ranks=1) + in_verl(folder / "two", cases[-1:], ranks=2)
    return {name: (*mine[name], theirs) for name, theirs in zip(mine, found, strict=True)}


def in_verl(folder, cases, ranks):
    """What verl's actor gives for each case, with the log-probs of replayed rows from all ranks."""
    folder.mkdir()
    torch.save(cases, folder / "cases")
    arguments = [sys.executable, str(HERE / "agreement.py"), str(folder / "cases"), str(folder / "found")]
    of_rank = ({"RANK": str(rank), "WORLD_SIZE": str(ranks)} for rank in range(ranks))
    processes = [on_cpu.start(arguments, folder, f"log{rank}", **given) for rank, given in enumerate(of_rank)]
    try:
        for rank, process in enumerate(processes):
            assert process.wait(on_cpu.HANGS_S) == 0, (folder / f"log{rank}").read_text()[-4000:]
    finally:
        for process in processes:
            on_cpu.kill(process)
    found, *others = (torch.load(folder / f"found{rank}") for rank in range(ranks))
    for other in others:
        for of_case, theirs in zip(found, other, strict=True):
            of_case["logprobs"] |= theirs["logprobs"]
    for of_case in found:
        of_case["logprobs"] = [of_case["logprobs"][row] for row in sorted(of_case["logprobs"])]
    return found


def relative_errors(ours, theirs):
    assert len(ours) == len(theirs)
    errors = []
    for a, b in zip(ours, theirs, strict=True):
        assert a.keys() == b.keys()
        whole = [torch.cat([gradients[name].flatten() for name in a]).double() for gradients in (a, b)]
        errors.append(float((whole[0] - whole[1]).norm() / whole[1].norm()))
    return errors


@pytest.mark.parametrize("name", CASES)
def test_advantages_agree(both, name):
    groups, _, _, theirs = both[name]
    ours = np.concatenate([g.advantages for g in groups])
    assert np.abs(ours).max() > 0.5
    np.testing.assert_allclose(theirs["advantages"].numpy(), ours, atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_gradients_agree(both, name):
    _, gradients, _, theirs = both[name]
    assert max(relative_errors(gradients, theirs["gradients"])) < 1e-4


@pytest.mark.parametrize("name", FAULTS)
def test_what_differs_is_seen(both, name):
    _, gradients, _, theirs = both[name]
    assert min(relative_errors(gradients, theirs["gradients"])) > 1e-2


def summed(gradients):
    return [{name: sum(each[name] for each in gradients) for name in gradients[0]}]


@pytest.mark.parametrize("name", REPLAYS)
def test_updates_with_replay_agree(both, name):
    """The gradient of a mini-batch, or the sum of those of two, since verl spreads replayed rows over them
    in another way."""
    _, gradients, metrics, theirs = both[name]
    assert len(theirs["gradients"]) == len(gradients) == PROMPTS // REPLAYS[name][1]
    assert max(relative_errors(summed(gradients), summed(theirs["gradients"]))) < 1e-4
    assert metrics["policy/clip_fraction"] > 0.1 and metrics["replay/gradient_share"] > 0.03
    assert len(theirs["logprobs"]) == metrics["replay/rollouts"] > metrics["replay/problems"]
    assert np.mean([float(row.mean()) for row in theirs["logprobs"]]) == pytest.approx(
        metrics["replay/logprob"], abs=1e-5
    )


def test_old_log_probs_of_replayed_rollouts_agree(both):
    groups, _, _, theirs = both["replay"]
    _, replayed = shaped_and_replayed(recipe_of("verified-replay", {}, replay={"alpha": 0.5}).method, groups)
    policy = load_policy(recipe_of("grpo", {}).model)
    expected = [logprobs_of(policy, group, rollout) for group in replayed for rollout in group.rollouts]
    for found, values in zip(theirs["logprobs"], expected, strict=True):
        np.testing.assert_allclose(found.numpy(), values.numpy(), atol=1e-5, rtol=0)


def test_what_replay_adds_is_seen(both):
    _, gradients, _, _ = both["replay"]
    without = ours(load_policy(recipe_of("grpo", {}).model), both["replay"][0], recipe_of("verified-replay", {}, 8))[0]
    assert min(relative_errors(without, gradients)) > 1e-2


def logprobs_of(policy, group, rollout):
    """log pi of each token of a response, at temperature 0.8."""
    row = torch.tensor([[*group.prompt_tokens, *rollout.tokens]])
    with torch.no_grad():
        logits = policy.model(row).logits[0, -len(rollout.tokens) - 1 : -1] / 0.8
    return logits.log_softmax(-1)[torch.arange(len(rollout.tokens)), torch.tensor(list(rollout.tokens))]


def test_tokens_of_both_signs_are_clipped(both):
    """In every mini-batch: rho above 1.28 with A > 0, and below 0.8 with A < 0; and above 3 with A < 0."""
    groups, _, metrics, _ = both["rows"]
    assert metrics["policy/clip_fraction"] > 0.1
    policy = load_policy(recipe_of("grpo", {}).model)
    for start in range(0, PROMPTS, MINI):
        seen = {"high": 0, "low": 0, "third": 0}
        for group in groups[start : start + MINI]:
            for r in group.rollouts:
                now = logprobs_of(policy, group, r)
                ratio = torch.exp(now - torch.from_numpy(r.logprobs))
                seen["high"] += int((ratio > 1.28).sum()) * (r.advantage > 0)
                seen["low"] += int((ratio < 0.8).sum()) * (r.advantage < 0)
                seen["third"] += int((ratio > 3).sum()) * (r.advantage < 0)
        assert all(seen.values()), seen
