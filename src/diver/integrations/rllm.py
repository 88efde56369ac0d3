"""rLLM: an advantage estimator over trajectory groups, registered as "other" (docs/engines/rllm.md)."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diver.integrations.seam import SEAMS, no_schedule
from diver.methods import Method
from diver.types import DiverError

SEAM = SEAMS["rLLM"]


class Estimator:
    """`(rewards, algorithm_config, traj_groups=...) -> (advantages, returns)`, an array for each group.

    The response of a trajectory of several steps is that of all of them. `progress` gives how far the run is, 0 to 1.
    """

    def __init__(self, method: str | Method = "diver-mix", progress: Callable[[], float] = no_schedule) -> None:
        self.method, self.progress = SEAM.usable(method), progress

    def __call__(
        self, rewards: Sequence[Any], algorithm_config: Any, traj_groups: Sequence[Any] | None = None, **_: Any
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        if traj_groups is None:
            raise DiverError("rLLM gave its estimator no traj_groups, which have the responses: a newer rLLM is needed")
        groups = [self._of_group(g, list(r)) for g, r in zip(traj_groups, rewards, strict=True)]
        return groups, groups

    def _of_group(self, group: Any, rewards: list[float]) -> np.ndarray:
        trajectories = [trajectory.steps for trajectory in group.trajectories]
        texts = ["\n".join(map(written, steps)) for steps in trajectories]
        tokens = [[token for step in steps for token in step.response_ids] for steps in trajectories]
        if "responses" in self.method.needs and not any(texts) and sum(map(len, tokens)) > len(tokens):
            raise DiverError("rLLM: all responses of a group are empty, but have tokens; Step needs its model_output")
        logprobs = [[value for step in steps for value in step.logprobs] for steps in trajectories]
        known = all(len(ids) == len(values) for ids, values in zip(tokens, logprobs, strict=True))
        columns = {"tokens": tokens, "logprobs": logprobs if known else None}
        return np.array(SEAM.of_group(self.method, texts, rewards, self.progress(), **columns))


def written(step: Any) -> str:
    """The thought, the response and the calls of a step; a workflow of one's own may give its Step a model_output alone."""
    output = step.model_output
    parts = step.thought or getattr(output, "reasoning", None), step.model_response or getattr(output, "content", None)
    return "\n".join([*filter(None, parts), *map(str, getattr(output, "tool_calls", None) or ())])


def register(method: str | Method = "diver-mix", progress: Callable[[], float] = no_schedule) -> None:
    """Register the estimator. algorithm.adv_estimator=diver finds it: rLLM takes every name that it does not know for "other"."""
    from rllm.trainer.algorithms.advantage import register_rllm_adv_estimator
    from rllm.trainer.algorithms.config import rLLMAdvantageEstimator

    register_rllm_adv_estimator(rLLMAdvantageEstimator.OTHER)(Estimator(method, progress))
