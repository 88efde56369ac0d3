"""verl's side of docs/conformance.md: its policy losses and advantage estimators, and the pairs with ours."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import conformance as c
import numpy as np
import torch
from torch import Tensor
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos
from verl.workers.config import ActorConfig, PolicyLossConfig

from diver.integrations.verl.config import AGGREGATIONS, POLICY_LOSSES
from diver.losses import (
    CispoLoss,
    ClipCovLoss,
    ClipLoss,
    DppoLoss,
    GmpoLoss,
    GspoLoss,
    KlCovLoss,
    PolicyLoss,
    SapoLoss,
)

GEO_MEAN = "geo_mean", {"clip_ratio_low": "clip_low", "clip_ratio_high": "clip_high"}  # not carried by the plugin


def loss_of(
    loss: PolicyLoss,
    batch: c.Batch = c.BATCH,
    parts: Sequence[slice] = c.WHOLE,
    mode: str = "",
    aggregation: str = "",
    kl_loss_type: str = "low_var_kl",
    **more: Any,
) -> c.Found:
    """verl's loss with the settings of ours, and normalisers of the mini-batch, as verl's `ppo_loss` sets them."""
    named, options = {**POLICY_LOSSES, GmpoLoss: GEO_MEAN}[type(loss)]
    own = {key.removeprefix("policy_loss."): getattr(loss, name) for key, name in options.items()}
    in_policy_loss = {key.removeprefix("policy_loss.") for key in options if "." in key}
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        use_dynamic_bsz=True,
        policy_loss=PolicyLossConfig(loss_mode=mode or named, **{k: own[k] for k in in_policy_loss}),
        **{"clip_ratio_c": 1e6, **{k: v for k, v in own.items() if k not in in_policy_loss}, **more},
    )
    sizes = {"dp_size": 1, "batch_num_tokens": int(batch.mask.sum()), "global_batch_size": len(batch.mask)}
    config.global_batch_info.update(sizes, loss_scale_factor=c.WIDTH)
    aggregation = aggregation or AGGREGATIONS[loss.aggregation]

    def of_part(part: c.Batch) -> Tensor:
        total, _ = core_algos.get_policy_loss_fn(mode or named)(
            old_log_prob=part.old_logprobs,
            log_prob=part.logprobs,
            advantages=part.advantages[:, None].expand_as(part.mask).clone(),
            response_mask=part.mask.double(),
            loss_agg_mode=aggregation,
            config=config,
        )
        bonus = core_algos.agg_loss(part.entropy, part.mask, aggregation, **config.global_batch_info)
        total = total - loss.entropy_coef * bonus
        if not loss.kl_coef:
            return total
        divergence = core_algos.kl_penalty(part.logprobs, part.reference, kl_loss_type)
        return total + loss.kl_coef * core_algos.agg_loss(
            divergence, part.mask, aggregation, **config.global_batch_info
        )

    return c.summed(of_part, batch, parts)


def advantages(
    estimator: Callable[..., tuple[Tensor, Tensor]], rewards: np.ndarray, groups: np.ndarray, **options: Any
) -> np.ndarray:
    """verl's advantages of rewards [n] at the last of three tokens."""
    per_token = torch.zeros(len(rewards), 3, dtype=torch.float64)
    per_token[:, -1] = torch.as_tensor(rewards)
    found, _ = estimator(per_token, torch.ones_like(per_token), groups.astype(object), **options)
    assert torch.equal(found[:, 0], found[:, -1])
    return found[:, 0].numpy()


def of_batch(name: str, **options: Any) -> Callable[[], c.Found]:
    groups = np.arange(len(c.BATCH.rewards)) // c.SIZE
    estimator = core_algos.get_adv_estimator_fn(name)
    return lambda: c.Found(None, torch.from_numpy(advantages(estimator, c.BATCH.rewards, groups, **options)))


def chosen_by_verl(loss: PolicyLoss, batch: c.Batch) -> Tensor:
    """Clip-Cov's tokens with verl's permutation of the candidates, drawn from torch's global stream."""
    assert isinstance(loss, ClipCovLoss)
    candidates = torch.nonzero(c.selection(replace(loss, fraction=1.0), batch))
    number = max(1, int(loss.fraction * batch.mask.sum()))
    torch.manual_seed(0)
    rows = candidates[torch.randperm(len(candidates))[:number]]
    selected = torch.zeros_like(batch.mask)
    selected[rows[:, 0], rows[:, 1]] = True
    return selected


def best_of_group() -> c.Found:
    """The best response of a group has the lead over the second, by the std of the sample; the others have 0."""
    groups = c.BATCH.rewards.reshape(-1, c.SIZE)
    ordered = np.sort(groups, axis=1)
    lead = (ordered[:, -1] - ordered[:, -2]) / (groups.std(axis=1, ddof=1) + 1e-6)
    found = np.zeros_like(groups)
    found[np.arange(len(groups)), groups.argmax(axis=1)] = lead
    return c.Found(None, torch.from_numpy(found.ravel()))


def straight_through(value: Tensor, gradient: Tensor) -> Tensor:
    """A tensor with the numbers of `value` and the gradient of `gradient`."""
    return gradient - gradient.detach() + value.detach()


def equal(name: str, setting: str, loss: PolicyLoss) -> c.Pair:
    return c.loss_pair(name, setting, loss, in_parts(loss))


def in_parts(loss: PolicyLoss, **options: Any) -> Callable[[], c.Found]:
    """verl's loss of four micro-batches."""
    return partial(loss_of, loss, parts=c.BATCH.parts, **options)


def seeded(loss: PolicyLoss) -> c.Found:
    torch.manual_seed(0)
    return loss_of(loss)


