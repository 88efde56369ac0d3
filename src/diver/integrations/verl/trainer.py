"""verl's synchronous trainer with whole groups shaped between sampling and the advantage, by `Method.apply`.

sample          `multiplier` x rollout.n responses to each prompt
shape           `_balance_batch`, verl's first step with a complete batch: Method.apply; rows not trained on are dropped
replay          rows of earlier rollouts join the batch, if the method replays (`diver.integrations.verl.replay`)
advantage       passed to verl by the estimator `diver`
log, dump       critic/score is the task's reward, critic/rewards the shaped one; the rest of our metrics as diver/...
"""

import dataclasses
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transfer_queue
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl import DataProto
from verl.trainer.ppo.core_algos import agg_loss, register_adv_est
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.utils import tensordict_utils
from verl.utils.debug import marked_timer
from verl.utils.debug.metrics import calculate_debug_metrics

from diver.core.run_folder import RunFolder
from diver.core.types import DiverError, Group, Progress, Rollout, State, left_out, sampling_metrics, trained_on
from diver.integrations.keys import also_named
from diver.integrations.schedule import schedule_steps
from diver.integrations.seam import decoder
from diver.integrations.verl import nodes
from diver.integrations.verl.batch import Truncated, columns, put, read_groups, stored_groups
from diver.integrations.verl.config import KEY, NAME, Plugin, check_config, read_plugin
from diver.integrations.verl.replay import Kind, MiniBatches, Replayed, add_rows, row_multiple, weights_by_key
from diver.integrations.verl.reward import cut, ends
from diver.methods import Decode, check_outcomes, check_replayed
from diver.methods.replay import replay_metrics
from diver.recipe.recipe import identity
from diver.recipe.run import earlier_identity
from diver.train.alerts import AlertLog
from diver.train.checkpoint import ARRAYS, STATE, read_state, write_state

METRICS = {
    "policy/loss": "actor/pg_loss",
    "policy/clip_fraction": "actor/pg_clipfrac",
    "policy/grad_norm": "actor/grad_norm",
    "policy/kl": "actor/kl_loss",
    "time/sample": "timing_s/gen",
    "time/diversity": "timing_s/diversity",
    "time/update": "timing_s/update_actor",
}
"""Name in the run folder -> verl's metric. Metrics of the method are diver/<name> in verl."""
Advantages = Sequence[float | np.ndarray]
"""One advantage for each row of a batch, or one for each token that the policy wrote, [T]."""
_advantages: ContextVar[Advantages | None] = ContextVar("advantages", default=None)


@contextmanager
def override_advantages(advantages: Advantages) -> Iterator[None]:
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
        raise DiverError(f"algorithm.adv_estimator={NAME} needs trainer.v1.trainer_mode={NAME}, trainer.use_v1=true")
    per_token, masks = torch.zeros(response_mask.shape), response_mask.bool().cpu()
    for row, mask, values in zip(per_token, masks, advantages, strict=True):
        if mask.any():  # else the whole response is left out of the loss
            row[mask] = torch.as_tensor(values, dtype=row.dtype)
    per_token = per_token.to(response_mask.device)
    return per_token, per_token


