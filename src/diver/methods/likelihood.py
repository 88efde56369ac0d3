"""The likelihood of responses under the sampler, from `Rollout.logprobs`."""

import numpy as np

from diver.core.types import Rollout


def sum_logprobs(rollouts: tuple[Rollout, ...]) -> np.ndarray:
    """log pi(o), the sum over the tokens of each response, float64 [G]; 0 of no token."""
    return np.array([np.asarray(rollout.logprobs, np.float64).sum() for rollout in rollouts])


def mean_logprobs(rollouts: tuple[Rollout, ...]) -> np.ndarray:
    """log pi(o) / T, the mean over the tokens of each response, float64 [G]; 0 of no token."""
    lengths = np.array([len(np.asarray(rollout.logprobs)) for rollout in rollouts])
    return sum_logprobs(rollouts) / np.maximum(lengths, 1)
