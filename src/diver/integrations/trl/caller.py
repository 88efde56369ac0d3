"""The trainer that calls a reward function, and its other reward functions."""

import inspect
from typing import Any

from diver.core.types import DiverError
from diver.integrations.trl.outcomes import name_of


def calling_trainer() -> Any | None:
    """The GRPOTrainer above this call, None without one.

    TRL passes a reward function neither its configuration nor the other functions that it is added to. A function that
    is named in a file is made before the trainer is. The trainer is therefore looked for in the calling frames, by
    attributes that are public in TRL.
    """
    frame = inspect.currentframe()
    while frame := frame and frame.f_back:
        caller = frame.f_locals.get("self")
        if {"reward_funcs", "args"} <= {*getattr(caller, "__dict__", ())}:
            return caller
    return None


def check_alone(trainer: Any, own: Any) -> None:
    """Raises DiverError where TRL would add the rewards of other functions to those of `own`, or scale these."""
    functions = list(trainer.reward_funcs)
    weights = [1.0] * len(functions) if trainer.args.reward_weights is None else list(trainer.args.reward_weights)
    index = next((i for i, function in enumerate(functions) if function is own), 0)
    if weights[index] != 1:
        raise DiverError(
            f"GRPOConfig.reward_weights gives the advantage the weight {weights[index]}, and it is normalised already: "
            "give it 1"
        )
    rewards = zip(functions, weights, strict=True)
    if added := [name_of(function) for i, (function, weight) in enumerate(rewards) if weight and i != index]:
        raise DiverError(
            f"reward functions {', '.join(added)}: TRL would add their rewards to an advantage that is normalised "
            "already; give GroupAdvantage outcome=[...] with all of them, or reward_weights that are 0 for all others"
        )
