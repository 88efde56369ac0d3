"""tinker-cookbook: `EnvGroupBuilder.compute_group_rewards` (docs/engines/tinker-cookbook.md).

The cookbook adds these rewards to those of the steps, and its advantage is the total minus the mean of the group.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from diver.core.types import Progress
from diver.integrations.api import advantages
from diver.integrations.seam import SEAMS, decoder
from diver.methods import Method

SEAM = SEAMS["tinker-cookbook"]


def group_rewards(
    trajectories: Sequence[Any], tokenizer: Any, method: str | Method = "diver-mix", progress: Progress | float = 0.0
) -> list[tuple[float, dict[str, float]]]:
    """(reward, metrics) of each trajectory, such that its total is the advantage.

    The outcome is the sum of the rewards of its steps. A single trajectory, as in an evaluation, gets
    the reward 0, so its total is the outcome.
    """
    method, decode = SEAM.usable(method), decoder(tokenizer)
    outcomes = [float(sum(step.reward for step in trajectory.transitions)) for trajectory in trajectories]
    if len(outcomes) == 1:
        return [(0.0, {"outcome": outcomes[0]})]
    actions = [[step.ac for step in trajectory.transitions] for trajectory in trajectories]
    tokens = [[token for action in steps for token in action.tokens] for steps in actions]
    logprobs = [[value for action in steps for value in action.maybe_logprobs or ()] for steps in actions]
    complete = all(len(ids) == len(values) for ids, values in zip(tokens, logprobs, strict=True))
    texts = ["\n".join(decode(action.tokens) for action in steps) for steps in actions]
    columns: dict[str, Any] = {"tokens": tokens, "logprobs": logprobs if complete else None, "decode": decode}
    shaped = np.asarray(advantages(texts, outcomes, [0] * len(texts), method, progress, **columns)).tolist()
    return [(a - outcome, {"outcome": outcome}) for a, outcome in zip(shaped, outcomes, strict=True)]
