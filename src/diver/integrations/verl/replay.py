"""Replayed rollouts in a batch of verl.

rows            verl trains only on the rows of its batch, so a replayed rollout is a row. It has verl's tag
                is_padding, by which verl leaves rows out of its metrics.
mini-batches    as many as without replay, each with more rows, so that a step has as many optimizer steps
weights         verl normalises its loss over all rows of a mini-batch. Sampled rows must have their weight among
                sampled rows, and replayed rows that of their term, so the update gets advantages times a factor.

The factor may be put into the advantage because every loss that can be combined with replay is homogeneous in it.
"""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import Any, Self
from uuid import uuid4

import numpy as np
import torch
import transfer_queue
from omegaconf import DictConfig
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import build_padding_position_ids
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

from diver.core.types import DiverError, Group
from diver.losses.base import row_weights
from diver.methods.replay import weights_of

Replayed = dict[tuple[str, ...], Group]
"""Replayed groups, each under the keys of its rows, like sampled groups."""


class Kind(IntEnum):
    SAMPLED, REPLAYED, PADDING = range(3)


@dataclass(frozen=True)
class MiniBatches:
    """How verl cuts the rows of a batch: `count` mini-batches of `rows` rows, each spread evenly over `ranks`.

    verl gives each rank a contiguous part of the batch, and the rank cuts that part into contiguous mini-batches.
    """

    count: int
    rows: int
    ranks: int
    problems: int | None = None
    """Replayed problems, where there may be fewer of them than mini-batches."""

    @classmethod
    def of(cls, sampled: int, replayed: int, size: int, multiple: int, ranks: int, problems: int | None = None) -> Self:
        """The cut of so many rows, with `size` rows in a mini-batch without replay, and a multiple of `multiple` rows
        with it."""
        count = math.ceil(sampled / size)
        return cls(count, multiple * math.ceil((sampled + replayed) / (count * multiple)), ranks, problems)

    def order(self, kinds: Sequence[Kind]) -> list[int]:
        """An order of all rows in which each mini-batch has its share of every kind. Every row stays on its rank.

        Sampled rows stay in their order, so that a mini-batch has whole groups if it has them without replay. Each
        mini-batch has a sampled row, since one rank has at least `count` of them: all ranks together have more than
        (count - 1) * ranks.
        """
        order: list[int] = []
        rank_rows = len(kinds) // self.ranks
        for start in range(0, len(kinds), rank_rows):
            rows = {kind: [i for i in range(start, start + rank_rows) if kinds[i] is kind] for kind in Kind}
            mini_batches: list[list[int]] = [[] for _ in range(self.count)]
            for i, row in enumerate(rows[Kind.SAMPLED]):
                mini_batches[i * self.count // len(rows[Kind.SAMPLED])].append(row)
            for row in rows[Kind.REPLAYED] + rows[Kind.PADDING]:
                min(mini_batches, key=len).append(row)
            order += chain(*mini_batches)
        return order

    def weights(
        self, kinds: Sequence[Kind], lengths: Sequence[int], groups: Mapping[int, float], aggregation: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """The weight that each token of a row must have in the loss, and its weight in verl: float64 [rows] each.

        A sampled row has its weight among the sampled rows of its mini-batch. `groups` are the weights of replayed rows
        in the mean over all replayed groups. The sum of the replay term over the mini-batches equals that of the
        built-in trainer, where a mini-batch has whole problems. It is the mean over all groups, times the number of
        mini-batches that have a replayed problem there.
        """
        terms = self.count if self.problems is None else min(self.count, self.problems)
        row_lengths, row_kinds = torch.tensor(lengths), np.array(kinds)
        mini_batch = np.arange(len(kinds)) % (self.count * self.rows // self.ranks) // (self.rows // self.ranks)
        wanted, verls = np.zeros((2, len(kinds)))
        for number in range(self.count):
            rows = np.flatnonzero(mini_batch == number)
            sampled = rows[row_kinds[rows] == Kind.SAMPLED]
            verls[rows] = row_weights(row_lengths[rows], aggregation)
            wanted[sampled] = row_weights(row_lengths[sampled], aggregation)
        for row, weight in groups.items():
            wanted[row] = terms * weight
        return wanted, verls

    @contextmanager
    def configured(self, config: DictConfig) -> Iterator[None]:
        """Within this block verl's trainer cuts mini-batches of `rows` rows. Its workers receive the size with each
        batch."""
        actor, rollouts = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout.n
        size = actor.ppo_mini_batch_size
        actor.ppo_mini_batch_size = self.rows // rollouts
        try:
            yield
        finally:
            actor.ppo_mini_batch_size = size


def row_multiple(config: DictConfig, ranks: int) -> int:
    """The number that must divide the rows of a mini-batch, so that verl can cut it."""
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    if actor.use_dynamic_bsz:
        return math.lcm(rollout.n, ranks)
    micro = math.lcm(actor.ppo_micro_batch_size_per_gpu, rollout.log_prob_micro_batch_size_per_gpu)
    return math.lcm(rollout.n, ranks * micro)


def add_rows(batch: KVBatchMeta, groups: Sequence[Group]) -> tuple[KVBatchMeta, Replayed]:
    """The batch with a row for each rollout of these groups, and the groups under the keys of their rows.

    A row has the columns of the first sampled row, since verl requires the same columns in all rows. Columns that do
    not describe the rollout are copied.

    Raises:
        DiverError: a rollout has tokens of an environment.
    """
    source = transfer_queue.kv_batch_get(keys=batch.keys[:1], partition_id=batch.partition_id)[0]
    replayed: Replayed = {}
    fields: list[dict[str, Any]] = []
    tags: list[dict[str, Any]] = []
    for group in groups:
        uid = f"replay{uuid4().hex}"
        replayed[tuple(f"{uid}_{i}_0" for i in range(len(group)))] = group
        for i, rollout in enumerate(group.rollouts):
            assert rollout.tokens is not None
            if len(rollout.sequence[0]) > len(rollout.tokens):
                raise DiverError(
                    f"problem {group.problem.id!r}: verl replays responses of one turn; use --engine builtin"
                )
            prompts, responses = torch.tensor(group.prompt_tokens), torch.tensor(rollout.tokens)
            ids, ones = torch.cat([prompts, responses]), torch.ones_like(responses)
            values = {
                "uid": uid,
                "session_id": i,
                "prompts": prompts,
                "responses": responses,
                "input_ids": ids,
                "attention_mask": torch.ones_like(ids),
                "position_ids": build_padding_position_ids(source.get("position_ids"), torch.ones_like(ids)),
                "response_mask": ones,
                "loss_mask": ones,
                "rm_scores": torch.zeros(len(responses)),
                "rollout_log_probs": torch.zeros(len(responses)),  # placeholder until the trainer computes them
                "num_turns": 0,
                "multi_modal_inputs": {},
            }
            names = source.keys()
            fields.append({name: values[name] if name in values else copy.deepcopy(source[name]) for name in names})
            lengths = {"prompt_len": len(prompts), "response_len": len(responses), "seq_len": len(ids)}
            tags.append({**copy.deepcopy(batch.tags[0]), **lengths, "is_padding": True})
    keys = list(chain(*replayed))
    columns = list_of_dict_to_tensordict(fields)
    transfer_queue.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=columns, tags=tags)
    joined = KVBatchMeta([*batch.keys, *keys], [*batch.tags, *tags], batch.partition_id, batch.fields, batch.extra_info)
    return joined, replayed


def weights_by_key(replayed: Replayed) -> dict[str, float]:
    """The weight of each replayed row's tokens in the mean over groups, over their rollouts, over tokens."""
    return dict(zip(chain(*replayed), weights_of([*replayed.values()]), strict=True))
