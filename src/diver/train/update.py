"""The update: mini-batches of complete groups, each one optimizer step (paper eq. 1).

The gradient of a mini-batch does not depend on how it is cut into micro-batches. Every token carries the weight that
the complete mini-batch gives it. A loss that selects tokens does so over all tokens of the mini-batch first, in a pass
without gradient. Rows without a gradient (`PolicyLoss.has_gradient`) are not run through the model again. Their tokens
still count in the weights and the selection, and a mini-batch with only such rows still takes its optimizer step.

Replayed rollouts (`Method.replayed`) are spread over the mini-batches. They add a second term to the loss and do not
change the weights of the sampled rollouts.
"""

import dataclasses
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from diver.core.types import Diverged, Group, State
from diver.losses import PolicyLoss
from diver.losses.base import Tokens, kl_to_reference, row_weights
from diver.methods.replay import replay_metrics, weights_of
from diver.recipe.sections import Update
from diver.sample.policy import Policy, hidden_states, logits_of, token_logprobs
from diver.train.batches import (
    Batch,
    Row,
    before_responses,
    collate,
    micro_batches,
    mini_batches,
    rows_of,
    shares_prompts,
)

ANCHOR = "loss.anchor"
"""Key of the loss's anchor in the state."""


def response_logprobs(
    policy: Policy, batch: Batch, temperature: float, *, with_entropy: bool = False, top_p: float = 1.0
) -> tuple[Tensor, Tensor]:
    """log pi and entropy of each token that the policy wrote, [n, R] each; 0 elsewhere.

    Without `with_entropy` all entropies are 0.
    """
    model, mask = policy.model, batch.mask
    with torch.autocast(model.device.type, policy.precision, enabled=policy.precision is not None):
        if shares_prompts(model):
            hidden = before_responses(model, batch)
        else:  # each row is padded and run with its prompt; the state before a token predicts it
            inputs = {"input_ids": batch.ids, "attention_mask": batch.attention, "position_ids": batch.position}
            hidden = hidden_states(model, **inputs, use_cache=False)[:, -mask.shape[1] - 1 : -1][mask]
        logprobs, entropies = token_logprobs(
            hidden,
            batch.tokens[mask],
            partial(logits_of, model),
            temperature,
            vocabulary=model.config.get_text_config().vocab_size,
            with_entropy=with_entropy,
            top_p=top_p,
        )
    padded = torch.zeros(mask.shape, dtype=logprobs.dtype, device=mask.device)
    return padded.masked_scatter(mask, logprobs), padded.masked_scatter(mask, entropies)


@torch.no_grad()
def all_tokens(
    policy: Policy, rows: Sequence[Row], loss: PolicyLoss, temperature: float, budget: int, run: Sequence[Row]
) -> Tokens:
    """The N tokens of these rows, [N] each. Those of the rows `run` have the log-probs of the current policy."""
    device = policy.model.device

    def column(values: Iterable[np.ndarray | float]) -> Tensor:
        arrays = [np.broadcast_to(value, row.written) for value, row in zip(values, rows, strict=True)]
        return torch.from_numpy(np.concatenate(arrays)).to(device, torch.float32)

    old_logprobs = column(row.old_logprobs for row in rows)
    logprobs, entropies = old_logprobs.clone(), torch.zeros_like(old_logprobs)
    for chunk in micro_batches([row for row in run if row.written], budget, shared=shares_prompts(policy.model)):
        batch = collate(chunk, device)
        index = batch.token_index[batch.mask]
        scores = response_logprobs(policy, batch, temperature, with_entropy=loss.needs_entropy, top_p=loss.top_p)
        logprobs[index], entropies[index] = (x[batch.mask] for x in scores)
    return Tokens(
        logprobs,
        old_logprobs,
        column(row.advantages for row in rows),
        entropies,
        lengths=torch.tensor([row.written for row in rows]),
        weights=column(row.weight for row in rows),
    )


