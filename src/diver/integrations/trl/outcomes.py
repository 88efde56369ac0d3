"""The outcome of a completion by reward functions of the user's own, in TRL's signature."""

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from diver.core.types import DiverError
from diver.methods import Method, check_outcomes

Values = Sequence[float | None]
Outcome = Callable[..., Values | Awaitable[Values]]


@dataclass(frozen=True)
class WeightedOutcome:
    """The weighted sum of what several reward functions give, of those that are not None for a completion.

    The first of them that is for a completion says whether it is correct: when it gives at least `threshold`. The sum
    must say the same, for a method sees the sum alone; DiverError where the others outweigh it. `check_outcomes`
    applies to the weighted value of that function; the sum may be below 0 or above 1.
    """

    functions: tuple[Outcome, ...]
    weights: tuple[float, ...]
    method: Method

    def __call__(self, **inputs: Any) -> list[float | None]:
        rows = [*zip(*(values_of(function, inputs) for function in self.functions), strict=True)]
        given = [_given(row) for row in rows]
        firsts = [
            self.weights[of[0]] * float(row[of[0]]) if of else math.nan for row, of in zip(rows, given, strict=True)
        ]
        check_outcomes(self.method, firsts)
        return [self._of_row(i, row, of) for i, (row, of) in enumerate(zip(rows, given, strict=True))]

    def _of_row(self, i: int, values: Values, given: Sequence[int]) -> float | None:
        if not given:
            return None
        threshold = self.method.threshold
        first, total = values[given[0]], sum(self.weights[j] * float(values[j] or 0.0) for j in given)
        if first is not None and (first >= threshold) != (total >= threshold):
            raise DiverError(
                f"row {i}: {name_of(self.functions[given[0]])} gives {first:g}, and the weighted sum of `outcome` is "
                f"{total:g}: both must be at least method.threshold, {threshold:g}, or neither; change `weights`"
            )
        return total


def _given(values: Values) -> list[int]:
    """Which of the functions are for a completion."""
    return [j for j, value in enumerate(values) if value is not None and not math.isnan(value)]


def one_outcome(
    outcome: Outcome | Sequence[Outcome] | None, weights: Sequence[float] | None, method: Method
) -> Outcome | None:
    """The outcome as one function; `weights` are 1 where they are not given. DiverError where they do not fit."""
    if outcome is None or callable(outcome):
        if weights is not None:
            raise DiverError("weights: are of several functions; give outcome=[...]")
        return outcome
    functions = tuple(outcome)
    for function in functions:
        if not callable(function):
            raise DiverError(f"outcome: {function!r:.60} is not a function; a reward model is to be called in one")
    weights = tuple([1.0] * len(functions) if weights is None else weights)
    if not functions or len(weights) != len(functions):
        raise DiverError(f"outcome: {len(functions)} functions with {len(weights)} weights; give one weight for each")
    return WeightedOutcome(functions, weights, method)


def values_of(function: Outcome, inputs: dict[str, Any]) -> Values:
    """What a reward function gives for each completion; one that is asynchronous is awaited."""
    result = function(**inputs)
    values = asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result
    if len(values) != len(inputs["completions"]):
        raise DiverError(
            f"{name_of(function)} gives {len(values)} rewards for {len(inputs['completions'])} completions"
        )
    return values


async def _awaited(values: Awaitable[Values]) -> Values:
    return await values


def name_of(function: Any) -> str:
    """What a reward function is called in a message."""
    name = getattr(function, "__name__", None) or getattr(getattr(function, "config", None), "_name_or_path", None)
    return str(name or type(function).__name__)
