"""The update: mini-batches of whole groups, each one optimizer step (paper eq. 1).

The gradient of a mini-batch does not depend on how it is cut into micro-batches: every token carries the weight that
the whole mini-batch gives it, and a loss that singles tokens out (`Loss.chooses`) does so over all tokens of the
mini-batch first, in a pass without gradient. Rows with zero advantage have exactly zero gradient under most losses, so
they are not run through the model again; their tokens still count in the weights and the choice, and a mini-batch of
nothing but such rows still takes its optimizer step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diver.config.sections import Update
from diver.generate.policy import Policy
from diver.losses import loss as L
from diver.losses.objective import Loss
from diver.train.batches import Batch, Row, collate, micro_batches, rows_of
from diver.types import DiverError, Group


def response_logprobs(policy: Policy, batch: Batch, temperature: float) -> tuple[Tensor, Tensor]:
    """log pi of each response token and the scaled logits: [n, R], [n, R, V]."""
    with torch.autocast(policy.model.device.type, policy.precision, enabled=policy.precision is not None):
        logits = policy.model(
            input_ids=batch.ids,
            attention_mask=batch.attention,
            position_ids=batch.position,
            use_cache=False,
            logits_to_keep=batch.tokens.shape[1] + 1,
        ).logits[:, :-1]
    return L.token_logprobs(logits, batch.tokens, temperature)


@torch.no_grad()
def choose_tokens(
    policy: Policy, rows: Sequence[Row], loss: Loss, temperature: float, budget: int, random: torch.Generator
) -> Tensor:
    """What `diver.losses.loss.choose` singles out of the N tokens of a mini-batch, under the policy as it now is: bool [N]."""
    device = policy.model.device
    lengths = torch.tensor([len(row.tokens) for row in rows])
    total = int(lengths.sum())
    logprobs, entropy = torch.empty(2, total, device=device)
    for chunk in micro_batches([row for row in rows if len(row.tokens)], budget):
        batch = collate(chunk, policy.pad, device)
        values, scaled = response_logprobs(policy, batch, temperature)
        place = batch.place[batch.mask]
        logprobs[place] = values[batch.mask]
        if loss.entropy_share < 1:
            entropy[place] = L.entropy(scaled)[batch.mask]
    old = torch.from_numpy(np.concatenate([row.old for row in rows])).to(device, torch.float32)
    advantage = torch.tensor([row.advantage for row in rows]).repeat_interleave(lengths).to(device)
    uniform = torch.rand(total, generator=random).to(device)  # in the order of rows, whatever the micro-batches
    return L.choose(loss, logprobs, entropy, old, advantage, uniform)


def with_gradient(rows: Sequence[Row], loss: Loss, chosen: Tensor | None) -> list[Row]:
    """The rows whose gradient is not exactly zero."""
    if loss.beta or loss.entropy:
        return list(rows)
    pays = chosen.cpu() if loss.surrogate == "kl-cov" and chosen is not None else torch.zeros(0)
    return [row for row in rows if row.advantage != 0.0 or pays[row.start : row.start + len(row.tokens)].any()]


def accumulate(
    policy: Policy,
    rows: Sequence[Row],
    loss: Loss,
    temperature: float,
    budget: int,
    chosen: Tensor | None = None,
    reference: Policy | None = None,
) -> dict[str, float]:
    """Add the gradient of a mini-batch's rows to `.grad`; return sums over their tokens."""
    sums = {"loss": 0.0, "bound": 0.0, "gap": 0.0, "kl": 0.0, "tokens": 0.0}
    for chunk in micro_batches(rows, budget):
        batch = collate(chunk, policy.pad, policy.model.device)
        logprobs, scaled = response_logprobs(policy, batch, temperature)
        here = None if chosen is None else chosen[batch.place]
        token_loss, bound = L.surrogate(loss, logprobs, batch.old, batch.advantage, here)
        if loss.beta:
            assert reference is not None
            with torch.no_grad():
                anchor = response_logprobs(reference, batch, temperature)[0]
            kl = L.kl_to_reference(logprobs, anchor)
            token_loss = token_loss + loss.beta * kl
            sums["kl"] += float(kl.detach()[batch.mask].sum())
        if loss.entropy:
            token_loss = token_loss - loss.entropy * L.entropy(scaled)
        total = (token_loss.masked_fill(~batch.mask, 0.0) * batch.weight[:, None]).sum()
        total.backward()
        sums["loss"] += float(total.detach())
        sums["bound"] += float((bound & batch.mask).sum())
        sums["gap"] += float((logprobs.detach() - batch.old).abs()[batch.mask].sum())
        sums["tokens"] += float(batch.mask.sum())
    return sums


