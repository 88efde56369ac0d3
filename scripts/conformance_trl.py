"""TRL's side of docs/conformance.md: trainers on the bundled policy, and the pairs with our losses and advantages."""

import dataclasses
import tempfile
from collections.abc import Iterator
from functools import partial
from typing import Any

import conformance as c
import torch
from datasets import Dataset
from torch import Tensor
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from diver.integrations.trl import config
from diver.integrations.trl.objective import LOSS_TYPES
from diver.losses import CispoLoss, ClipLoss, GmpoLoss, GspoLoss, PolicyLoss, SapoLoss
from diver.methods import method_named
from diver.tasks.testbeds import policy_folder


def given_rewards(prompts: list[Any], **_: Any) -> list[float]:
    return list(c.BATCH.rewards)


def trainer(options: dict[str, Any], of: Any = GRPOTrainer, settings: Any = GRPOConfig) -> Any:
    """A trainer of the batch: 40 responses a generation, whose optimizer step has four micro-batches."""
    args = settings(
        tempfile.mkdtemp(),
        num_generations=c.SIZE,
        max_completion_length=c.WIDTH,
        per_device_train_batch_size=len(c.BATCH.mask) // c.PARTS,
        steps_per_generation=c.PARTS,
        gradient_accumulation_steps=c.PARTS,
        use_cpu=True,
        report_to="none",
        bf16=False,
        **options,
    )
    rows = Dataset.from_list([{"prompt": "1 2 3"}] * len(c.BATCH.mask))
    tokenizer = AutoTokenizer.from_pretrained(policy_folder())
    made = of(str(policy_folder()), given_rewards, args=args, train_dataset=rows, processing_class=tokenizer)
    made.current_gradient_accumulation_steps = c.PARTS
    made.model.train()
    return made


def loss_of(options: dict[str, Any], of: Any = GRPOTrainer, settings: Any = GRPOConfig) -> c.Found:
    """The losses that the trainer's `_compute_loss` gives for the micro-batches; the log-probs are ours."""
    made = trainer(options, of, settings)

    def of_part(part: c.Batch) -> Tensor:
        made._get_per_token_logps_and_entropies = lambda *_, **__: (part.logprobs, part.entropy, None)
        ids = torch.zeros(part.mask.shape, dtype=torch.long)
        inputs = {"prompt_ids": ids[:, :1], "prompt_mask": torch.ones_like(ids[:, :1]), "completion_ids": ids}
        inputs |= {"completion_mask": part.mask.int(), "num_items_in_batch": c.BATCH.mask.sum()}
        inputs |= {"advantages": part.advantages, "old_per_token_logps": part.old_logprobs}
        inputs |= {"ref_per_token_logps": part.reference}
        return made._compute_loss(made.model, inputs)

    return c.summed(of_part)


def advantages(options: dict[str, Any], of: Any = GRPOTrainer, settings: Any = GRPOConfig) -> c.Found:
    """The advantages of a generation of the trainer, whose rewards are those of the batch."""
    made = trainer(options, of, settings)
    inputs = [{"prompt": "1 2 3"}] * len(c.BATCH.mask)
    return c.Found(None, made._generate_and_score_completions(inputs)["advantages"].double())


def gmpo_loss() -> c.Found:
    from trl.experimental.gmpo import GMPOConfig, GMPOTrainer

    return loss_of({"beta": 0.0, "epsilon": 0.4}, GMPOTrainer, GMPOConfig)


def as_configured(name: str, setting: str, loss: PolicyLoss) -> c.Pair:
    """Our loss, and TRL's with the options that the adapter gives it for ours."""
    method = dataclasses.replace(method_named("dr-grpo"), loss=loss)
    return c.loss_pair(name, setting, loss, lambda: loss_of(config(method)))


def pairs() -> Iterator[c.Pair]:
    """TRL's losses and advantages of our names."""
    plain = config("clip-higher")
    for aggregation, kind in LOSS_TYPES.items():
        level = ", importance_sampling_level=token" if kind == "luspo" else ""
        loss = ClipLoss(aggregation=aggregation)  # type: ignore[arg-type]
        yield as_configured("clip", f"loss_type={kind}{level}", loss)
    yield from c.micro_batch_pairs(lambda kind: partial(loss_of, {**plain, "loss_type": kind}))
    yield c.dual_clip("loss_type=dapo, delta=3", "delta", partial(loss_of, {**plain, "delta": c.C}))
    yield as_configured("cispo", "loss_type=cispo, epsilon_high=5", CispoLoss())
    yield as_configured("gspo", "loss_type=grpo, importance_sampling_level=sequence", GspoLoss())
    yield as_configured("sapo", "loss_type=sapo", SapoLoss())
    yield c.loss_pair("gmpo", "GMPOTrainer, epsilon=0.4", GmpoLoss(), gmpo_loss)
    yield c.loss_pair(
        "entropy-bonus",
        "loss_type=dapo, entropy_coef=0.01",
        ClipLoss(entropy_coef=0.01),
        partial(loss_of, {**plain, "entropy_coef": 0.01}),
        "The mean entropy is over the tokens of each micro-batch, where ours has the weights of the loss, here over "
        "all tokens of the mini-batch.",
        entropy_weights=c.of_micro_batches("token-mean"),
    )
    yield as_configured("kl", "loss_type=dapo, beta=0.1", c.KL)
    corrected = {**plain, "beta": c.KL.kl_coef, "use_bias_correction_kl": True}
    yield c.loss_pair(
        "kl",
        "loss_type=dapo, beta=0.1, use_bias_correction_kl=True",
        c.KL,
        partial(loss_of, corrected),
        "The divergence of a token is multiplied by the ratio of the policy to the sampler.",
        kl=c.k3_of_old,
    )

    for scale in ("group", "batch"):
        theirs = partial(advantages, {"scale_rewards": scale})
        yield c.grpo_pair(f"scale_rewards={scale}", 1e-4, theirs, of_batch=scale == "batch")
    yield c.dr_grpo_pair("scale_rewards=none", partial(advantages, {"scale_rewards": "none"}))
    rloo = partial(advantages, {"normalize_advantages": False, "beta": 0.0}, RLOOTrainer, RLOOConfig)
    yield c.rloo_pair("RLOOTrainer, normalize_advantages=False", rloo)
