"""A sampled batch of verl as whole `Group`s. verl keeps its rows in TransferQueue, under "{uid}_{session}_{output}":
the prompt, which of its G samples, and which output of that sample (an agent may give several).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import transfer_queue
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta

from diver.methods import Decode
from diver.types import DiverError, Grade, Group, Problem, Reward, Rollout

FAILED = "verl's log says at 'Error in _run_prompt' why one failed"
FIELDS = ("uid", "responses", "rm_scores", "extra_fields", "extra_info")


def columns(batch: KVBatchMeta, names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of a batch, a value for each of its keys; one that verl does not have is left out."""
    data = transfer_queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(names))
    return {name: _rows(data.get(name)) for name in names if name in data.keys()}  # noqa: SIM118


def _rows(column: Any) -> list[Any]:
    return list(column.unbind()) if isinstance(column, Tensor) else column.tolist()


def put(batch: KVBatchMeta, name: str, rows: Sequence[Tensor]) -> None:
    """Write a column of rows of different lengths."""
    column = torch.nested.as_nested_tensor([row.clone() for row in rows], layout=torch.jagged)
    transfer_queue.kv_batch_put(
        keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict({name: column}, batch_size=len(batch))
    )


def read_groups(batch: KVBatchMeta, prompts: int, size: int, decode: Decode) -> dict[tuple[str, ...], Group]:
    """The groups of a batch, each under the keys of its rollouts, in order: `prompts` of them, each of `size` rollouts.

    DiverError where one is missing or not whole, a row has no uid, or a rollout has several outputs.
    """
    if not batch.keys:
        raise DiverError(f"no rollout of this step came back; {FAILED}")
    data = columns(batch, FIELDS)
    if "uid" not in data:
        raise DiverError(f"row {batch.keys[0]!r}: has no uid, which says what row is in what group")
    rows: dict[str, list[int]] = {}
    for i, uid in enumerate(data["uid"]):
        rows.setdefault(str(uid), []).append(i)
    if len(rows) != prompts:
        raise DiverError(
            f"{len(rows)} prompts have rollouts where {prompts} were asked; {FAILED}. "
            "trainer.v1.sampler.sync_refill_failed_groups=true takes others in their place"
        )
    return {
        tuple(batch.keys[i] for i in index): _group(uid, [_row(data, i) for i in index], decode)
        for uid, index in _whole(rows, batch.keys, size).items()
    }


def _row(data: Mapping[str, list[Any]], i: int) -> dict[str, Any]:
    return {name: values[i] for name, values in data.items()}


def _whole(rows: Mapping[str, list[int]], keys: Sequence[str], size: int) -> dict[str, list[int]]:
    for uid, index in rows.items():
        sessions = {keys[i].rpartition("_")[0] for i in index}
        if len(sessions) < len(index):
            raise DiverError(
                f"prompt {uid}: a rollout has several outputs; diversity is measured between whole responses"
            )
        if len(index) != size:
            raise DiverError(
                f"prompt {uid}: {len(index)} rollouts where {size} belong, and groups must be whole; {FAILED}. A column "
                "__rollout_n__ of the data is not for this trainer"
            )
    return {uid: sorted(index, key=lambda i: _session(keys[i])) for uid, index in rows.items()}


def _session(key: str) -> int:
    return int(key.rsplit("_", 2)[1])


def _group(uid: str, rows: Sequence[Mapping[str, Any]], decode: Decode) -> Group:
    info = rows[0].get("extra_info") or {}
    name = info.get("id", info.get("index", uid)) if isinstance(info, Mapping) else uid
    return Group(Problem(str(name), "", ""), tuple(_rollout(row, i, decode) for i, row in enumerate(rows)))


def _rollout(row: Mapping[str, Any], index: int, decode: Decode) -> Rollout:
    tokens = row["responses"].tolist()
    info = (row.get("extra_fields") or {}).get("reward_extra_info") or {}
    grade = None
    with contextlib.suppress(ValueError):  # of another reward manager
        grade = Grade(info["grade"]) if "grade" in info else None
    return Rollout(
        response=decode(tokens),
        tokens=tokens,
        index=index,
        grade=grade,
        reward=Reward(outcome=float(row["rm_scores"].sum())),
    )