@register_trainer(NAME)
class DiverTrainer(PPOTrainerSync):
    """`PPOTrainerSync` that passes every batch through `Method.apply`, and writes rollouts and metrics into the run
    folder."""

    def __init__(self, config: DictConfig) -> None:
        plugin = read_plugin(OmegaConf.to_container(config.algorithm, resolve=True).get(NAME))
        self.method = plugin.method.limited(config.actor_rollout_ref.rollout.response_length)
        self.folder, self.outcome = run_folder(plugin), plugin.outcome
        check_config(self.method, lambda key: OmegaConf.select(config, key))
        with open_dict(config):  # verl recognizes a synchronous trainer by this word
            config.trainer.v1.trainer_mode = "sync"
        self.group_size = self.method.selection.multiplier * config.actor_rollout_ref.rollout.n
        self._rollouts: dict[str, Rollout] = {}
        self._left_out: list[Group] = []
        self._replayed: Replayed = {}
        self._mini_batches: MiniBatches | None = None
        self.replays = "replay" in self.method.needs
        self.state: State = {}
        super().__init__(config)

    def init(self) -> None:
        nodes.check()
        super().init()
        self.ends = ends(self.config, self.tokenizer)
        home = Path(self.config.trainer.default_local_dir)
        if self.global_steps and "state" in self.method.needs:
            self.state = read_state(resumed_from(self.config.trainer, self.global_steps))
        self.schedule_steps = schedule_steps(home, self.global_steps, self.total_training_steps)
        if self.folder:
            self.folder.check_saved(self.global_steps)
            self.folder.keep_until(self.global_steps)
            self.alerts = AlertLog(self.folder.rows("metrics.jsonl"), named=also_named("verl"))

    def _build_replay_buffer(self) -> ReplayBuffer:
        """verl's buffer, of which groups are read before `ReplayBuffer._clear_groups` discards them.

        verl discards groups that have no signal, or without which the batch is full.
        """
        buffer = super()._build_replay_buffer()
        clear = buffer._clear_groups

        def read_and_clear(partition: str, uids: set[str]) -> None:
            # A key of verl is {uid}_{session}_{output}.
            tags = {key: tag for key, tag in buffer.partitions[partition].items() if key.split("_")[0] in uids}
            if partition == "train" and tags:
                discarded = KVBatchMeta(partition_id=partition, keys=[*tags], tags=[*tags.values()])
                self._left_out += stored_groups(discarded, *self._reading).values()
            clear(partition, uids)

        buffer._clear_groups = read_and_clear
        return buffer

    @property
    def _reading(self) -> tuple[Decode, Truncated, str]:
        return decoder(self.tokenizer), partial(cut, self.config, self.ends), self.outcome

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """verl's step; then its row of the run folder, before the checkpoint of this step is saved."""
        batch = super().step(metrics, timing_raw)
        if self.folder:
            logged = metrics | {f"timing_s/{name}": seconds for name, seconds in timing_raw.items()}
            ours = {k.removeprefix(f"{NAME}/"): v for k, v in logged.items() if k.startswith(f"{NAME}/")}
            verls = {name: logged[key] for name, key in METRICS.items() if key in logged}
            if self.method.loss.aggregation == "token-sum":  # verl's is then a sum over tokens, and ours a mean
                verls.pop("policy/kl", None)
            self.folder.append("metrics.jsonl", {"step": self.global_steps, **ours, **verls})
            self.alerts.log(self.global_steps, {**ours, **verls})
        return batch

    def _next_train_batch(self, num_prompts: int | None = None) -> TensorDict:
        batch = super()._next_train_batch(num_prompts)
        tensordict_utils.assign_non_tensor_data(batch, "__rollout_n__", self.group_size)
        return batch

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> KVBatchMeta:
        with marked_timer("diversity", self.timing_raw, color="green"):
            batch = self._shape(batch, metrics)
        batch = self._with_replayed(batch)
        if self._mini_batches is None:
            return super()._balance_batch(batch, metrics, *args, **kwargs)
        with self._mini_batches.configured(self.config):
            batch = super()._balance_batch(batch, metrics, *args, **kwargs)
        batch.reorder(self._mini_batches.order(self._kinds(batch)))
        return batch

    def _with_replayed(self, batch: KVBatchMeta) -> KVBatchMeta:
        """The batch with the rows that the method replays, padded so that verl cuts it into as many mini-batches as
        without them."""
        self._replayed, self._mini_batches = {}, None
        # As in the built-in trainer, nothing is replayed in a step that trains on no sampled rollout.
        if not self.replays or not self._rollouts or self.config.trainer.critic_warmup > self.global_steps:
            return batch
        groups = self.method.replayed(self.state, self.config.data.train_batch_size, self._progress)
        if not check_replayed(self.method, groups):
            return batch
        ranks = max(self.actor_rollout_wg._query_dispatch_info("actor")) + 1
        actor, rollout = self.config.actor_rollout_ref.actor, self.config.actor_rollout_ref.rollout
        size, multiple = actor.ppo_mini_batch_size * rollout.n, row_multiple(self.config, ranks)
        self._mini_batches = MiniBatches.of(len(batch), sum(map(len, groups)), size, multiple, ranks, len(groups))
        batch, self._replayed = add_rows(batch, groups)
        total = self._mini_batches.count * self._mini_batches.rows
        return upsample_batch_to_divisible_size(batch, total, self.tokenizer.eos_token_id)

    def _kinds(self, batch: KVBatchMeta) -> list[Kind]:
        replayed = {*chain(*self._replayed)}
        return [
            Kind.REPLAYED if key in replayed else Kind.PADDING if tag.get("is_padding") else Kind.SAMPLED
            for key, tag in zip(batch.keys, batch.tags, strict=True)
        ]

    def _only(self, batch: KVBatchMeta, *kinds: Kind) -> KVBatchMeta:
        """The rows of these kinds."""
        return batch.select_keys([k for k, kind in zip(batch.keys, self._kinds(batch), strict=True) if kind in kinds])

    def _sampled(self, batch: KVBatchMeta) -> KVBatchMeta:
        """The rows that verl logs and dumps: the sampled ones with replay, else all, as without this plugin."""
        return self._only(batch, Kind.SAMPLED) if self._replayed else batch

    @property
    def _progress(self) -> Progress:
        return Progress(self.global_steps - 1, self.schedule_steps)

    def _shape(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """The rows that are trained on; their rewards and advantages are stored for the next parts of the step."""
        progress, prompts, reading = self._progress, self.config.data.train_batch_size, self._reading
        sampled = read_groups(batch, prompts, self.group_size, *reading)
        if "keys" in self.method.needs and any(r.key is None for group in sampled.values() for r in group.rollouts):
            raise DiverError(f"method {self.method.name!r} needs keys: set reward.reward_manager.name={NAME}")
        ends_known = any(rollout.answer_end is not None for group in sampled.values() for rollout in group.rollouts)
        if "responses" in self.method.needs and self.method.diversity.until == "answer" and not ends_known:
            lacks = f"the reward manager gives no answer_end, which reward.reward_manager.name={NAME} does"
            warnings.warn(f"method {self.method.name!r} measures whole responses: {lacks}", stacklevel=2)
        if "state" in self.method.needs and any(g.problem.id == g.problem.meta["uid"] for g in sampled.values()):
            raise DiverError(f"method {self.method.name!r} needs extra_info.id or extra_info.index for each problem")
        if self.replays:
            self._check_replayable(batch, sampled)
        check_outcomes(self.method, [float(outcome) for group in sampled.values() for outcome in group.outcomes])
        # As in the built-in trainer, the method also measures, counts and rewards the groups that are not trained on.
        # An incomplete group is left out; verl's log says why one of its rollouts failed.
        discarded, self._left_out = [g for g in self._left_out if len(g) == self.group_size], []
        groups = [*sampled.values(), *discarded]
        shaped = self.method.shaped(groups, progress, reading[0], self.state)
        shaped = left_out(shaped, range(len(sampled), len(shaped)))
        trained = trained_on(shaped)
        keys_of = {group.problem.meta["uid"]: keys for keys, group in sampled.items()}
        self._rollouts = {keys_of[group.problem.meta["uid"]][r.index]: r for group in trained for r in group.rollouts}
        logged = self.method.metrics(shaped, progress)
        metrics.update({f"{NAME}/{k}": value for k, value in (logged | sampling_metrics(groups)).items()})
        if self.folder:
            self.folder.write_rollouts(self.global_steps, shaped)
        dropped = [key for key in batch.keys if key not in self._rollouts]
        if not dropped:
            return batch
        selected = [key for key in batch.keys if key in self._rollouts] or dropped[:1]  # verl needs at least one row
        transfer_queue.kv_clear(keys=[key for key in dropped if key not in selected], partition_id=batch.partition_id)
        return batch.select_keys(selected)

    def _check_replayable(self, batch: KVBatchMeta, sampled: Mapping[tuple[str, ...], Group]) -> None:
        """Raises DiverError for images and tools: the bank has only the tokens of the policy, which are not
        the complete response then."""
        response_lengths = {key: tag["response_len"] for key, tag in zip(batch.keys, batch.tags, strict=True)}
        written = {key: r.length for keys, g in sampled.items() for key, r in zip(keys, g.rollouts, strict=True)}
        images = columns(batch, ["multi_modal_inputs"]).get("multi_modal_inputs", [])
        if written != response_lengths or any(images):
            raise DiverError(f"method {self.method.name!r}: verl replays no images or tools; set replay.alpha to 0")

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """verl's old log-probs, and two metrics: the entropy, and the gap to the sampler's log-probs if verl has them.

        Both are means over the tokens of the policy. verl's own entropy is aggregated as the loss is, perhaps to a sum.
        """
        batch = super()._compute_old_log_prob(batch, metrics)
        if self._replayed:
            self._put_old_logprobs(self._only(batch, Kind.REPLAYED))
            metrics.update(self._old_logprob_metrics(self._only(batch, Kind.SAMPLED)))
        if OmegaConf.select(self.config, "algorithm.rollout_correction.bypass_mode"):  # verl computes neither then
            return batch
        names = ["response_mask", "entropy", "rollout_log_probs", "old_log_probs"]
        data = columns(self._only(batch, Kind.SAMPLED), names)
        mask = torch.cat(data["response_mask"]).bool()
        values = {name: torch.cat(data[name])[mask].float() for name in names[1:] if name in data}
        metrics[f"{NAME}/policy/entropy"] = float(values["entropy"].mean())
        if "rollout_log_probs" in values:
            gaps = (values["rollout_log_probs"] - values["old_log_probs"]).abs()
            metrics[f"{NAME}/policy/logprob_mismatch"] = float(gaps.mean())
        return batch

    def _put_old_logprobs(self, batch: KVBatchMeta) -> None:
        """Give replayed rollouts the log-probs that verl has computed, also as those of the sampler, which verl then
        does not correct."""
        logprobs = columns(batch, ["old_log_probs"])["old_log_probs"]
        put(batch, "rollout_log_probs", logprobs)
        logprobs_by_key = dict(zip(batch.keys, logprobs, strict=True))
        current = [
            group.with_each(logprobs=[logprobs_by_key[key].float().numpy() for key in keys])
            for keys, group in self._replayed.items()
        ]
        reweighed = self.method.reweighed([*self._replayed.values()], current)
        self._replayed = dict(zip(self._replayed, reweighed, strict=True))

    def _old_logprob_metrics(self, sampled: KVBatchMeta) -> dict[str, Any]:
        """The metrics that verl logs with the old log-probs, over the sampled rows only."""
        names = ["entropy", "response_mask", "responses", "rollout_log_probs", "old_log_probs"]
        data = transfer_queue.kv_batch_get(sampled.keys, sampled.partition_id, names).to_padded_tensor()
        actor = self.config.actor_rollout_ref.actor
        options = {"loss_agg_mode": actor.loss_agg_mode, "loss_scale_factor": actor.loss_scale_factor}
        entropy = agg_loss(data["entropy"], data["response_mask"], **options)
        return {"actor/entropy": entropy.item(), **calculate_debug_metrics(DataProto(batch=data))}

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """verl's advantages. Replayed rows are a separate batch, so that verl corrects and measures only sampled rows
        here."""
        if not self._replayed:
            return self._take_advantages(batch, self._rollouts, metrics)
        rollouts = {k: r for keys, group in self._replayed.items() for k, r in zip(keys, group.rollouts, strict=True)}
        self._take_advantages(self._only(batch, Kind.REPLAYED), rollouts, {})
        sampled = self._take_advantages(self._only(batch, Kind.SAMPLED, Kind.PADDING), self._rollouts, metrics)
        return KVBatchMeta(batch.keys, batch.tags, batch.partition_id, sampled.fields, sampled.extra_info)

    def _take_advantages(
        self, batch: KVBatchMeta, rollouts_of: Mapping[str, Rollout], metrics: dict[str, Any]
    ) -> KVBatchMeta:
        rollouts = [rollouts_of.get(key) for key in batch.keys]  # None for verl's padding rows
        with override_advantages([_advantages_of(rollout) for rollout in rollouts]):
            batch = super()._compute_advantage(batch, metrics)
        rewards = [scores.clone() for scores in columns(batch, ["rm_scores"])["rm_scores"]]
        for scores, rollout in zip(rewards, rollouts, strict=True):
            if rollout and rollout.reward:
                scores[-1] += rollout.reward.total - rollout.reward.outcome - rollout.reward.other
        put(batch, "token_level_rewards", rewards)
        return batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """verl's update. With replay, it gets advantages times the factors that give every row its weight in the
        loss."""
        if self._mini_batches is None:
            if self.replays:
                self._log_replay(metrics, 0.0, 0.0)
            return super()._update_actor(batch, metrics)
        data = columns(batch, ["advantages", "loss_mask"])
        advantages, lengths = data["advantages"], [int(mask.sum()) for mask in data["loss_mask"]]
        kinds, weight_by_key = self._kinds(batch), weights_by_key(self._replayed)
        replayed = {i: weight_by_key[key] for i, key in enumerate(batch.keys) if key in weight_by_key}
        wanted, verls = self._mini_batches.weights(kinds, lengths, replayed, self.method.loss.aggregation)
        put(batch, "advantages", [a * f for a, f in zip(advantages, (wanted / verls).tolist(), strict=True)])
        with self._mini_batches.configured(self.config):
            batch = super()._update_actor(batch, metrics)
        put(batch, "advantages", advantages)  # verl's metrics read those without factors
        sizes = wanted * [float(a.abs().sum()) for a in advantages]
        self._log_replay(metrics, sizes[[*replayed]].sum(), sizes.sum())
        return batch

    def _log_replay(self, metrics: dict[str, Any], replayed: float, both: float) -> None:
        values = replay_metrics([*self._replayed.values()], float(replayed), float(both - replayed))
        values |= self.method.replay.metrics(self.state)
        metrics.update({f"{NAME}/{name}": value for name, value in values.items()})

    def _compute_metrics(self, batch: KVBatchMeta, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        """verl's metrics of a step, over sampled rows only."""
        super()._compute_metrics(self._sampled(batch), metrics, *args, **kwargs)

    def _save_checkpoint(self) -> None:
        home, step = Path(self.config.trainer.default_local_dir), self.global_steps
        if self.state:  # before verl's files, the last of which marks a complete checkpoint
            write_state(home / f"global_step_{step}", self.state)
        super()._save_checkpoint()
        drop_old(home, step, self.config.trainer.max_actor_ckpt_to_keep, actors=self.folder is not None)
        saved = home / f"global_step_{step}" / "actor" / "huggingface"
        if self.folder and saved.is_dir():
            self.folder.link_checkpoint(step, saved)

    def _log_rollout_data(self, batch: KVBatchMeta, *args: Any, **kwargs: Any) -> None:
        super()._log_rollout_data(self._sampled(batch), *args, **kwargs)

    def _dump_generations(self, *, reward_extra_infos_dict: dict[str, list[Any]], **rows: Any) -> None:
        """verl's dump with our columns of each rollout. The dump of a validation has other keys and is not changed."""
        rollouts = [self._rollouts.get(key) for key in reward_extra_infos_dict["uid"]]
        if any(rollouts):
            our_columns = [_columns(rollout) if rollout else {} for rollout in rollouts]
            names = dict.fromkeys(name for row in our_columns for name in row)
            reward_extra_infos_dict |= {name: [row.get(name) for row in our_columns] for name in names}
        super()._dump_generations(reward_extra_infos_dict=reward_extra_infos_dict, **rows)


def resumed_from(trainer: DictConfig, step: int) -> Path:
    """The checkpoint of `step` from which verl has resumed, by its section `trainer`."""
    if trainer.resume_mode == "resume_path":
        return Path(trainer.resume_from_path)
    return Path(trainer.default_local_dir, f"global_step_{step}")


def drop_old(home: Path, step: int, keep: int | None, *, actors: bool) -> None:
    """Delete the files that verl leaves in all but the newest `keep` checkpoints of `home` up to `step`.

    verl deletes the folder `actor` of an old checkpoint and nothing else. It forgets checkpoints from before a resume;
    with `actors` their folder `actor` is deleted here. The method's state may have GBs, and goes with the actor.
    """
    names = (folder.name.removeprefix("global_step_") for folder in home.glob("global_step_*"))
    saved = sorted(int(name) for name in names if name.isdigit() and int(name) <= step)
    for number in saved[:-keep] if keep else ():
        folder = home / f"global_step_{number}"
        if actors:
            shutil.rmtree(folder / "actor", ignore_errors=True)
        if not (folder / "actor").exists():
            for name in (STATE, ARRAYS):
                (folder / name).unlink(missing_ok=True)


def run_folder(plugin: Plugin) -> RunFolder | None:
    """The folder that `diver train` made, locked for this process; None if verl was started without one.

    Raises:
        DiverError: the folder was made for another method or verification. verl would resume from its checkpoints.
    """
    if plugin.run.folder is None:
        return None
    path = Path(plugin.run.folder) / "config.json"
    if not path.exists():
        raise DiverError(f"{KEY}.run.folder: {path.parent} has no config.json: `diver train` makes the folder of a run")
    config = json.loads(path.read_text(encoding="utf-8"))
    ours = identity({"method": dataclasses.asdict(plugin.method), "verify": dataclasses.asdict(plugin.verify)})
    return RunFolder(path.parent, config, {**config["identity"], **ours}, earlier_identity())


def _advantages_of(rollout: Rollout | None) -> float | np.ndarray:
    if rollout is None:
        return 0.0
    return rollout.advantage if rollout.token_advantages is None else rollout.token_advantages


def _columns(rollout: Rollout) -> Mapping[str, Any]:
    return {
        "grade": str(rollout.grade) if rollout.grade else None,
        "reward": rollout.reward.total if rollout.reward else None,
        "advantage": rollout.advantage,
        **{f"diversity/{name}": value for name, value in rollout.diversity.items()},
    }
