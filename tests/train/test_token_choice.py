"""Losses that select tokens: the selection is that of the whole mini-batch, however it is cut into micro-batches.

As in test_gradient.py, the reference takes one response at a time, with plain sums; it selects with sorted lists.
What it must tell apart: a selection within each micro-batch, and one that does not see the rows of zero advantage.
"""

import math
from functools import cache

import pytest
import torch
from test_gradient import GROUPS, MINI, Recorder, Tokenizer, relative_errors, rollout_batch, tiny_model

from diver.losses import ClipCovLoss, HighEntropyLoss, KlCovLoss
from diver.recipe.sections import Update
from diver.sample.policy import Policy
from diver.train.update import update

TEMPERATURE, SEED = 0.8, 11
LOSSES = {
    "clip-cov": ClipCovLoss(clip_low=0.2, clip_high=0.28, fraction=0.05, low=0.2, high=2.0),
    "kl-cov": KlCovLoss(fraction=0.25, coef=0.7),
    "high-entropy": HighEntropyLoss(top_entropy_fraction=0.4),
}
EACH = pytest.mark.parametrize("name", LOSSES)


def engine(loss, budget=40, seed=SEED, skip=True):
    model = tiny_model()
    groups = rollout_batch(TEMPERATURE)
    recorder = Recorder(model)
    how = Update(mini_batch_size=MINI, micro_batch_tokens=budget, skip_zero_advantage=skip, max_grad_norm=1e9)
    policy = Policy(model, Tokenizer(), None)
    metrics = update(policy, recorder, groups, loss, how, temperature=TEMPERATURE, seed=seed)
    return recorder.gradients, metrics


def selected_of(loss, tokens):
    """Of tokens (log-prob, entropy, old, advantage, uniform): the indices that the loss selects."""
    mean_logprob = sum(t[0] for t in tokens) / len(tokens)
    mean_advantage = sum(t[3] for t in tokens) / len(tokens)
    product = [(t[0] - mean_logprob) * (t[3] - mean_advantage) for t in tokens]
    if loss.name == "kl-cov":
        fraction, order = loss.fraction, sorted(range(len(tokens)), key=lambda i: -product[i])
    elif loss.name == "clip-cov":
        fraction = loss.fraction
        low, high = 1 - loss.clip_low, 1 + loss.clip_high
        ratio = [math.exp(t[0] - t[2]) for t in tokens]
        is_clipped = [(t[3] > 0 and r > high) or (t[3] < 0 and r < low) for r, t in zip(ratio, tokens, strict=True)]
        candidates = [i for i in range(len(tokens)) if loss.low < product[i] < loss.high and not is_clipped[i]]
        order = sorted(candidates, key=lambda i: tokens[i][4])
        assert len(candidates) > fraction * len(tokens) or len(tokens) < 30
    else:
        fraction, order = loss.top_entropy_fraction, sorted(range(len(tokens)), key=lambda i: -tokens[i][1])
    return set(order[: max(1, int(fraction * len(tokens)))])