def accumulate(
    policy: Policy,
    rows: Sequence[Row],
    loss: PolicyLoss,
    temperature: float,
    budget: int,
    selected: Tensor | None = None,
    reference: Policy | None = None,
) -> dict[str, float]:
    """Add the gradient of a mini-batch's rows to `.grad`; return sums over their tokens.

    `coefficients` is the sum of the weight of each token's loss times |advantage|.
    """
    sums: defaultdict[str, float] = defaultdict(float)
    for chunk in micro_batches(rows, budget, shared=shares_prompts(policy.model)):
        batch = collate(chunk, policy.model.device)
        logprobs, entropies = response_logprobs(
            policy, batch, temperature, with_entropy=loss.needs_entropy or bool(loss.entropy_coef), top_p=loss.top_p
        )
        selected_in_batch = None if selected is None else selected[batch.token_index]
        tokens = Tokens(logprobs, batch.old_logprobs, batch.advantages, entropies, batch.mask, selected_in_batch)
        token_loss, metrics = loss.forward(tokens)
        if loss.kl_coef:
            assert reference is not None
            with torch.no_grad():
                reference_logprobs = response_logprobs(reference, batch, temperature)[0]
            kl = kl_to_reference(logprobs, reference_logprobs)
            token_loss = token_loss + loss.kl_coef * kl
            sums["kl"] += float(kl.detach()[batch.mask].sum())
        if loss.entropy_coef:
            token_loss = token_loss - loss.entropy_coef * entropies
        total = (token_loss.masked_fill(~batch.mask, 0.0) * batch.weight[:, None]).sum()
        total.backward()
        sums["loss"] += float(total.detach())
        log_ratio = (logprobs.detach() - batch.old_logprobs)[batch.mask]
        sums["mismatch"] += float(log_ratio.abs().sum())
        sums["ppo_kl"] += float((log_ratio.exp() - 1 - log_ratio).sum())
        sums["active"] += float(batch.mask.sum())
        for name, values in metrics.items():
            sums[f"loss/{name}"] += float(values.detach()[batch.mask].sum())
    coefficients = (row.weight * np.abs(np.broadcast_to(row.advantages, row.written)).sum() for row in rows)
    sums["coefficients"] = float(sum(coefficients))
    return sums


