"""What a method requires of TRL's GRPOConfig. TRL is not imported."""

from typing import Any

from diver.losses import ClipLoss, GspoLoss, HighEntropyLoss, PolicyLoss
from diver.methods import Method, check_needs, method_named
from diver.types import DiverError

LOSS_TYPES = {"token-mean": "dapo", "sequence-mean": "grpo", "token-sum": "luspo"}
_CLIP = {"epsilon": "clip_low", "epsilon_high": "clip_high"}
POLICY_LOSSES: dict[type[PolicyLoss], tuple[dict[str, str], dict[str, Any]]] = {
    ClipLoss: (_CLIP, {}),
    GspoLoss: (_CLIP, {"importance_sampling_level": "sequence"}),
    HighEntropyLoss: ({**_CLIP, "top_entropy_quantile": "top_entropy_fraction"}, {}),
}
"""The losses that TRL has: option of GRPOConfig -> our setting, and the options that make TRL's loss that one."""
CARRIES = ("responses", "tokens", "keys")
OBJECTIVE: dict[str, Any] = {
    "scale_rewards": "none",
    "multi_objective_aggregation": "sum_then_normalize",
    "importance_sampling_level": "token",
    "use_bias_correction_kl": False,  # TRL's default multiplies the divergence by the ratio
    "top_entropy_quantile": 1.0,
    "delta": None,  # a third clip
    "mask_truncated_completions": False,
    "off_policy_mask_threshold": None,
    "use_adaptive_entropy": False,
    "reward_weights": None,
}
"""What every method requires: advantages pass through as they are, and the loss has no term that the method has not."""


def config(method: str | Method) -> dict[str, Any]:
    """What a GRPOConfig must say for `method`: clipping, aggregation, KL, entropy, and that TRL scales nothing.

    TRL normalises "token-mean" over the batch of one generation, and chooses tokens of high entropy in each micro-batch;
    we do both over the mini-batch. DiverError for a method that TRL's seam cannot carry.
    """
    loss = usable(method).loss
    options, fixed = POLICY_LOSSES[type(loss)]
    return {
        **OBJECTIVE,
        "loss_type": LOSS_TYPES[loss.aggregation],
        "beta": loss.kl_coef,
        "entropy_coef": loss.entropy_coef,
        **{option: getattr(loss, setting) for option, setting in options.items()},
        **fixed,
    }


def usable(method: str | Method) -> Method:
    """The method, where a reward function can carry it: TRL subtracts the mean of a group and trains on every rollout."""
    method = method_named(method) if isinstance(method, str) else method
    check_needs(method, "TRL", CARRIES)
    if not method.zero_mean:
        raise DiverError(
            f"method {method.name!r}: its advantages do not sum to 0 in a group, and TRL subtracts their mean; choose "
            "another engine"
        )
    if method.per_token:
        raise DiverError(
            f"method {method.name!r} has an advantage for each token, and a reward function gives TRL one for a response; choose "
            "another engine"
        )
    if method.selection.drops:
        raise DiverError(
            f"method {method.name!r}: a selection drops rollouts, and TRL trains on every one; choose another engine"
        )
    if type(method.loss) not in POLICY_LOSSES:
        raise DiverError(
            f"method.loss.name = {method.loss.name!r}: TRL has no such loss; train this method with another engine"
        )
    return method


def check(args: Any, method: Method) -> None:
    """Raises DiverError where the GRPOConfig `args` would change advantages, or has another objective than `method`."""
    wanted = config(method)
    given = {name: getattr(args, name) for name in wanted}
    if given["epsilon_high"] is None:
        given["epsilon_high"] = given["epsilon"]
    wrong = [f"{name}={value!r} (it is {given[name]!r})" for name, value in wanted.items() if given[name] != value]
    if wrong:
        raise DiverError(f"GRPOConfig is not that of method {method.name!r}: set {', '.join(wrong)}")
    if args.num_generations_eval not in (None, args.num_generations):
        raise DiverError(
            f"GRPOConfig.num_generations_eval is {args.num_generations_eval}: a reward function cannot tell evaluation from "
            f"training, so leave it out, or set it to num_generations, {args.num_generations}"
        )
    method.check_group_size(args.num_generations, "num_generations")
