"""`diver.advantages`: the whole method as one function, for a trainer that knows nothing of this package."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from diver.methods import NEEDS, Decode, Method, check_needs, method_named
from diver.types import DiverError, Group, Problem, Progress, Reward, Rollout, State, as_outcome


def advantages(
    responses: Iterable[str],
    outcomes: Iterable[float],
    group_ids: Iterable[Hashable],
    method: str | Method = "diver-mix",
    progress: Progress | float = 0.0,
    *,
    tokens: Iterable[Sequence[int]] | None = None,
    logprobs: Iterable[Sequence[float]] | None = None,
    keys: Iterable[Hashable] | None = None,
    state: State | None = None,
    decode: Decode | None = None,
) -> np.ndarray | list[np.ndarray]:
    """The advantage of each response, float64 [B], for any trainer: rows in any order, answered in that order.

    A method with an advantage for each token (`method.per_token`) gives a list of float32 [T] instead.

    `outcomes` [B] are rewards of correctness; those of at least `method.threshold` (0.5) count as correct.
    `group_ids` [B] say which rows answer the same prompt. `progress` = t/T is how far the run is, for the schedule of
    lambda. `tokens` are the policy's, without padding: needed for gamma < 1, a length penalty or a horizon in tokens,
    the last with `decode`; `logprobs` are the sampler's of these tokens. `keys` are equal for responses that are the same
    answer or solution; with `state` they are texts or whole numbers. `state`, a dict that is empty at first, is changed in
    place: give the same one in every step, with group_ids that name the problems, and save it with the checkpoint. Lists,
    arrays and tensors are accepted. Raises ValueError where columns differ in length, an outcome is not finite, or groups
    are not whole (all of one size, at least 2); DiverError for a method that needs a column that is not given or selects responses, and for Pass@k with
    k >= G.
    """
    method = method_named(method) if isinstance(method, str) else method
    if method.selection.drops:
        raise DiverError(
            f"method {method.name!r}: a selection drops responses, so some have no advantage; use Method.apply"
        )
    optional = {"tokens": tokens, "logprobs": logprobs, "keys": keys}
    absent = {name for name, value in {**optional, "decode": decode, "state": state}.items() if value is None}
    missing = sorted(method.needs & absent)
    without = f" without `{'` and `'.join(missing)}`" if missing else ""
    check_needs(method, f"diver.advantages{without}", {*NEEDS} - {*missing, "grades"})
    columns = {"responses": responses, "outcomes": outcomes, "group_ids": group_ids}
    columns |= {name: column for name, column in optional.items() if column is not None}
    given = {name: _plain(column) for name, column in columns.items()}
    if "keys" in given:
        given["keys"] = _as_text(given["keys"], state is not None)
    rollouts = _rollouts(given)
    if rows := _whole_groups(given["group_ids"]):
        method.check_group_size(len(rollouts) // len(rows), "G")
    groups = [Group(Problem(str(name), "", ""), tuple(rollouts[i] for i in index)) for name, index in rows.items()]
    done = dict.fromkeys(range(len(rollouts)), Rollout(""))
    for index, group in zip(rows.values(), method.apply(groups, progress, decode, state), strict=True):
        done |= zip(index, group.rollouts, strict=True)
    if method.per_token:
        return [np.asarray(rollout.token_advantages) for rollout in done.values()]
    return np.array([rollout.advantage for rollout in done.values()])


def _rollouts(columns: Mapping[str, list[Any]]) -> list[Rollout]:
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{len(column)} {name}" for name, column in columns.items())
        raise ValueError(f"the columns differ in length: {lengths}")
    for i, text in enumerate(columns["responses"]):
        if not isinstance(text, str):
            raise ValueError(f"row {i}: a response is a text (str), not {type(text).__name__}")
    return [
        Rollout(
            text,
            tokens=columns["tokens"][i] if "tokens" in columns else None,
            logprobs=np.asarray(columns["logprobs"][i], np.float32) if "logprobs" in columns else None,
            key=columns["keys"][i] if "keys" in columns else None,
            reward=Reward(_outcome(columns["outcomes"][i], i)),
        )
        for i, text in enumerate(columns["responses"])
    ]


def _as_text(keys: list[Hashable], saved: bool) -> list[str]:
    """The keys as texts, equal where the keys are; where they are `saved`, the same in every run."""
    texts: dict[Hashable, str] = {}
    for i, key in enumerate(keys):
        if saved and not isinstance(key, str | int):
            raise ValueError(f"row {i}: with `state` a key is a text or a whole number, not {key!r:.60}")
        try:
            texts.setdefault(key, key if isinstance(key, str) else f"{type(key).__name__} {key!r}")
        except TypeError:
            raise ValueError(f"row {i}: a key is a text, a number or a tuple of them, not {key!r:.60}") from None
    return [texts[key] for key in keys]


def _outcome(value: object, row: int) -> float:
    try:
        return as_outcome(value)
    except (TypeError, ValueError):
        raise ValueError(f"row {row}: an outcome is true, false or a number, not {value!r:.60}") from None


def _whole_groups(group_ids: list[Hashable]) -> dict[Hashable, list[int]]:
    rows: dict[Hashable, list[int]] = {}
    for i, key in enumerate(group_ids):
        rows.setdefault(key, []).append(i)
    usual = Counter(len(index) for index in rows.values()).most_common(1)
    for key, index in rows.items():
        if len(index) != usual[0][0] or len(index) < 2:
            raise ValueError(
                f"group {key!r} has {len(index)} rows where {max(2, usual[0][0])} belong: diversity and advantages need "
                "whole groups, all of one size and at least 2"
            )
    return rows


def _plain(column: Any) -> list[Any]:
    """A column as a list of Python values, from a list, an array or a tensor on any device."""
    values = column.tolist() if hasattr(column, "tolist") else column
    return [v.tolist() if hasattr(v, "tolist") else v for v in values]