def update(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    groups: Sequence[Group],
    loss: PolicyLoss,
    config: Update,
    *,
    temperature: float,
    seed: int = 0,
    reference: Policy | None = None,
    state: State | None = None,
    replayed: Sequence[Group] | None = None,
    reweighed: Callable[[Sequence[Group], Sequence[Group]], Sequence[Group]] | None = None,
) -> dict[str, float]:
    """One optimizer step for each mini-batch of groups, in order; returns the metrics `policy/*` of the batch.

    policy/ppo_kl estimates the divergence of the policy from the one that sampled. It is the mean of
    (rho - 1) - log rho over the tokens that had a gradient, each before the optimizer step of its mini-batch.

    Args:
        groups: sampled groups with their `prompt_tokens`.
        seed: for the random choices of a loss that selects tokens.
        reference: the policy of the KL term.
        state: the state of the run, saved with the checkpoints. A loss with an anchor stores it there.
        replayed: groups of earlier steps, whose metrics are `replay/*`. All `policy/*` describe the sampled groups
            alone, except `policy/grad_norm`, which describes both.
        reweighed: called with the replayed groups, and with these groups under the policy's log-probs; returns them
            with their advantages (`Method.reweighed`).
    """
    random = torch.Generator().manual_seed(seed)
    budget = config.micro_batch_tokens
    anchor = None
    if loss.has_anchor and groups:
        state = {} if state is None else state
        if ANCHOR not in state:  # the first batch of a run
            rows = rows_of(groups, [1.0] * sum(map(len, groups)))
            state[ANCHOR] = loss.measure_anchor(all_tokens(policy, rows, loss, temperature, budget, rows))
        anchor = float(state[ANCHOR])
    totals: defaultdict[str, float] = defaultdict(float)
    norms: list[float] = []
    mismatch = 0.0
    policy.model.train()
    batches = mini_batches(groups, config.mini_batch_size)
    if loss.recomputes_logprobs:
        batches = [_recomputed(policy, batch, loss, config, temperature) for batch in batches]
    parameters = [p for p in policy.model.parameters() if p.requires_grad]
    shares = [list((replayed or [])[i :: len(batches)]) for i in range(len(batches))]
    if replayed:  # KL and entropy terms apply to sampled rollouts only
        without_terms = dataclasses.replace(loss, kl_coef=0.0, entropy_coef=0.0)
        # Replayed rollouts may lack log-probs, so none of them is skipped.
        without_skipping = dataclasses.replace(config, skip_zero_advantage=False)
        recomputed = [
            _recomputed(policy, share, without_terms, without_skipping, temperature) if share else []
            for share in shares
        ]
        if reweighed:  # all groups are weighed together, since an advantage may depend on the others
            weighed = iter(reweighed(*([group for share in part for group in share] for part in (shares, recomputed))))
            recomputed = [[next(weighed) for _ in share] for share in shares]
        shares = recomputed
    for i, (mini_batch, share) in enumerate(zip(batches, shares, strict=True)):
        # Zeros, not None: AdamW skips a parameter whose gradient is None, its momentum and weight decay included.
        for p in parameters:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad.zero_()
        if share:
            sums = accumulate(policy, rows_of(share, weights_of(share)), without_terms, temperature, budget)
            gradients = [p.grad for p in parameters if p.grad is not None]
            totals["replay/grad_norm"] += float(torch.nn.utils.get_total_norm(gradients))
            totals["replay/coefficients"] += sums["coefficients"]

        lengths = torch.tensor([r.length for g in mini_batch for r in g.rollouts])
        weights = row_weights(lengths, loss.aggregation).tolist()
        all_rows = rows_of(mini_batch, weights)
        selected = None
        # In the first mini-batch the policy equals the sampler, so a loss that does not select on-policy selects none.
        if loss.selects_tokens and i == 0 and not loss.selects_on_policy:
            selected = torch.zeros(int(lengths.sum()), dtype=torch.bool, device=policy.model.device)
        elif loss.selects_tokens:
            tokens = all_tokens(policy, all_rows, loss, temperature, budget, all_rows)
            # The numbers are in the order of the rows, so the selection does not depend on the micro-batches.
            uniform = torch.rand(len(tokens.logprobs), generator=random).to(tokens.logprobs.device)
            selected = loss.select_tokens(tokens._replace(uniform=uniform, anchor=anchor))
        rows = _with_gradient(all_rows, loss, config, selected)
        sums = accumulate(policy, rows, loss, temperature, budget, selected, reference)

        norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, config.max_grad_norm)))
        if not math.isfinite(norms[-1]):
            raise Diverged("the gradient is not finite: the policy has diverged; lower train.learning_rate")
        optimizer.step()

        if i == 0:
            # With recomputed log-probs the ratio is 1, so these log-probs are compared with those of the sampler.
            mismatch = sums["mismatch"]
            if loss.recomputes_logprobs:
                pairs = zip(rows_of(groups[: len(mini_batch)], weights), all_rows, strict=True)
                mismatch = sum(float(np.abs(a.old_logprobs - b.old_logprobs).sum()) for a, b in pairs)
            mismatch /= max(1.0, sums["active"])
        for key, value in sums.items():
            totals[key] += value
        totals["tokens"] += float(lengths.sum())
        totals["selected"] += 0.0 if selected is None else float((selected != 0).sum())
    optimizer.zero_grad()  # free the gradients before sampling

    updates = max(1, len(norms))
    all_sampled, active = max(1.0, totals["tokens"]), max(1.0, totals["active"])
    metrics = {
        "policy/logprob_mismatch": mismatch,
        "policy/loss": totals["loss"] / updates,
        **{f"policy/{name}": totals[f"loss/{name}"] / all_sampled for name in loss.metric_names},
        "policy/grad_norm": sum(norms) / updates,
        "policy/ppo_kl": totals["ppo_kl"] / active,
        "policy/active_token_frac": totals["active"] / all_sampled,
        "policy/updates": float(len(norms)),
    }
    if loss.selects_tokens:
        metrics["policy/selected_frac"] = totals["selected"] / all_sampled
    if loss.kl_coef:
        metrics["policy/kl"] = totals["kl"] / active
    if replayed is not None:
        replayed_groups = [group for share in shares for group in share]
        metrics |= replay_metrics(replayed_groups, totals["replay/coefficients"], totals["coefficients"])
        metrics["replay/grad_norm"] = totals["replay/grad_norm"] / updates
    return metrics


def _with_gradient(rows: Sequence[Row], loss: PolicyLoss, config: Update, selected: Tensor | None = None) -> list[Row]:
    """The rows that may have a gradient. The model is run on them only; `selected` [N] is the choice of the loss."""
    rows = [row for row in rows if row.written]
    if not config.skip_zero_advantage:
        return rows
    mask = None if selected is None else selected.cpu()
    choices = [None if mask is None else mask[row.start : row.start + row.written] for row in rows]
    return [row for row, choice in zip(rows, choices, strict=True) if loss.has_gradient(row.advantages, choice)]


@torch.no_grad()
def _recomputed(
    policy: Policy, groups: Sequence[Group], loss: PolicyLoss, config: Update, temperature: float
) -> list[Group]:
    """A mini-batch with the policy's log-probs in place of the sampler's, for the rows that may have a gradient.

    They are computed in the micro-batches of the update, since other micro-batches round differently. So the first
    ratio is exactly 1.
    """
    rows = rows_of(groups, [1.0] * sum(map(len, groups)))
    run = _with_gradient(rows, loss, config)
    tokens = all_tokens(policy, rows, loss, temperature, config.micro_batch_tokens, run)
    by_row = iter(np.split(tokens.logprobs.cpu().numpy(), tokens.lengths.cumsum(0)[:-1]))
    return [group.with_each(logprobs=[next(by_row) for _ in range(len(group))]) for group in groups]
