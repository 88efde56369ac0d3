"""ms-swift's side of docs/conformance.md: the loss of its GRPOTrainer, its advantages, and the pairs with ours."""

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import conformance as c
import torch
from accelerate import Accelerator
from swift.rl_core.advantage import compute_advantages
from swift.rl_core.data import GRPOBatch
from swift.rlhf_trainers.arguments import GRPOConfig
from swift.rlhf_trainers.grpo_trainer import GRPOTrainer
from torch import Tensor

from diver.losses import CispoLoss, ClipLoss, GspoLoss, PolicyLoss, SapoLoss


def loss_of(**options: Any) -> c.Found:
    """The loss of the trainer's `_compute_loss_and_metrics` over the number of micro-batches, as transformers has it.

    The trainer is not constructed: it has only what that function reads.
    """
    made = GRPOTrainer.__new__(GRPOTrainer)
    made.args = GRPOConfig(
        "unused",
        epsilon=c.CLIP.clip_low,
        epsilon_high=c.CLIP.clip_high,
        beta=0.0,
        use_cpu=True,
        bf16=False,
        report_to="none",
    )
    for name, value in options.items():
        assert hasattr(made.args, name), name
        setattr(made.args, name, value)
    made._prepare_algorithm_params()
    made.__dict__.update(
        model=SimpleNamespace(training=True),
        accelerator=Accelerator(cpu=True),
        beta=made.args.beta,
        kl_in_reward=False,
        compute_entropy=False,
        max_completion_length=c.WIDTH,
        num_generations=c.SIZE,
        disable_rollout_importance_sampling=True,
        model_accepts_loss_kwargs=False,
        compute_loss_func=None,
        current_gradient_accumulation_steps=c.PARTS,
        _has_teacher=False,
        chord_sft_iterator=None,
        sdar_loss_coef=0.0,
        log_rollout_offpolicy_metrics=False,
    )

    def of_part(part: c.Batch) -> Tensor:
        made._get_per_token_logps_and_entropies = lambda *_, **__: (part.logprobs, None)
        batch = GRPOBatch(part.mask, torch.zeros(len(part.mask), dtype=torch.bool), part.mask.sum(1))
        batch.old_per_token_logps = part.old_logprobs
        batch.advantages = part.advantages[:, None].expand_as(part.mask)
        batch.num_items_in_batch = c.BATCH.mask.sum()
        batch.ref_per_token_logps = part.reference
        loss, _ = made._compute_loss_and_metrics(None, {}, batch)
        return loss / c.PARTS

    return c.summed(of_part)


def advantages(**options: Any) -> Callable[[], c.Found]:
    rewards = torch.from_numpy(c.BATCH.rewards)[:, None]
    return lambda: c.Found(None, compute_advantages(rewards, torch.ones(1), c.SIZE, **options)[0])


def equal(name: str, setting: str, loss: PolicyLoss, **options: Any) -> c.Pair:
    return c.loss_pair(name, setting, loss, partial(loss_of, **options))


def pairs() -> Iterator[c.Pair]:
    """ms-swift's losses and advantages of our names."""
    gspo = GspoLoss()
    clips = {"epsilon": gspo.clip_low, "epsilon_high": gspo.clip_high}
    by_level = "loss_type=grpo, importance_sampling_level={}"
    yield equal("clip", "loss_type=dapo", c.CLIP, loss_type="dapo")
    yield equal("clip", "loss_type=grpo", ClipLoss(aggregation="sequence-mean"), loss_type="grpo")
    yield from c.micro_batch_pairs(lambda kind: partial(loss_of, loss_type=kind))
    yield c.dual_clip("loss_type=dapo, delta=3", "delta", partial(loss_of, loss_type="dapo", delta=c.C))
    yield equal("cispo", "loss_type=cispo, epsilon_high=5", CispoLoss(), loss_type="cispo", epsilon_high=5.0)
    for level in ("sequence", "sequence_token"):
        options = {"loss_type": "grpo", "importance_sampling_level": level}
        yield equal("gspo", by_level.format(level), gspo, **options, **clips)
    taus = {"tau_pos": 1.0, "tau_neg": 1.05}
    yield equal("sapo", "loss_type=sapo, tau_pos=1, tau_neg=1.05", SapoLoss(), loss_type="sapo", **taus)

    yield equal("kl", "loss_type=dapo, beta=0.1", c.KL, loss_type="dapo", beta=c.KL.kl_coef)

    for scale in ("group", "batch"):
        yield c.grpo_pair(f"scale_rewards={scale}", 1e-4, advantages(scale_rewards=scale), of_batch=scale == "batch")
    yield c.dr_grpo_pair("scale_rewards=none", advantages(scale_rewards="none"))
    yield c.rloo_pair(
        "advantage_estimator=rloo, scale_rewards=none", advantages(advantage_estimator="rloo", scale_rewards="none")
    )