def pairs() -> Iterator[c.Pair]:
    """verl's losses and estimators of our names; the first of a name has the settings that `diver train` gives verl."""
    for ours, theirs in AGGREGATIONS.items():
        yield equal("clip", f"loss_mode=vanilla, {theirs}, clip_ratio_c=1e6", ClipLoss(aggregation=ours))
    yield c.loss_pair(
        "clip",
        "loss_mode=vanilla, seq-mean-token-sum-norm, clip_ratio_c=1e6",
        ClipLoss(aggregation="token-sum"),
        in_parts(c.CLIP, aggregation="seq-mean-token-sum-norm"),
        c.CONSTANT_LENGTH,
        c.CLIP,
        weights=torch.full((len(c.BATCH.mask),), 1 / len(c.BATCH.mask) / c.WIDTH),
    )
    third = in_parts(c.CLIP, clip_ratio_c=c.C)
    yield c.dual_clip("loss_mode=vanilla, token-mean, clip_ratio_c=3", "clip_ratio_c", third)

    every, some = ClipCovLoss(fraction=1.0), ClipCovLoss(fraction=0.02)
    by_parts = {"term": c.WITHIN, "select": c.selection_by_parts}
    one, four = "loss_mode=clip_cov, one micro-batch", "loss_mode=clip_cov, 4 micro-batches"
    yield c.loss_pair("clip-cov", f"{one}, clip_cov_ratio=1", every, partial(loss_of, every))
    yield c.loss_pair(
        "clip-cov",
        f"{one}, clip_cov_ratio=0.02",
        some,
        partial(seeded, some),
        "The tokens are drawn among the same candidates, by another stream of random numbers.",
        select=chosen_by_verl,
    )
    yield c.loss_pair("clip-cov", f"{four}, clip_cov_ratio=1", every, in_parts(every), **by_parts)
    kl_cov = KlCovLoss(fraction=0.05)
    one, four = "loss_mode=kl_cov, one micro-batch", "loss_mode=kl_cov, 4 micro-batches"
    yield c.loss_pair("kl-cov", f"{one}, kl_cov_ratio=0.05", kl_cov, partial(loss_of, kl_cov))
    yield c.loss_pair("kl-cov", f"{four}, kl_cov_ratio=0.05", kl_cov, in_parts(kl_cov), **by_parts)

    narrow = CispoLoss(clip_low=0.2, clip_high=0.28)
    yield equal("cispo", "loss_mode=cispo, clip_ratio_low=1, clip_ratio_high=4", CispoLoss())
    yield equal("cispo", "loss_mode=cispo, clip_ratio_low=0.2, clip_ratio_high=0.28", narrow)
    yield equal("gspo", "loss_mode=gspo, seq-mean-token-mean", GspoLoss())
    yield equal("gspo", "loss_mode=gspo, token-mean", GspoLoss(aggregation="token-mean"))
    yield equal("sapo", "loss_mode=sapo, tau_pos=1, tau_neg=1.05", SapoLoss())
    gmpo = GmpoLoss()
    yield c.loss_pair("gmpo", "loss_mode=geo_mean, one micro-batch", gmpo, partial(loss_of, gmpo))
    yield c.loss_pair(
        "gmpo",
        "loss_mode=geo_mean, 4 micro-batches",
        gmpo,
        in_parts(gmpo),
        "The means of the micro-batches are added, so that the loss is multiplied by their number, here 4.",
        weights=c.PARTS * c.of_micro_batches("sequence-mean"),
    )
    yield equal("dppo", "loss_mode=dppo_tv, clip_ratio=0.15", DppoLoss())
    yield c.loss_pair(
        "dppo",
        "loss_mode=dppo_kl, clip_ratio=0.15",
        DppoLoss(),
        in_parts(DppoLoss(), mode="dppo_kl"),
        "The bound is on the KL divergence of the binary distribution, the token or another, and not on its total "
        "variation.",
        c.BinaryKl(),
    )
    bonus = ClipLoss(entropy_coef=0.01)
    yield equal("entropy-bonus", "loss_mode=vanilla, token-mean, entropy_coeff=0.01", bonus)

    estimators = {
        "low_var_kl": {},
        "k2": {
            "term": "The estimator is half the square of the difference of log-probs, k2, where ours is k3.",
            "kl": c.k2,
        },
        "k1": {"term": "The estimator is the difference of log-probs, k1, where ours is k3.", "kl": c.k1},
        "k3+": {
            "term": "The value is that of k3, as ours, and the gradient that of k2.",
            "kl": lambda tokens, reference: straight_through(c.k3(tokens, reference), c.k2(tokens, reference)),
        },
    }
    for kind, change in estimators.items():
        theirs = in_parts(c.KL, kl_loss_type=kind)
        yield c.loss_pair("kl", f"loss_mode=vanilla, token-mean, kl_loss_type={kind}", c.KL, theirs, **change)

    yield c.grpo_pair("adv_estimator=grpo", 1e-6, of_batch("grpo"))
    yield c.dr_grpo_pair(
        "adv_estimator=grpo, norm_adv_by_std_in_grpo=False", of_batch("grpo", norm_adv_by_std_in_grpo=False)
    )
    yield c.rloo_pair("adv_estimator=rloo", of_batch("rloo"))
    yield c.Pair(
        "pass-at-k",
        "adv_estimator=grpo_passk",
        lambda: c.our_advantages("pass-at-k", k=4),
        of_batch("grpo_passk", config=AlgoConfig()),
        "It is another estimator (arXiv 2503.19595), in which only the best response of a group has an advantage, its "
        "lead over the second.",
        best_of_group,
    )