def update(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    groups: Sequence[Group],
    prompts: dict[str, list[int]],
    loss: Loss,
    how: Update,
    *,
    temperature: float,
    seed: int = 0,
    reference: Policy | None = None,
    progress: Callable[[int], Any] = lambda done: None,
) -> dict[str, float]:
    """One optimizer step for each mini-batch of groups, in order; returns the metrics `policy/*` of the batch.

    `seed` is that of the random choice of Clip-Cov. Under KL-Cov the first mini-batch has no penalty: there the policy
    still is the one that sampled, |log rho| is 0, and rounding alone would give its gradient a sign.
    """
    random = torch.Generator().manual_seed(seed)
    parameters = [p for p in policy.model.parameters() if p.requires_grad]
    totals: dict[str, float] = {}
    norms: list[float] = []
    gap = 0.0
    policy.model.train()
    for start in range(0, len(groups), how.mini_batch_size):
        mini = groups[start : start + how.mini_batch_size]
        lengths = torch.tensor([r.length for g in mini for r in g.rollouts])
        rows = rows_of(mini, prompts, L.row_weights(lengths, loss.aggregation).tolist())
        chosen = None
        if loss.surrogate == "kl-cov" and start == 0:
            chosen = torch.zeros(int(lengths.sum()), dtype=torch.bool, device=policy.model.device)
        elif loss.chooses:
            chosen = choose_tokens(policy, rows, loss, temperature, how.micro_batch_tokens, random)
        if how.skip_zero_advantage:
            rows = with_gradient(rows, loss, chosen)
        rows = [row for row in rows if len(row.tokens)]
        for p in parameters:  # zeros, not None: AdamW leaves out a parameter without a gradient, momentum and all
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad.zero_()
        sums = accumulate(policy, rows, loss, temperature, how.micro_batch_tokens, chosen, reference)
        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, how.max_grad_norm)))
        if not math.isfinite(norms[-1]):
            raise DiverError("the gradient is not finite: the policy has diverged; lower train.learning_rate")
        optimizer.step()
        if start == 0:  # before the first step the policy still is the one that sampled
            gap = sums["gap"] / max(1.0, sums["tokens"])
        sums |= {"all": float(lengths.sum()), "chosen": 0.0 if chosen is None else float(chosen.sum())}
        for key, value in sums.items():
            totals[key] = totals.get(key, 0.0) + value
        progress(len(mini))
    optimizer.zero_grad()  # frees them: sampling comes next
    metrics = {
        "policy/loss": totals["loss"] / len(norms),
        "policy/clip_fraction": totals["bound"] / max(1.0, totals["all"]),
        "policy/grad_norm": sum(norms) / len(norms),
        "policy/logprob_mismatch": gap,
        "policy/active_token_frac": totals["tokens"] / max(1.0, totals["all"]),
    }
    if loss.chooses:
        metrics["policy/selected_frac"] = totals["chosen"] / max(1.0, totals["all"])
    if loss.beta:
        metrics["policy/kl"] = totals["kl"] / max(1.0, totals["tokens"])
    return metrics
