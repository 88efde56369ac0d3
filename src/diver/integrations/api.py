"""`diver.advantages`: a method as one function, for a trainer that does not know this package."""

import re
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from diver.core.types import DiverError, Group, Problem, Progress, Reward, Rollout, State
from diver.integrations.trajectories import keys_of_actions, read_response, spread, written
from diver.methods import NEEDS, Decode, Method, check_needs, check_outcomes, method_named
from diver.methods.grpo import Grpo, group_advantage

NO_VALUE = frozenset({"None", "nan", "<NA>", "NaT"})
"""How a missing value of Python, NumPy or pandas is printed. Such values may be equal, and identify no group."""
ENDS_WITH_BOX = re.compile(r"\A(?:(?!\\boxed).)*\\boxed\{[^{}]*\}\W*\Z", re.DOTALL)
"""A response with a single box, at its end."""


def advantages(
    responses: Iterable[str | Sequence[Mapping[str, Any]]],
    outcomes: Iterable[float],
    group_ids: Iterable[Hashable],
    method: str | Method = "diver-mix",
    progress: Progress | float = 0.0,
    *,
    tokens: Iterable[Sequence[int]] | None = None,
    masks: Iterable[Sequence[bool]] | None = None,
    logprobs: Iterable[Sequence[float]] | None = None,
    keys: Iterable[Hashable] | None = None,
    answer_ends: Iterable[int | None] | None = None,
    truncated: Iterable[bool] | None = None,
    state: State | None = None,
    decode: Decode | None = None,
) -> np.ndarray | list[np.ndarray]:
    """The advantage of each response, for any trainer. Rows may have any order, and the result has the same order.

    Lists, arrays and tensors are accepted. Without `answer_ends` and `truncated` a method that rewards diversity
    measures complete texts and takes every response as finished. It warns once, unless every response ends with its
    only box.

    A response is a text, or a trajectory: the messages after the prompt, in which the policy has the role assistant.
    Lengths, diversity and advantages cover the policy's text, tool calls included. See docs/trajectories.md.

    Args:
        responses ([B]): the texts that the policy wrote, or lists of messages (`diver.core.turns.turns_of`).
        outcomes ([B]): rewards of correctness. A response is correct if its outcome is at least `method.threshold`
            (0.5). A method with a coefficient in units of reward, such as lambda, needs outcomes from 0 to 1
            (`method.unit_outcomes`).
        group_ids ([B]): one id per response; responses to the same prompt share an id.
        method: a name, or a `Method`.
        progress: t/T, how far the run is, for the schedule of lambda.
        tokens ([B]): the policy's token ids without padding. Needed for gamma < 1, a length penalty, and with `decode`
            for a horizon in tokens.
        masks ([B]): which of these tokens the policy wrote, as TRL's `tool_mask`, verl's `response_mask` or SkyRL's
            `loss_mask` say. The others are the environment's, and their log-probs and advantages are 0.
        logprobs ([B]): the sampler's log-probs of these tokens.
        keys ([B]): equal for responses that are the same answer or solution, None or "" without an answer; texts or
            whole numbers if `state` is given. Defaults to the sequence of actions, where every response is a list of
            messages and one of them acts.
        answer_ends ([B]): the number of characters of each response up to the end of its answer, None if that is
            unknown. Diversity is measured up to there (`diversity.until`).
        truncated ([B]): whether each response was cut at the length limit. `shaping.condition = "correct-finished"`
            does not reward those.
        state: a dict, empty at first, that is changed in place. Give the same one in every step, with group ids that
            name the problems, and save it with the checkpoint.
        decode: turns token ids into text.

    Returns:
        float64 [B], or a list of float32 [T] for a method with an advantage for each token (`method.per_token`).

    Raises:
        ValueError: an argument has another type, columns differ in length, an outcome is not finite, a group id is
            missing, or a group has one response. Groups differ in size, and the method depends on it
            (`method.any_size`).
        DiverError: the method needs a column that is not given, selects responses, has k >= G of Pass@k, or needs
            outcomes from 0 to 1 and gets others.
    """
    method = method_named(method) if isinstance(method, str) else method
    if not isinstance(method, Method):
        raise ValueError(f"method: must be a name or a Method, such as DiverMix(), not {method!r:.60}")
    if not isinstance(progress, Progress) and not hasattr(progress, "__float__"):
        raise ValueError(f"progress: must be a fraction of the run or Progress(step, steps), not {progress!r:.60}")
    if method.selection.drops:
        raise DiverError(f"method {method.name!r}: a selection drops responses; use Method.apply")
    parsed = [read_response(i, response) for i, response in enumerate(_plain("responses", responses))]
    keys = keys_of_actions(parsed) if keys is None else keys
    optional = {
        "tokens": tokens,
        "masks": masks,
        "logprobs": logprobs,
        "keys": keys,
        "answer_ends": answer_ends,
        "truncated": truncated,
    }
    absent = {name for name, value in {**optional, "decode": decode, "state": state}.items() if value is None}
    missing = sorted(method.needs & absent) if "replay" not in method.needs else []  # replay needs a trainer
    without = f" without `{'` and `'.join(missing)}`" if missing else ""
    check_needs(method, f"diver.advantages{without}", {*NEEDS} - {*missing, "grades", "replay", "start", "retries"})
    columns = {"responses": parsed, "outcomes": outcomes, "group_ids": group_ids}
    columns |= {name: column for name, column in optional.items() if column is not None}
    table = {name: _plain(name, column) for name, column in columns.items()}
    if note := _unknown_ends(method, table):
        warnings.warn(note, stacklevel=2)
    if "keys" in table:
        # A missing key is no answer.
        table["keys"] = _as_text(["" if repr(key) in NO_VALUE else key for key in table["keys"]], state is not None)
    if len({len(column) for column in table.values()}) > 1:
        lengths = ", ".join(f"{len(column)} {name}" for name, column in table.items())
        raise ValueError(f"the columns differ in length: {lengths}")
    table["outcomes"] = [_outcome(i, outcome) for i, outcome in enumerate(table["outcomes"])]
    check_outcomes(method, table["outcomes"])
    rows = _whole_groups(table["group_ids"], method)
    if state is not None and len(set(map(str, rows))) < len(rows):
        raise ValueError("group_ids: two ids have one text, such as 1 and '1', by which `state` would be shared")
    if rows:
        method.check_group_size(len(parsed) // len(rows), "G")
    values = np.array(table["outcomes"], np.float64)
    if isinstance(method, Grpo) and method.is_plain and len(table) == 3 and np.isfinite(values).all():
        for index in rows.values():  # without a Rollout per row, since there may be a million rows
            values[index] = group_advantage(values[index], method.divisor, method.tolerance)
        return values
    rollouts = [
        _rollout(i, dict(zip(table, row, strict=True))) for i, row in enumerate(zip(*table.values(), strict=True))
    ]
    groups = [Group(Problem(str(name), "", ""), tuple(rollouts[i] for i in index)) for name, index in rows.items()]
    trained = method.shaped(groups, progress, decode, state, measure_all=False)
    shaped = dict(zip(chain(*rows.values()), chain(*(group.rollouts for group in trained)), strict=True))
    if method.per_token:
        arrays = [np.asarray(shaped[i].token_advantages) for i in range(len(rollouts))]
        return [spread(a, mask) for a, mask in zip(arrays, table["masks"], strict=True)] if "masks" in table else arrays
    return np.array([shaped[i].advantage for i in range(len(rollouts))])


def _rollout(i: int, row: Mapping[str, Any]) -> Rollout:
    """The rollout of row `i`. Raises ValueError with the row and the fault."""
    rollout = written(i, row)
    text, end, truncated = rollout.response, row.get("answer_ends"), row.get("truncated", False)
    if repr(end) in NO_VALUE:
        end = None
    elif isinstance(end, float) and end.is_integer():  # pandas stores integers with a missing value as floats
        end = int(end)
    if end is not None and (isinstance(end, bool) or not isinstance(end, int) or not 0 <= end <= len(text)):
        raise ValueError(
            f"row {i}: an answer end is a number of characters from 0 to {len(text)}, or None, not {end!r:.60}"
        )
    if repr(truncated) in NO_VALUE or truncated not in (False, True):
        raise ValueError(f"row {i}: truncated is true or false, not {truncated!r:.60}")
    return rollout.replace(
        key=row.get("keys"), answer_end=end, truncated=bool(truncated), reward=Reward(row["outcomes"])
    )


def _outcome(i: int, outcome: Any) -> float:
    try:
        return float(None if isinstance(outcome, str) else outcome)  # type: ignore[arg-type]  # a text may be a response
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"row {i}: an outcome is true, false or a number, not {outcome!r:.60}") from None


