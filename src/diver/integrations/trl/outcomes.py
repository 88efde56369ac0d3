"""The outcome of a completion by the user's reward functions, in TRL's signature."""

import asyncio
import inspect
import math
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from threading import Thread
from typing import Any

import numpy as np

from diver.core.rounding import reaches
from diver.core.types import DiverError, Reward
from diver.methods import Method, check_outcomes

Values = Sequence[float | None]
Outcome = Callable[..., Values | Awaitable[Values]]


def one_outcome(
    outcome: Outcome | Sequence[Outcome] | None, weights: Sequence[float] | None, method: Method
) -> Callable[..., list[Reward]] | None:
    """One function for all of `outcome`, which gives the reward of each completion; None without an outcome.

    `weights` default to 1. Raises DiverError if their number is not that of the functions.
    """
    if outcome is None and weights is None:
        return None
    functions = (outcome,) if callable(outcome) else tuple(outcome or ())
    weights = tuple([1.0] * len(functions) if weights is None else weights)
    if not functions or len(weights) != len(functions):
        raise DiverError(f"outcome: {len(functions)} functions with {len(weights)} weights; give one weight for each")
    for function in functions:
        if not callable(function):
            raise DiverError(f"outcome: {function!r:.60} is not a function; a reward model is to be called in one")
    return partial(_rewards, functions, weights, method)


def _rewards(functions: Sequence[Outcome], weights: Sequence[float], method: Method, /, **inputs: Any) -> list[Reward]:
    """The weighted values of the functions as the reward of each completion.

    Only the first function decides what is correct. Its value is the outcome, NaN for None. The values of the others
    are added to the reward.

    Raises:
        DiverError: the weight of the first function moves a value over `method.threshold`.
    """
    scores = np.array(_values(functions, inputs))
    unweighted, threshold = scores[0], method.threshold
    outcomes, *further = scores * np.array(weights)[:, None]
    for function, values in zip(functions[1:], further, strict=True):
        if (np.isnan(unweighted) & ~np.isnan(values)).any():
            first, other = name_of(functions[0]), name_of(function)
            reason = f"{first} gives None where {other} gives a number: only the first function decides what is correct"
            warnings.warn(f"{reason}, so these completions have the advantage 0", stacklevel=2)
    check_outcomes(method, outcomes.tolist())
    for i in np.flatnonzero(reaches(unweighted, threshold) != reaches(outcomes, threshold)):
        raise DiverError(
            f"row {i}: {name_of(functions[0])} gives {unweighted[i]:g}, and {outcomes[i]:g} with its weight: both "
            f"must be at least method.threshold, {threshold:g}, or neither; change `weights`"
        )
    extras = np.nansum([np.zeros_like(outcomes), *further], axis=0)
    return [Reward(outcome, other=other) for outcome, other in zip(outcomes.tolist(), extras.tolist(), strict=True)]


def _values(functions: Sequence[Outcome], inputs: Mapping[str, Any]) -> list[list[float]]:
    """The value of each function for each completion, NaN for None. Asynchronous functions run together."""
    values: list[Any] = [function(**inputs) for function in functions]
    if awaitables := {i: value for i, value in enumerate(values) if inspect.isawaitable(value)}:

        async def together() -> list[Any]:
            return await asyncio.gather(*awaitables.values())

        # One event loop for the whole run, so that a session which a function keeps open works at the next step. It
        # runs in another thread, because in a notebook the calling thread already runs a loop.
        results = asyncio.run_coroutine_threadsafe(together(), _event_loop()).result()
        for i, result in zip(awaitables, results, strict=True):
            values[i] = result
    return [_numbers(*pair, len(inputs["completions"])) for pair in zip(functions, values, strict=True)]


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True).start()
    return loop


def _numbers(function: Outcome, values: Any, count: int) -> list[float]:
    """The values of a function as `count` numbers, NaN for None."""
    try:
        if isinstance(values, Mapping):
            raise TypeError
        numbers = [math.nan if value is None else float(value + 0) for value in values]  # a text has no + 0
    except (TypeError, ValueError):
        expected = "a reward function returns a list with a number or None for each completion"
        raise DiverError(f"{name_of(function)} returns {values!r:.60}: {expected}") from None
    if len(numbers) != count:
        raise DiverError(f"{name_of(function)} gives {len(numbers)} rewards for {count} completions")
    return numbers


def name_of(function: Any) -> str:
    """What a reward function is called in a message."""
    name = getattr(function, "__name__", None) or getattr(getattr(function, "config", None), "_name_or_path", None)
    return str(name or type(function).__name__)
