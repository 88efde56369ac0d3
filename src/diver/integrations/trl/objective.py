"""What a method requires of TRL's GRPOConfig. TRL is not imported."""

import importlib.metadata
import re
from collections.abc import Mapping
from typing import Any

from diver.core.types import DiverError
from diver.integrations.seam import SEAMS
from diver.integrations.versions import oldest
from diver.losses import CispoLoss, ClipLoss, GspoLoss, HighEntropyLoss, PolicyLoss, SapoLoss
from diver.methods import Method

LOSS_TYPES = {"token-mean": "dapo", "sequence-mean": "grpo", "token-sum": "luspo"}
_CLIP = {"epsilon": "clip_low", "epsilon_high": "clip_high"}
POLICY_LOSSES: dict[type[PolicyLoss], tuple[dict[str, str], dict[str, Any]]] = {
    ClipLoss: (_CLIP, {}),
    GspoLoss: (_CLIP, {"importance_sampling_level": "sequence"}),
    HighEntropyLoss: ({**_CLIP, "top_entropy_quantile": "top_entropy_fraction"}, {}),
    CispoLoss: ({}, {"loss_type": "cispo"}),
    SapoLoss: (
        {"sapo_temperature_pos": "tau_positive", "sapo_temperature_neg": "tau_negative"},
        {"loss_type": "sapo"},
    ),
}
"""The losses that TRL has: option of GRPOConfig -> our setting, and the options that make TRL's loss that one."""
SEAM = SEAMS["TRL"]
OBJECTIVE: dict[str, Any] = {
    "scale_rewards": "none",
    "multi_objective_aggregation": "sum_then_normalize",
    "importance_sampling_level": "token",
    "use_bias_correction_kl": False,  # TRL's default multiplies the divergence by the ratio
    "sync_ref_model": False,  # the divergence is from the policy with which the run begins
    "top_entropy_quantile": 1.0,
    "delta": None,  # a third clip
    "mask_truncated_completions": False,
    "off_policy_mask_threshold": None,
    "use_adaptive_entropy": False,
    "router_aux_loss_coef": 0.0,  # TRL's default is that of a mixture of experts
}
"""What every method requires: advantages pass through as they are, and the loss has no term that the method has not."""
REPLACED = {
    "max_new_tokens": "max_completion_length",
    "max_tokens": "max_completion_length",
    "temperature": "temperature",
}
"""Keys of `generation_kwargs` -> the field that they replace where TRL samples, and nowhere else."""
OLDEST = oldest("trl")
"""The first TRL that knows scale_rewards="none"."""
ADDED = {
    "use_bias_correction_kl": (0, 26),
    "multi_objective_aggregation": (0, 27),
    "off_policy_mask_threshold": (0, 27),
    "router_aux_loss_coef": (1, 7),
    "entropy_coef": (1, 8),
    "use_adaptive_entropy": (1, 8),
}
"""The fields of GRPOConfig that came later, with the first TRL that has them. An older one does without them what
OBJECTIVE says."""
BY_STEPS = (1, 10)
"""The first TRL whose losses over tokens are those of an optimizer step: until then "luspo" counts padding, and "dapo"
divides each step by the tokens of the whole generation."""
UNSLOTHS = (0, 24)
"""The last TRL of the Unsloths whose own loss takes all tokens, whatever top_entropy_quantile says."""


def config(method: str | Method) -> dict[str, Any]:
    """What a GRPOConfig must say for `method`: clipping, aggregation, KL, entropy, and that TRL scales nothing.

    TRL normalises "token-mean" over the batch of one generation, and chooses tokens of high entropy in each
    micro-batch; we do both over the mini-batch. Fields that the installed TRL lacks are left out where it does the same
    without them.

    Raises:
        DiverError: TRL's seam, or the installed TRL, does not support the method.
    """
    loss = SEAM.usable(method).loss
    if loss.entropy_coef and (loss.aggregation == "token-sum" or isinstance(loss, HighEntropyLoss)):
        raise DiverError(
            f"method.loss.entropy_coef = {loss.entropy_coef}: TRL adds the mean entropy of the tokens that count, "
            "never a sum; set it to 0, take loss 'clip' with aggregation = 'token-mean', or choose another engine"
        )
    options, fixed = POLICY_LOSSES[type(loss)]
    fields = {
        **OBJECTIVE,
        "loss_type": LOSS_TYPES[loss.aggregation],
        "beta": loss.kl_coef,
        "entropy_coef": loss.entropy_coef,
        **{option: getattr(loss, setting) for option, setting in options.items()},
        **fixed,
    }
    if isinstance(loss, CispoLoss):
        if (loss.clip_low, loss.aggregation) != (1, "token-mean"):
            raise DiverError(
                "method.loss: TRL's cispo has no lower bound and is a mean over tokens; set clip_low = 1 and "
                "aggregation = 'token-mean', or choose another engine"
            )
        fields["epsilon_high"] = 1 + loss.clip_high  # in TRL's "cispo" it bounds the ratio itself
    if isinstance(loss, SapoLoss) and loss.aggregation != "sequence-mean":
        raise DiverError(
            f"method.loss.aggregation = {loss.aggregation!r}: TRL's sapo is a mean over responses; set "
            "'sequence-mean', or choose another engine"
        )
    return known(fields)