def _unknown_ends(method: Method, columns: Mapping[str, Sequence[Any]]) -> str:
    """The warning for a method that reads texts without `answer_ends` or `truncated`; empty if nothing is missing.

    A response that ends with its only box has no text after its answer, and was not cut.
    """
    texts = columns["responses"]
    if "responses" not in method.needs or all(isinstance(t, str) and ENDS_WITH_BOX.match(t) for t in texts):
        return ""
    shaping = getattr(method, "shaping", None)
    notes = []
    if "answer_ends" not in columns and method.diversity.until == "answer":
        notes.append("without `answer_ends` the diversity of whole responses is measured, with text after the answer")
    if "truncated" not in columns and shaping and shaping.condition == "correct-finished":
        notes.append("without `truncated` every response counts as finished")
    return f"method {method.name!r}: {'; '.join(notes)}" if notes else ""


def _as_text(keys: list[Hashable], saved: bool) -> list[str]:
    """The keys as texts, equal for equal keys; with `saved`, also the same in every run."""
    texts: dict[Hashable, str] = {}
    for i, key in enumerate(keys):
        if saved and not isinstance(key, str | int):
            raise ValueError(f"row {i}: with `state` a key is a text or a whole number, not {key!r:.60}")
        _check_hashable(i, key, "key")
        texts.setdefault(key, key if isinstance(key, str) else f"{type(key).__name__} {key!r}")
    return [texts[key] for key in keys]


