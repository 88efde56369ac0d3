"""Our advantages as the estimator `diver` of verl.

verl gives an estimator rewards and nothing else of a response, so with the trainer mode of this plugin it passes on what
`Method.apply` computed (`override_advantages`). With another trainer mode it is the estimator of a method that needs
outcomes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est

from diver.integrations.verl.config import GROUP, KEY, NAME, read_plugin
from diver.methods import Method, check_needs
from diver.types import DiverError, Group, Problem, Reward, Rollout

_advantages: ContextVar[Sequence[float] | None] = ContextVar("advantages", default=None)


@contextmanager
def override_advantages(advantages: Sequence[float]) -> Iterator[None]:
    """Within this block the estimator gives these advantages, one for each row of verl's batch, in its order."""
    token = _advantages.set(advantages)
    try:
        yield
    finally:
        _advantages.reset(token)


@register_adv_est(NAME)
def estimate(
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any] | None = None,
    config: Mapping[str, Any] | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns (the same), float32 [B, T], from rewards and mask [B, T] and the uid of each row, [B]."""
    advantages = _advantages.get()
    if advantages is None:
        method = read_plugin((config or {}).get(NAME)).method
        check_needs(method, f"algorithm.adv_estimator={NAME} without trainer.v1.trainer_mode={NAME}", ())
        if index is None:
            raise DiverError(f"{KEY}: the batch has no uid, which says what row is in what group")
        rewards, present = token_level_rewards.double().sum(-1).tolist(), response_mask.any(-1).tolist()
        advantages = _by_group(method, rewards, present, index)
    rows = torch.tensor(advantages, dtype=torch.float64, device=response_mask.device).float()
    per_token = rows[:, None] * response_mask
    return per_token, per_token


def _by_group(method: Method, rewards: Sequence[float], present: Sequence[bool], uids: Sequence[Any]) -> list[float]:
    """A group without any token, with which verl pads a batch, has advantages of 0, whatever its size."""
    rows: dict[Any, list[int]] = {}
    for i, uid in enumerate(uids):
        rows.setdefault(uid, []).append(i)
    advantages = np.zeros(len(rewards))
    for uid, index in rows.items():
        if any(present[i] for i in index):
            method.check_group_size(len(index), GROUP)
            rollouts = tuple(Rollout(response="", reward=Reward(rewards[i])) for i in index)
            (group,) = method.apply([Group(Problem(str(uid), "", ""), rollouts)], 0.0)
            advantages[index] = group.advantages
    return advantages.tolist()