@cache
def written_out(name, micro=None, without_zeros=False):
    """The gradient of every mini-batch; `micro` rows at a time choose for themselves (a fault)."""
    loss, model = LOSSES[name], tiny_model()
    groups = rollout_batch(TEMPERATURE)
    random = torch.Generator().manual_seed(SEED)
    gradients = []
    for start in range(0, GROUPS, MINI):
        model.zero_grad()
        rows = []
        for group in groups[start : start + MINI]:
            for r in group.rollouts:
                prompt = group.prompt_tokens
                logits = model(input_ids=torch.tensor([[*prompt, *r.tokens]])).logits[0, len(prompt) - 1 : -1]
                logp = torch.log_softmax(logits / TEMPERATURE, -1)
                taken = logp[torch.arange(r.length), torch.tensor(r.tokens)]
                rows.append((taken, -(logp.exp() * logp).sum(-1), r.logprobs, r.advantage))
        total = sum(len(row[0]) for row in rows)
        uniform = iter(torch.rand(total, generator=random).tolist())
        seen = [[(t[0], t[1], o, a, next(uniform)) for *t, o in zip(p, h, old)] for p, h, old, a in rows]  # noqa: B905
        objective = torch.zeros((), dtype=torch.float64)
        size = micro or len(rows)
        for i in range(0, len(rows), size):
            flat = [t for row in seen[i : i + size] for t in row if not (without_zeros and t[3] == 0)]
            numbers = [(p.item(), h.item(), float(o), a, u) for p, h, o, a, u in flat]
            selected = selected_of(loss, numbers) if flat else set()
            if loss.name == "kl-cov" and start == 0:
                selected = set()
            for j, (logprob, _, old, advantage, _) in enumerate(flat):
                ratio = torch.exp(logprob - old)
                if loss.name == "kl-cov":
                    objective += ratio * advantage - (j in selected) * loss.coef * (logprob - old).abs()
                elif (j in selected) == (loss.name == "high-entropy"):
                    bounded = torch.clamp(ratio, 1 - loss.clip_low, 1 + loss.clip_high)
                    objective += torch.minimum(ratio * advantage, bounded * advantage)
        (-objective / total).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    return gradients


@EACH
@pytest.mark.parametrize("budget", [1, pytest.param(40, marks=pytest.mark.slow), 10_000])
def test_equals_the_written_out_formula_whatever_the_micro_batches(name, budget):
    ours, _ = engine(LOSSES[name], budget)
    assert max(relative_errors(ours, written_out(name))) < 1e-5


@EACH
@pytest.mark.parametrize(
    "fault", [{"micro": 3}, {"without_zeros": True}], ids=["within micro-batches", "without zeros"]
)
def test_each_fault_is_told_apart(name, fault):
    errors = relative_errors(engine(LOSSES[name])[0], written_out(name, **fault))
    assert max(errors) > 1e-3


@EACH
def test_rows_left_out_of_the_gradient_have_none(name):
    all_rows, everything = engine(LOSSES[name], skip=False)
    ours, metrics = engine(LOSSES[name])
    assert max(relative_errors(ours, all_rows)) < 1e-6
    assert metrics["policy/active_token_frac"] < everything["policy/active_token_frac"] == 1
    assert metrics["policy/selected_frac"] == everything["policy/selected_frac"] > 0


def test_the_seed_is_that_of_clip_cov():
    loss = LOSSES["clip-cov"]
    assert max(relative_errors(engine(loss)[0], engine(loss)[0])) == 0
    assert max(relative_errors(engine(loss)[0], engine(loss, seed=SEED + 1)[0])) > 1e-3


def test_the_share_is_of_the_mini_batch():
    """Two fifths of the tokens of each mini-batch, rounded down."""
    groups = rollout_batch(TEMPERATURE)
    tokens = [sum(r.length for g in groups[i : i + MINI] for r in g.rollouts) for i in range(0, GROUPS, MINI)]
    _, metrics = engine(LOSSES["high-entropy"])
    assert metrics["policy/selected_frac"] == pytest.approx(sum(2 * n // 5 for n in tokens) / sum(tokens))


def test_kl_cov_penalises_tokens_of_zero_advantage_too():
    """In a mini-batch of zero advantages all covariances are 0, the first quarter is selected,
    and only it is forwarded."""
    model = tiny_model()
    groups = rollout_batch(TEMPERATURE)
    zeros = [g.with_each(advantage=[0.0] * len(g)) for g in groups]
    recorder, policy = Recorder(model), Policy(model, Tokenizer(), None)
    metrics = update(
        policy, recorder, zeros, LOSSES["kl-cov"], Update(mini_batch_size=MINI, max_grad_norm=1e9),
        temperature=TEMPERATURE,
    )  # fmt: skip
    norms = [float(g.norm()) for g in recorder.gradients]
    assert norms[0] == 0 and min(norms[1:]) > 0
    assert 0 < metrics["policy/active_token_frac"] < 0.5
