"""A sampled batch of verl as whole `Group`s.

verl stores rows in TransferQueue under "{uid}_{session}_{output}": the prompt, one of its G samples, and one output of
that sample (an agent may give several).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import transfer_queue
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta

from diver.core.rounding import alike
from diver.core.types import DiverError, Grade, Group, Problem, Reward, Rollout
from diver.integrations.seam import written_by_policy
from diver.methods import Decode

Truncated = Callable[[Sequence[int], int], bool]
FAILED = (
    "verl's log says at 'Error in _run_prompt' why one failed; trainer.v1.sampler.sync_refill_failed_groups=true "
    "takes others in their place"
)
FIELDS = (
    *("uid", "prompts", "responses", "response_mask", "rm_scores", "rollout_log_probs"),
    *("reward_model", "extra_fields", "extra_info", "data_source"),
)


def columns(batch: KVBatchMeta, names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of a batch, a value for each of its keys. Columns that verl does not have are left out."""
    data = transfer_queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(names))
    values = {name: data.get(name) for name in names if name in data.keys()}  # noqa: SIM118
    return {name: list(c.unbind()) if isinstance(c, Tensor) else c.tolist() for name, c in values.items()}


def put(batch: KVBatchMeta, name: str, values: Sequence[Tensor]) -> None:
    """Write a column of a batch, a tensor for each of its keys."""
    fields = TensorDict({name: torch.nested.as_nested_tensor(list(values), layout=torch.jagged)}, batch_size=len(batch))
    transfer_queue.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)


def read_groups(
    batch: KVBatchMeta, prompts: int, size: int, decode: Decode, truncated: Truncated, outcome: str = "acc"
) -> dict[tuple[str, ...], Group]:
    """The groups of a batch as `stored_groups` reads them: `prompts` of them, each of `size` rollouts.

    Raises:
        DiverError: groups or their rollouts are missing, or a rollout has several outputs.
    """
    groups = stored_groups(batch, decode, truncated, outcome) if batch.keys else {}
    if len(groups) != prompts:
        raise DiverError(f"{len(groups)} prompts have rollouts where {prompts} were asked; {FAILED}")
    for group in groups.values():
        if len(group) != size:
            uid = group.problem.meta["uid"]
            raise DiverError(f"prompt {uid}: {len(group)} rollouts where {size} belong; {FAILED}")
    return groups


def stored_groups(
    batch: KVBatchMeta, decode: Decode, truncated: Truncated, outcome: str
) -> dict[tuple[str, ...], Group]:
    """The groups of a batch, each under the keys of its rollouts, in order. `meta` of a problem has the uid of the
    group.

    Args:
        truncated: whether a response (its tokens) stopped at its limit, after a prompt of so many tokens.
        outcome: the key of the reward manager that is the outcome; the rest of its score is a further reward. In a row
            without this key, the score is the outcome.

    Raises:
        DiverError: a rollout has several outputs.
    """
    data = columns(batch, FIELDS)
    rows: dict[str, dict[int, int]] = {}  # prompt -> session -> row
    for i, (key, uid) in enumerate(zip(batch.keys, map(str, data["uid"]), strict=True)):
        session = int(key.rsplit("_", 2)[1])
        if session in rows.setdefault(uid, {}):
            raise DiverError(f"prompt {uid}: a rollout has several outputs; a rollout is one response")
        rows[uid][session] = i
    groups = {}
    for uid, sessions in rows.items():
        index = [sessions[session] for session in sorted(sessions)]
        group_rows = [{name: column[i] for name, column in data.items()} for i in index]
        groups[tuple(batch.keys[i] for i in index)] = _group(uid, group_rows, decode, truncated, outcome)
    return groups


def _group(uid: str, rows: Sequence[Mapping[str, Any]], decode: Decode, truncated: Truncated, key: str) -> Group:
    info, reference = ({} if rows[0].get(name) is None else rows[0][name] for name in ("extra_info", "reward_model"))
    name = uid
    if "id" in info:
        name = str(info["id"])
    elif "index" in info:  # verl's scripts number each data set from 0
        name = f"{rows[0]['data_source']}/{info['index']}" if rows[0].get("data_source") else str(info["index"])
    tokens = rows[0]["prompts"].tolist() if "prompts" in rows[0] else []
    prompt = decode(tokens) if tokens else ""
    problem = Problem(name, prompt, str(reference.get("ground_truth", "")), meta={"uid": uid})
    rollouts = tuple(_rollout(row, i, decode, truncated, key) for i, row in enumerate(rows))
    return Group(problem, rollouts, prompt=prompt, prompt_tokens=tuple(tokens))


def _rollout(row: Mapping[str, Any], index: int, decode: Decode, truncated: Truncated, key: str) -> Rollout:
    tokens, mask = row["responses"], row.get("response_mask")
    by_policy = torch.from_numpy(written_by_policy(None if mask is None else mask.tolist(), len(tokens)))
    info = (row.get("extra_fields") or {}).get("reward_extra_info", {})  # another reward manager may have other keys
    grade, logprobs, end = info.get("grade"), row.get("rollout_log_probs"), info.get("answer_end")
    score = float(row["rm_scores"].sum())
    value = float(info.get(key, score))
    return Rollout(
        decode(tokens[by_policy].tolist()),
        answer_end=int(end) if end is not None and bool(by_policy.all()) else None,  # else it counts the text of tools
        tokens=tokens[by_policy].tolist(),
        logprobs=None if logprobs is None else logprobs[by_policy].float().numpy(),
        index=index,
        truncated=truncated(tokens.tolist(), len(row.get("prompts", ()))),
        grade=Grade(grade) if grade in tuple(Grade) else None,
        key=info.get("key"),
        solution=info.get("solution") or None,
        reward=Reward(value, other=0.0 if alike(np.array([value, score])) else score - value),
    )