def _check_hashable(i: int, value: Any, what: str) -> None:
    try:
        hash(value)
    except TypeError:
        raise ValueError(f"row {i}: a {what} is a text, a number or a tuple of them, not {value!r:.60}") from None


def _whole_groups(group_ids: list[Hashable], method: Method) -> dict[Hashable, list[int]]:
    rows: dict[Hashable, list[int]] = {}
    for i, key in enumerate(group_ids):
        _check_hashable(i, key, "group id")
        if repr(key) in NO_VALUE:
            raise ValueError(f"row {i}: has no group id: {key!r}; rows with the same prompt need an id that they share")
        rows.setdefault(key, []).append(i)
    usual = Counter(len(index) for index in rows.values()).most_common(1)
    for key, index in rows.items():
        if len(index) < 2 or (len(index) != usual[0][0] and not method.any_size):
            raise ValueError(
                f"group {key!r} has {len(index)} rows where {max(2, usual[0][0])} belong: diversity and advantages "
                f"need whole groups, {'' if method.any_size else 'all of one size and '}at least 2"
            )
    return rows


def _plain(name: str, column: Any) -> list[Any]:
    """A column as a list of Python values, from a list, an array or a tensor on any device."""
    values = column.tolist() if hasattr(column, "tolist") else column
    if isinstance(values, str | set | frozenset | Mapping) or not isinstance(values, Iterable):  # a set has no order
        raise ValueError(f"{name}: must be a list, an array or a tensor, with a value for each row, not {values!r:.60}")
    return [v.tolist() if hasattr(v, "tolist") else v for v in values]
