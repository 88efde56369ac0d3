"""Our advantages as estimators of verl: `diver-grpo` (population standard deviation) and `diver-pass-at-k`.

verl gives an estimator rewards and nothing else of a response, so with the trainer mode of this plugin they pass on what
`Method.apply` found (`handing`). With another trainer mode they are the estimators of a method that pays nothing.
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
from diver.methods import METHODS, Method
from diver.types import DiverError, Group, Problem, Reward, Rollout

_handed: ContextVar[Sequence[float] | None] = ContextVar("handed", default=None)


@contextmanager
def handing(advantages: Sequence[float]) -> Iterator[None]:
    """Within this block the estimators give these advantages, one for each row of verl's batch, in its order."""
    token = _handed.set(advantages)
    try:
        yield
    finally:
        _handed.reset(token)


@register_adv_est(f"{NAME}-grpo")
def grpo(**columns: Any) -> tuple[Tensor, Tensor]:
    """A_i = (r_i - mean) / std over each group, with 1/G in the variance (paper Eq. 2); verl's own `grpo` has 1/(G - 1)."""
    return _estimate("grpo", **columns)


@register_adv_est(f"{NAME}-pass-at-k")
def pass_at_k(**columns: Any) -> tuple[Tensor, Tensor]:
    """Pass@k Training (arXiv 2508.10751); verl's `grpo_passk` is another method (arXiv 2503.19595)."""
    return _estimate("pass-at-k", **columns)


def _estimate(
    estimator: str,
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any] | None = None,
    config: Mapping[str, Any] | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns (the same), float32 [B, T], from rewards and mask [B, T] and the uid of each row, [B]."""
    given = _handed.get()
    if given is None:
        method = _method(estimator, (config or {}).get(NAME))
        if index is None:
            raise DiverError(f"{KEY}: the batch has no uid, which says what row is in what group")
        given = _by_group(method, token_level_rewards.double().sum(-1).tolist(), response_mask.any(-1).tolist(), index)
    rows = torch.tensor(given, dtype=torch.float64, device=response_mask.device).float()
    advantages = rows[:, None] * response_mask
    return advantages, advantages


def _method(estimator: str, setting: Any) -> Method:
    if setting is None:
        return Method.named(estimator)  # both names are methods too
    method = read_plugin(setting).method
    if method.pays or method.selection.keep != "all":
        raise DiverError(
            f"{KEY}: method {method.name!r} looks at whole groups of responses, which an estimator does not see: "
            f"add trainer.v1.trainer_mode={NAME}, or choose one of {', '.join(n for n in METHODS if not METHODS[n]['pays'])}"
        )
    if method.estimator != estimator:
        raise DiverError(
            f"algorithm.adv_estimator: is {NAME}-{estimator}, but {KEY} asks for {NAME}-{method.estimator}"
        )
    return method


def _by_group(method: Method, rewards: Sequence[float], present: Sequence[bool], uids: Sequence[Any]) -> list[float]:
    """A group without any token, with which verl pads a batch, has advantages of 0, whatever its size."""
    rows: dict[Any, list[int]] = {}
    for i, uid in enumerate(uids):
        rows.setdefault(uid, []).append(i)
    advantages = np.zeros(len(rewards))
    for uid, index in rows.items():
        if any(present[i] for i in index):
            method.check_group(len(index), GROUP)
            rollouts = tuple(Rollout(response="", reward=Reward(rewards[i])) for i in index)
            (group,) = method.apply([Group(Problem(str(uid), "", ""), rollouts)], 0.0)
            advantages[index] = group.advantages
    return advantages.tolist()