def known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Those of `fields` that the GRPOConfig of the installed TRL has; all where TRL is not installed.

    Raises:
        DiverError: an older TRL would train otherwise without one of them.
    """
    version = installed()
    if version is None:
        return dict(fields)
    name = f"TRL {dotted(version)} is installed"
    if version < OLDEST:
        raise DiverError(f"{name}, which normalises every advantage again: {dotted(OLDEST)} or newer is needed")
    if fields.get("loss_type") == LOSS_TYPES["token-sum"] and version < BY_STEPS:
        raise DiverError(
            f"{name}, which sums a loss over tokens with their padding: choose method.loss.aggregation = 'token-mean', "
            f"or install TRL {dotted(BY_STEPS)} or newer"
        )
    if (loss := fields.get("loss_type")) in ("cispo", "sapo") and version < BY_STEPS:
        raise DiverError(f"{name}: its loss {loss} was not compared with ours; {dotted(BY_STEPS)} or newer is needed")
    missing = {field for field, since in ADDED.items() if field in fields and version < since}
    if "entropy_coef" in missing and fields["entropy_coef"]:
        since, coef = dotted(ADDED["entropy_coef"]), fields["entropy_coef"]
        raise DiverError(f"{name}, without entropy_coef = {coef!r}: {since} or newer is needed")
    return {field: value for field, value in fields.items() if field not in missing}


def installed() -> tuple[int, int] | None:
    """The version of the installed TRL, None if TRL is not installed."""
    try:
        major, minor = re.findall(r"\d+", importlib.metadata.version("trl"))[:2]
    except importlib.metadata.PackageNotFoundError:
        return None
    return int(major), int(minor)


def dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def corrects(args: Any) -> bool:
    """Whether TRL multiplies the loss by the ratio of the trainer's to vLLM's probabilities, which no method has."""
    if not getattr(args, "use_vllm", False) or not getattr(args, "vllm_importance_sampling_correction", False):
        return False
    mode, *bounds = (
        getattr(args, f"vllm_importance_sampling_{name}", None) for name in ("mode", "clip_min", "clip_max")
    )
    at_1 = all(bound is not None and abs(bound - 1) < 1e-3 for bound in bounds)
    return not (at_1 and mode in ("token_truncate", "sequence_truncate"))


def check(args: Any, method: Method) -> None:
    """Raises DiverError if the GRPOConfig `args` would change advantages, or has another objective than `method`."""
    wanted, unsloth = config(method), type(args).__name__.startswith("Unsloth")
    if unsloth and isinstance(method.loss, HighEntropyLoss) and (installed() or UNSLOTHS) <= UNSLOTHS:
        raise DiverError(
            f"method {method.name!r}: an Unsloth for TRL up to {dotted(UNSLOTHS)} trains on tokens of low entropy, "
            "too; install one for a newer TRL, or choose another engine"
        )
    if missing := [name for name in wanted if not hasattr(args, name)]:
        raise DiverError(
            f"{type(args).__name__} has no {', '.join(missing)}: give a GRPOConfig and train with GRPOTrainer; TRL's "
            "other trainers (RLOO, asynchronous GRPO) make other advantages of what a reward function returns"
        )
    given = {name: getattr(args, name) for name in wanted}
    if "epsilon_high" in given and given["epsilon_high"] is None:
        given["epsilon_high"] = args.epsilon
    if given.get("router_aux_loss_coef", 0) is None:
        wanted.pop("router_aux_loss_coef")  # no experts, no such loss; `check_loss` checks the model
    if not method.loss.kl_coef:
        wanted.pop("use_bias_correction_kl", None)  # the divergence is not in the loss
    wrong = [f"{name}={value!r} (it is {given[name]!r})" for name, value in wanted.items() if given[name] != value]
    if wrong:
        made = ", after it is made: Unsloth changes it by itself" if unsloth else ""
        raise DiverError(f"GRPOConfig is not that of method {method.name!r}: set {', '.join(wrong)}{made}")
    for name in getattr(args, "generation_kwargs", None) or ():
        if name in REPLACED:
            raise DiverError(
                f"GRPOConfig.generation_kwargs: {name} takes the place of {REPLACED[name]}, which the advantage or the "
                f"loss reads; set {REPLACED[name]} instead"
            )
    version, each, steps = installed(), args.gradient_accumulation_steps, args.steps_per_generation
    if version and version < BY_STEPS and args.loss_type == LOSS_TYPES["token-mean"] and steps != each:
        raise DiverError(
            f"TRL {dotted(version)} divides the loss of an optimizer step by the tokens of the generation batch. "
            f"Set steps_per_generation={each}, as gradient_accumulation_steps is (it is {steps}), or "
            f"install TRL {dotted(BY_STEPS)} or newer"
        )
    method.check_group_size(args.num_generations, "num_generations")
