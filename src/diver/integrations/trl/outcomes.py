"""The outcome of a completion by reward functions of the user's own, in TRL's signature."""

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diver.core.types import DiverError
from diver.methods import Method, check_outcomes

Values = Sequence[float | None]
Outcome = Callable[..., Values | Awaitable[Values]]


@dataclass(frozen=True)
class WeightedOutcome:
    """The weighted sum of what the reward functions give, of those that are not None for a completion.

    The first of them that is for a completion says whether it is correct: when it gives at least `threshold`. The sum
    must say the same, for a method sees the sum alone. `check_outcomes` applies to the weighted value of that function;
    the sum may be below 0 or above 1.

    Raises:
        DiverError: the others outweigh the first.
    """

    functions: tuple[Outcome, ...]
    weights: tuple[float, ...]
    method: Method

    def __call__(self, **inputs: Any) -> np.ndarray:
        """float64 [B], NaN for a completion that no function is for."""
        given = np.array([_values_of(function, inputs) for function in self.functions])
        weighted, rows = given * np.array(self.weights)[:, None], np.arange(given.shape[1])
        first = (~np.isnan(given)).argmax(axis=0)  # the first function that applies to a completion
        firsts, threshold = given[first, rows], self.method.threshold
        check_outcomes(self.method, weighted[first, rows].tolist())
        totals = np.where(np.isnan(firsts), math.nan, np.nansum(weighted, axis=0))
        for i in np.flatnonzero((firsts >= threshold) != (totals >= threshold)):
            raise DiverError(
                f"row {i}: {name_of(self.functions[first[i]])} gives {firsts[i]:g}, and the weighted sum of `outcome` "
                f"is {totals[i]:g}: both must be at least method.threshold, {threshold:g}, or neither; change `weights`"
            )
        return totals


def one_outcome(
    outcome: Outcome | Sequence[Outcome] | None, weights: Sequence[float] | None, method: Method
) -> WeightedOutcome | None:
    """The outcome as one function; `weights` are 1 where they are not given. DiverError where they do not fit."""
    if weights is not None and (outcome is None or callable(outcome)):
        raise DiverError("weights: are of several functions; give outcome=[...]")
    if outcome is None:
        return None
    functions = (outcome,) if callable(outcome) else tuple(outcome)
    for function in functions:
        if not callable(function):
            raise DiverError(f"outcome: {function!r:.60} is not a function; a reward model is to be called in one")
    weights = tuple([1.0] * len(functions) if weights is None else weights)
    if not functions or len(weights) != len(functions):
        raise DiverError(f"outcome: {len(functions)} functions with {len(weights)} weights; give one weight for each")
    return WeightedOutcome(functions, weights, method)


def _values_of(function: Outcome, inputs: Mapping[str, Any]) -> list[float]:
    """What a reward function gives for each completion, NaN for None; one that is asynchronous is awaited."""
    result = function(**inputs)
    values: Any = asyncio.run(result) if inspect.iscoroutine(result) else result
    if len(values) != len(inputs["completions"]):
        raise DiverError(
            f"{name_of(function)} gives {len(values)} rewards for {len(inputs['completions'])} completions"
        )
    return [math.nan if value is None else float(value) for value in values]


def name_of(function: Any) -> str:
    """What a reward function is called in a message."""
    name = getattr(function, "__name__", None) or getattr(getattr(function, "config", None), "_name_or_path", None)
    return str(name or type(function).__name__)
