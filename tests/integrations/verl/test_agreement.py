"""Same weights, same rollouts: verl and the built-in trainer have the same advantages and the same gradients.

One recipe goes both ways: `diver verl` makes verl's configuration of it, and the built-in trainer reads it itself.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("verl.trainer.ppo", reason="in the environment of `make test-verl` only")

import stock

from diver.config.recipe import make_recipe
from diver.data.splits import load
from diver.data.templates import prompted
from diver.generate.base import sample_groups
from diver.generate.hf import HFGenerator
from diver.generate.policy import load_policy
from diver.integrations.verl.launch import command
from diver.train.update import update
from diver.verify import verify

HERE = Path(__file__).parent
PROMPTS, G, MINI, PROGRESS = 8, 8, 4, 0.25
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
FAULTS = {  # what must not agree: verl's own third bound on the ratio, and its other way to add up
    "dual clip": ("diver-mix", {}, {"clip_ratio_c": 3.0, "ppo_max_token_len_per_gpu": 200}),
    "other sum": ("diver-mix", {}, {"loss_agg_mode": "seq-mean-token-mean", "ppo_max_token_len_per_gpu": 200}),
}


def recipe_of(method, loss):
    return make_recipe(
        {
            "sample": {"group_size": G, "temperature": 0.8, "max_tokens": 40, "max_prompt_tokens": 24},
            "method": {"name": method, "loss": loss},
            "train": {"batch_size": PROMPTS, "mini_batch_size": MINI, "micro_batch_tokens": 300, "max_grad_norm": 1e9},
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
    return verify(moved)


class Recorder(torch.optim.SGD):
    """Keeps the gradient of every step, and does not move the parameters."""

    def __init__(self, model):
        super().__init__(model.parameters(), lr=0.0)
        self.named, self.gradients = dict(model.named_parameters()), []

    def step(self, closure=None):
        self.gradients.append({name: p.grad.clone() for name, p in self.named.items()})


def ours(policy, groups, recipe):
    recorder = Recorder(policy.model)
    method = recipe.method
    metrics = update(policy, recorder, groups, method.loss, recipe.train, temperature=0.8)
    return recorder.gradients, metrics


def options_of(recipe, changes):
    """The command of `diver verl`, and what a CPU needs: float32, another place, no GPU."""
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
    for name, (method, loss, changes) in {**CASES, **FAULTS}.items():
        recipe = recipe_of(method, loss)
        shaped = recipe.method.apply(groups, PROGRESS)
        mine[name] = shaped, *ours(policy, shaped, recipe)
        rows = [(g, r) for g in shaped for r in g.rollouts]
        batch = {
            "groups": groups,
            "progress": PROGRESS,
            "uid": [g.problem.id for g, _ in rows],
            "prompts": [list(g.prompt_tokens) for g, _ in rows],
            "tokens": [list(r.tokens) for _, r in rows],
            "logprobs": [r.logprobs for _, r in rows],
        }
        cases.append({"options": options_of(recipe, changes), "batch": batch})
    torch.save(cases, folder / "cases")
    arguments = [sys.executable, str(HERE / "agreement.py"), str(folder / "cases"), str(folder / "found")]
    done = subprocess.run(arguments, env=stock.environment(folder), capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-4000:]
    return {name: (*mine[name], found) for name, found in zip(mine, torch.load(folder / "found"), strict=True)}


def relative_errors(ours, theirs):
    assert len(ours) == len(theirs) == PROMPTS // MINI
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


def test_tokens_of_both_signs_are_clipped(both):
    """In every mini-batch: rho above 1.28 with A > 0, and below 0.8 with A < 0; and above 3 with A < 0."""
    groups, _, metrics, _ = both["rows"]
    assert metrics["policy/clip_fraction"] > 0.1
    policy = load_policy(recipe_of("grpo", {}).model)
    for start in range(0, PROMPTS, MINI):
        seen = {"high": 0, "low": 0, "third": 0}
        for group in groups[start : start + MINI]:
            for r in group.rollouts:
                row = torch.tensor([[*group.prompt_tokens, *r.tokens]])
                with torch.no_grad():
                    logits = policy.model(row).logits[0, -len(r.tokens) - 1 : -1] / 0.8
                now = logits.log_softmax(-1)[torch.arange(len(r.tokens)), torch.tensor(list(r.tokens))]
                ratio = torch.exp(now - torch.from_numpy(r.logprobs))
                seen["high"] += int((ratio > 1.28).sum()) * (r.advantage > 0)
                seen["low"] += int((ratio < 0.8).sum()) * (r.advantage < 0)
                seen["third"] += int((ratio > 3).sum()) * (r.advantage < 0)
        assert all(seen.values()), seen
