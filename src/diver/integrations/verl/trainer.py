"""verl's synchronous trainer with whole groups shaped between sampling and the advantage, by `Method.apply`.

sample          `multiplier` x rollout.n responses to each prompt
shape           `_balance_batch`, the first that verl does with a whole batch: Method.apply; what is not kept is dropped
advantage       handed to verl through the estimator `diver`
log, dump       critic/score is the task's reward, critic/rewards the shaped one; the rest of our metrics as diver/...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import transfer_queue
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.core_algos import register_adv_est
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.utils import tensordict_utils
from verl.utils.debug import marked_timer

from diver.integrations.verl import nodes
from diver.integrations.verl.batch import columns, read_groups
from diver.integrations.verl.config import NAME, check, read_plugin
from diver.types import DiverError, Progress, Rollout, grade_fractions

_advantages: ContextVar[Sequence[float] | None] = ContextVar("advantages", default=None)


@contextmanager
def override_advantages(advantages: Sequence[float]) -> Iterator[None]:
    """Within this block `estimate` gives these advantages, one for each row of verl's batch, in its order."""
    token = _advantages.set(advantages)
    try:
        yield
    finally:
        _advantages.reset(token)


@register_adv_est(NAME)
def estimate(*, response_mask: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    """Advantages and returns (the same), float32 [B, T], of a batch with the mask [B, T].

    verl gives an estimator the rewards and nothing else of a response, so it passes on what the trainer computed.
    """
    advantages = _advantages.get()
    if advantages is None:
        raise DiverError(f"algorithm.adv_estimator={NAME} needs trainer.v1.trainer_mode={NAME}, which computes them")
    per_token = torch.tensor(advantages, device=response_mask.device)[:, None] * response_mask
    return per_token, per_token


@register_trainer(NAME)
class DiverTrainer(PPOTrainerSync):
    """`PPOTrainerSync` of which every batch passes through `Method.apply`."""

    def __init__(self, config: DictConfig) -> None:
        self.method = read_plugin(OmegaConf.to_container(config.algorithm, resolve=True).get(NAME)).method
        check(self.method, lambda key: OmegaConf.select(config, key))
        with open_dict(config):  # elsewhere verl asks for this word when it means a synchronous trainer
            config.trainer.v1.trainer_mode = "sync"
        self.group_size = self.method.selection.multiplier * config.actor_rollout_ref.rollout.n
        self._rollouts: dict[str, Rollout] = {}
        super().__init__(config)

    def init(self) -> None:
        nodes.check()
        super().init()

    def _next_train_batch(self, num_prompts: int | None = None) -> TensorDict:
        batch = super()._next_train_batch(num_prompts)
        tensordict_utils.assign_non_tensor_data(batch, "__rollout_n__", self.group_size)
        return batch

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> KVBatchMeta:
        with marked_timer("diversity", self.timing_raw, color="green"):
            batch = self._shape(batch, metrics)
        return super()._balance_batch(batch, metrics, *args, **kwargs)

    def _shape(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """The rows that are trained on; their rewards and advantages are kept in this trainer for the steps to come."""
        progress = Progress(self.global_steps - 1, self.total_training_steps)
        sampled = read_groups(batch, self.config.data.train_batch_size, self.group_size, self._decode)
        trained = self.method.apply(sampled.values(), progress, self._decode)
        self._rollouts = {
            keys[r.index]: r for keys, group in zip(sampled, trained, strict=True) for r in group.rollouts
        }
        logged = self.method.metrics(trained, progress, sampled=list(sampled.values()))
        metrics.update({f"{NAME}/{k}": value for k, value in (logged | grade_fractions(sampled.values())).items()})
        dropped = [key for key in batch.keys if key not in self._rollouts]
        if not dropped:
            return batch
        transfer_queue.kv_clear(keys=dropped, partition_id=batch.partition_id)
        return batch.select_keys([key for key in batch.keys if key in self._rollouts])

    def _decode(self, tokens: Sequence[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=True)

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        rollouts = [self._rollouts.get(key) for key in batch.keys]  # none for a row with which verl pads the batch
        with override_advantages([rollout.advantage if rollout else 0.0 for rollout in rollouts]):
            batch = super()._compute_advantage(batch, metrics)
        rewards = [scores.clone() for scores in columns(batch, ["rm_scores"])["rm_scores"]]
        for scores, rollout in zip(rewards, rollouts, strict=True):
            if rollout and rollout.reward:
                scores[-1] += rollout.reward.total - rollout.reward.outcome
        column = torch.nested.as_nested_tensor(rewards, layout=torch.jagged)
        fields = TensorDict({"token_level_rewards": column}, batch_size=len(batch))
        transfer_queue.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)
        return batch

    def _dump_generations(self, *, reward_extra_infos_dict: dict[str, list[Any]], **rows: Any) -> None:
        """verl's dump, with what became of each rollout; a dump of a validation has other keys and stays as it is."""
        rollouts = [self._rollouts.get(key) for key in reward_extra_infos_dict["uid"]]
        if any(rollouts):
            columns_of = [_columns(rollout) if rollout else {} for rollout in rollouts]
            names = dict.fromkeys(name for row in columns_of for name in row)
            reward_extra_infos_dict |= {name: [row.get(name) for row in columns_of] for name in names}
        super()._dump_generations(reward_extra_infos_dict=reward_extra_infos_dict, **rows)


def _columns(rollout: Rollout) -> Mapping[str, Any]:
    return {
        "grade": str(rollout.grade) if rollout.grade else None,
        "reward": rollout.reward.total if rollout.reward else None,
        "advantage": rollout.advantage,
        **{f"diversity/{name}": value for name, value in rollout.diversity.items()},
    }
