"""The outcome of a completion by reward functions of the user's own, in TRL's signature."""

import asyncio
import inspect
import math
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
    """The outcome as one function, which gives the reward of each completion; None without an outcome.

    `weights` are 1 where they are not given. DiverError where they do not fit.
    """
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
    return partial(_rewards, functions, weights, method)


def _rewards(functions: Sequence[Outcome], weights: Sequence[float], method: Method, /, **inputs: Any) -> list[Reward]:
    """What the functions give for each completion, of those that are not None for it, times their weights.

    The value of the first of them is the outcome, which says whether the completion is correct. The others are added
    to its reward. The outcome is NaN where no function is for a completion.

    Raises:
        DiverError: the first functions of completions of one prompt differ, or the weight of the first one moves a
            value over `method.threshold`.
    """
    given = np.array([_values_of(function, inputs) for function in functions])
    if np.isnan(given).all():
        warnings.warn(f"{name_of(functions[0])} is None for all {len(given[0])} rows: they teach nothing", stacklevel=2)
    weighted, rows = given * np.array(weights)[:, None], np.arange(given.shape[1])
    first = (~np.isnan(given)).argmax(axis=0)  # the first function that applies to a completion
    for i in np.flatnonzero(np.diff(first)):
        if inputs["prompts"][i] == inputs["prompts"][i + 1]:
            one, other = (name_of(functions[n]) for n in first[i : i + 2])
            raise DiverError(
                f"rows {i} and {i + 1} answer one prompt, but {one} and {other} give their outcomes; a function gives "
                "a number for all completions of a prompt, or None for all"
            )
    firsts, outcomes, threshold = given[first, rows], weighted[first, rows], method.threshold
    check_outcomes(method, outcomes.tolist())
    for i in np.flatnonzero(reaches(firsts, threshold) != reaches(outcomes, threshold)):
        raise DiverError(
            f"row {i}: {name_of(functions[first[i]])} gives {firsts[i]:g}, and {outcomes[i]:g} with its weight: both "
            f"must be at least method.threshold, {threshold:g}, or neither; change `weights`"
        )
    weighted[first, rows] = 0
    others = np.nansum(weighted, axis=0)
    return [Reward(outcome, other=other) for outcome, other in zip(outcomes.tolist(), others.tolist(), strict=True)]


def _values_of(function: Outcome, inputs: Mapping[str, Any]) -> list[float]:
    """What a reward function gives for each completion, NaN for None; one that is asynchronous is awaited."""
    values: Any = function(**inputs)
    if inspect.iscoroutine(values):
        with ThreadPoolExecutor(1) as thread:  # a notebook runs an event loop in this thread, which has only one
            values = thread.submit(asyncio.run, values).result()
    if len(values) != len(inputs["completions"]):
        raise DiverError(
            f"{name_of(function)} gives {len(values)} rewards for {len(inputs['completions'])} completions"
        )
    return [math.nan if value is None else float(value) for value in values]


def name_of(function: Any) -> str:
    """What a reward function is called in a message."""
    name = getattr(function, "__name__", None) or getattr(getattr(function, "config", None), "_name_or_path", None)
    return str(name or type(function).__name__)
