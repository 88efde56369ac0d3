"""What a method requires of TRL's GRPOConfig. TRL is not imported."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from diver.core.extras import version
from diver.core.types import DiverError
from diver.integrations.seam import SEAMS, Seam
from diver.integrations.versions import oldest
from diver.losses import CispoLoss, ClipLoss, GspoLoss, PolicyLoss, SapoLoss
from diver.methods import Method

LOSS_TYPES = {"token-mean": "dapo", "sequence-mean": "grpo", "token-sum": "luspo"}
_CLIP = {"epsilon": "clip_low", "epsilon_high": "clip_high"}
POLICY_LOSSES: dict[type[PolicyLoss], tuple[dict[str, str], dict[str, Any]]] = {
    ClipLoss: (_CLIP, {}),
    GspoLoss: (_CLIP, {"importance_sampling_level": "sequence"}),
    CispoLoss: ({}, {"loss_type": "cispo"}),
    SapoLoss: (
        {"sapo_temperature_pos": "tau_positive", "sapo_temperature_neg": "tau_negative"},
        {"loss_type": "sapo"},
    ),
}
"""The losses that TRL has: option of GRPOConfig -> our setting, and the options that select this loss."""
SEAM, TRAINER = SEAMS["TRL"], SEAMS["DiverTrainer"]
"""The seam of a reward function in a stock trainer, and the seam of `DiverTrainer`."""
OBJECTIVE: dict[str, Any] = {
    "scale_rewards": "none",
    "multi_objective_aggregation": "sum_then_normalize",
    "importance_sampling_level": "token",
    "use_bias_correction_kl": False,  # TRL's default multiplies the divergence by the ratio
    "sync_ref_model": False,  # the divergence is from the first policy of the run
    "top_entropy_quantile": 1.0,
    "delta": None,  # a third clip
    "mask_truncated_completions": False,
    "off_policy_mask_threshold": None,
    "use_adaptive_entropy": False,
    "router_aux_loss_coef": 0.0,  # TRL's default is that of a mixture of experts
}
"""What every method requires: advantages pass through unchanged, and the loss has only the terms of the method."""
REPLACED = {
    "max_new_tokens": "max_completion_length",
    "max_tokens": "max_completion_length",
    "temperature": "temperature",
}
"""Key of `generation_kwargs` -> the field of GRPOConfig that it replaces when TRL samples, and only then."""
OLDEST, OLDEST_OF_TRAINER = oldest("trl"), oldest("trl", "allowed_by_train")
"""The first TRL that knows scale_rewards="none", and the first whose methods `DiverTrainer` relies on."""
ADDED = {
    "use_bias_correction_kl": (0, 26),
    "multi_objective_aggregation": (0, 27),
    "off_policy_mask_threshold": (0, 27),
    "router_aux_loss_coef": (1, 7),
    "entropy_coef": (1, 8),
    "use_adaptive_entropy": (1, 8),
}
"""The fields of GRPOConfig that came later, with the first TRL that has them. Without them, older releases do what
OBJECTIVE says."""

BY_STEPS = (1, 10)
"""The first TRL whose sum over tokens counts no padding."""


def config(method: str | Method, seam: Seam = SEAM) -> dict[str, Any]:
    """What a GRPOConfig must say for `method`: clipping, aggregation, KL, entropy, and that TRL scales nothing.

    Fields that the installed TRL lacks are left out if it does the same without them. With the seam of DiverTrainer,
    which has the loss of the method, the fields describe that loss.

    Raises:
        DiverError: the seam, or the installed TRL, does not support the method.
    """
    loss = seam.usable(method).loss
    terms = {"loss_type": LOSS_TYPES[loss.aggregation], "beta": loss.kl_coef, "entropy_coef": loss.entropy_coef}
    if seam is TRAINER:
        clips = {"epsilon": getattr(loss, "clip_low", 0.2), "epsilon_high": getattr(loss, "clip_high", 0.2)}
        return known({**OBJECTIVE, **terms, **clips}, OLDEST_OF_TRAINER)
    if (coef := loss.entropy_coef) and loss.aggregation == "token-sum":
        raise DiverError(f"method.loss.entropy_coef = {coef}: TRL adds the mean entropy of the tokens; set it to 0")
    options, fixed = POLICY_LOSSES[type(loss)]
    fields = {**OBJECTIVE, **terms, **{option: getattr(loss, name) for option, name in options.items()}, **fixed}
    if isinstance(loss, CispoLoss):
        if loss.clip_low != 1:
            raise DiverError(f"method.loss.clip_low = {loss.clip_low}: TRL's cispo has no lower bound; set it to 1")
        fields["epsilon_high"] = 1 + loss.clip_high  # in TRL's "cispo" it bounds the ratio itself
    return known(fields)


def known(fields: Mapping[str, Any], least: tuple[int, ...] = OLDEST) -> dict[str, Any]:
    """The `fields` that the GRPOConfig of the installed TRL has; all of them if TRL is not installed.

    Raises:
        DiverError: TRL is older than `least`, or would train differently without one of the fields.
    """
    release = installed()
    if release is None:
        return dict(fields)
    loss, coef, needed = fields["loss_type"], fields["entropy_coef"], [(least, "")]
    needed += [(BY_STEPS, f", whose loss {loss!r} is another or none")] if loss in ("luspo", "cispo", "sapo") else []
    needed += [(ADDED["entropy_coef"], f", without entropy_coef = {coef!r}")] if coef else []
    for since, fault in needed:
        if release < since:
            raise DiverError(f"TRL {dotted(release)} is installed{fault}; {dotted(since)} or newer is needed")
    return {field: value for field, value in fields.items() if release >= ADDED.get(field, OLDEST)}


def installed() -> tuple[int, ...] | None:
    """The version of the installed TRL, such as (1, 16); None if TRL is not installed."""
    trl = version("trl")
    return tuple(map(int, re.findall(r"\d+", trl)[:2])) if trl else None


def dotted(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def departures(args: Any, method: Method, seam: Seam = SEAM) -> Iterator[str]:
    """The allowed differences of TRL's loss with `args` from that of the method, a sentence for each."""
    mode, *bounds = (
        getattr(args, f"vllm_importance_sampling_{name}", None) for name in ("mode", "clip_min", "clip_max")
    )
    at_1 = all(bound is not None and abs(bound - 1) < 1e-3 for bound in bounds)
    corrects = getattr(args, "use_vllm", False) and getattr(args, "vllm_importance_sampling_correction", False)
    if corrects and not (at_1 and mode in ("token_truncate", "sequence_truncate")):
        yield (
            "GRPOConfig.vllm_importance_sampling_correction: TRL multiplies the loss by a ratio that is no part of the "
            "method; docs/engines/trl.md#vllm has the bounds with which the ratio is 1"
        )
    if seam is TRAINER:
        return
    steps, count, loss = args.steps_per_generation, args.gradient_accumulation_steps, method.loss
    if loss.aggregation == "token-mean" and steps != count:
        note = "TRL divides the loss of a step by the mean tokens of the generation's steps, and the method by its own"
        yield f"GRPOConfig.steps_per_generation={steps}: {note}; {count} (gradient_accumulation_steps) makes them equal"
    if loss.entropy_coef and (loss.aggregation != "token-mean" or count > 1):
        note = "TRL takes the mean entropy of each micro-batch, not of the mini-batch with the weights of the loss"
        yield f"GRPOConfig.entropy_coef: {note}; of one micro-batch with loss_type 'dapo' they are equal"


