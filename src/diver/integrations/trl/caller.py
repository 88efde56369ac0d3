"""The trainer that calls a reward function, and its other reward functions."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diver.core.types import DiverError
from diver.integrations.trl.outcomes import name_of

ENVIRONMENTS = "__init__.<locals>.get_reward"
"""The name of the function by which GRPOTrainer makes the method of an environment a reward function."""
TOOL_MASKS = "tool_mask_list"
"""The name under which GRPOTrainer has the masks of tools, where it has completions scored."""


def calling_trainer() -> Any | None:
    """The GRPOTrainer above this call, None without one.

    TRL passes a reward function neither its configuration nor the other functions that it is added to. A function that
    is named in a file is made before the trainer is. The trainer is therefore looked for in the calling frames, by
    attributes that are public in TRL.
    """
    callers = (variables.get("self") for variables in _calling_frames())
    return next((c for c in callers if {"reward_funcs", "args"} <= {*getattr(c, "__dict__", ())}), None)


def tool_masks() -> Sequence[Sequence[int]] | None:
    """Which tokens of each completion the policy wrote, for the trainer above this call; None if it has no tools.

    TRL passes a reward function no mask. It is a local variable of the function that scores the completions.
    """
    return next((variables[TOOL_MASKS] for variables in _calling_frames() if TOOL_MASKS in variables), None)


def _calling_frames() -> Iterator[Mapping[str, Any]]:
    """The local variables of each function above this call, the nearest first."""
    frame = inspect.currentframe()
    while frame := frame and frame.f_back:
        yield frame.f_locals


def is_training(trainer: Any) -> bool:
    """Whether a batch is one of the training. As in TRL, the mode of the model decides."""
    return getattr(getattr(trainer, "model", None), "training", True)


def check_loss(trainer: Any, wanted: Mapping[str, Any]) -> None:
    """Raises DiverError if the trainer has another loss than GRPOTrainer's, or a term that no method has.

    Most fields of the GRPOConfig are read when the trainer is created. They must have been as `wanted` then.
    """
    copied = {name: getattr(trainer, name, value) for name, value in wanted.items() if name != "router_aux_loss_coef"}
    if before := [f"{name}={value!r}" for name, value in copied.items() if value != wanted[name]]:
        raise DiverError(
            f"the trainer still has {', '.join(before)}, from before its GRPOConfig was changed: create the trainer "
            "again"
        )
    classes = type(trainer).__mro__
    names = [cls.__name__ for cls in classes]
    for cls in classes[: names.index("GRPOTrainer")] if "GRPOTrainer" in names else ():
        if found := {"compute_loss", "_compute_loss"} & {*vars(cls)}:
            raise DiverError(
                f"{cls.__name__} has a loss of its own ({', '.join(sorted(found))}), which is not that of the method: "
                "train with GRPOTrainer"
            )
    if getattr(trainer, "aux_loss_enabled", False):
        raise DiverError(
            "TRL adds the load-balancing loss of a mixture of experts, which is not part of the method: set "
            "router_aux_loss_coef=0.0 in the GRPOConfig"
        )


def check_alone(trainer: Any, own: Any) -> None:
    """Raises DiverError if TRL would add the rewards of other functions to those of `own`, or scale these."""
    functions = list(trainer.reward_funcs)
    given = getattr(
        trainer, "reward_weights", trainer.args.reward_weights
    )  # the trainer's functions: TRL adds that of an environment's get_reward to the arguments'
    weights = [1.0] * len(functions) if given is None else [float(weight) for weight in given]
    index = next((i for i, function in enumerate(functions) if function is own), 0)
    if weights[index] != 1:
        raise DiverError(
            f"GRPOConfig.reward_weights gives the advantage the weight {weights[index]}, but the advantage is "
            "already normalised: give it 1"
        )
    rewards = list(zip(functions, weights, strict=True))
    for i, (function, weight) in enumerate(rewards):
        if weight and i != index and getattr(function, "__qualname__", "").endswith(ENVIRONMENTS):
            raise DiverError(
                "get_reward of the environment: TRL would add its reward to an advantage that is normalised already; "
                "read it in outcome=lambda environments, **_: [e.get_reward() for e in environments], and set "
                f"trainer.reward_weights[{i}] = 0 before trainer.train()"
            )
    if added := [name_of(function) for i, (function, weight) in enumerate(rewards) if weight and i != index]:
        raise DiverError(
            f"reward functions {', '.join(added)}: TRL would add their rewards to an advantage that is normalised "
            "already; give GroupAdvantage outcome=[...] with all of them, or reward_weights that are 0 for all others"
        )
