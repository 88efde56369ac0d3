"""Check that external outcomes, rewards of any scale, have the scale that a method needs."""

import math
import warnings
from collections.abc import Sequence

from diver.core.rounding import ROUNDING, reaches
from diver.core.types import DiverError
from diver.methods.base import Method


def check_outcomes(method: Method, outcomes: Sequence[float]) -> None:
    """Raises DiverError for an outcome, float [B], that is not from 0 to 1 where the method needs that.

    Warns where the method asks what is correct, no outcome reaches its threshold, and the outcomes have one or two
    values, such as 0 and 0.1. This is no error: a batch may also be all wrong with partial credit. NaN and
    infinite outcomes are not checked.
    """
    finite = {i: outcome for i, outcome in enumerate(outcomes) if math.isfinite(outcome)}
    if method.unit_outcomes:
        for i, outcome in finite.items():
            if not -ROUNDING <= outcome <= 1 + ROUNDING:
                raise DiverError(
                    f"row {i}: the outcome is {outcome:g}, and method {method.name!r} needs outcomes from 0 (wrong) to "
                    "1 (correct). Divide rewards of 0 and 10 by 10; give (r + 1) / 2 for rewards of -1 and 1"
                )
    values, threshold = {*finite.values()}, method.threshold
    needs_correct = method.unit_outcomes or method.counts_correct
    if needs_correct and len(values) in (1, 2) and (highest := max(values)) > 0 and not reaches(highest, threshold):
        warnings.warn(
            f"method {method.name!r}: no outcome reaches method.threshold = {threshold:g}, and the highest of "
            f"{len(finite)} is {highest:g}; if {highest:g} is the reward of a correct response, give 1 instead",
            stacklevel=3,
        )