def check_objective(args: Any, method: Method, seam: Seam = SEAM) -> None:
    """Raises DiverError if the GRPOConfig `args` would change advantages, or has another objective than `method`."""
    wanted = config(method, seam)
    if missing := [name for name in wanted if not hasattr(args, name)]:
        # TRL's other trainers (RLOO, asynchronous GRPO) make other advantages of what a reward function returns.
        kind = type(args).__name__
        raise DiverError(f"{kind} has no {', '.join(missing)}: give a GRPOConfig and train with GRPOTrainer")
    if "epsilon_high" in wanted and args.epsilon_high is None and args.epsilon == wanted["epsilon_high"]:
        wanted.pop("epsilon_high")  # TRL then takes epsilon
    if getattr(args, "router_aux_loss_coef", 0) is None:
        wanted.pop("router_aux_loss_coef")  # no experts, no such loss; `check_trainer` checks the model
    if not method.loss.kl_coef:
        wanted.pop("use_bias_correction_kl", None)  # the divergence is not in the loss
    seam.check_settings(method, wanted, args)
    for name in getattr(args, "generation_kwargs", None) or ():
        if name in REPLACED:
            raise DiverError(f"GRPOConfig.generation_kwargs.{name}: set {REPLACED[name]} instead, which the loss reads")
    method.check_group_size(args.num_generations, "num_generations")
