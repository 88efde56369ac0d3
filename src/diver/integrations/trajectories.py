"""Responses of `diver.advantages` that are texts or trajectories, with the tokens of what the policy wrote."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diver.core.turns import Turn, turns_of, with_tokens
from diver.core.types import Rollout
from diver.diversity import action_key

Response = str | tuple[Turn, ...]


def read_response(i: int, response: Any) -> Response:
    """The response of row `i`: a text unchanged, messages as turns. Raises ValueError with the row and the fault."""
    if isinstance(response, str):
        return response
    if not isinstance(response, list | tuple) or not all(isinstance(message, Mapping) for message in response):
        kind = type(response).__name__
        raise ValueError(f"row {i}: a response is a text (str), not {kind}; a trajectory is a list of messages (dicts)")
    try:
        turns = turns_of(response)
    except ValueError as error:
        raise ValueError(f"row {i}, {error}") from None
    if not any(turn.by_policy for turn in turns):
        raise ValueError(f"row {i}: none of its {len(turns)} messages has the role assistant, which is the policy's")
    return turns


def keys_of_actions(responses: Sequence[Response]) -> list[str] | None:
    """A key for each trajectory, equal for equal sequences of actions; None if one is a text or none has actions."""
    trajectories = [Rollout.of_turns(turns) for turns in responses if not isinstance(turns, str)]
    if len(trajectories) < len(responses) or not any(rollout.actions for rollout in trajectories):
        return None
    return [*map(action_key, trajectories)]


def written(i: int, row: Mapping[str, Any]) -> Rollout:
    """What the policy wrote in row `i`: its text, its tokens and their log-probs, and all turns of a trajectory.

    Raises:
        ValueError: a mask does not match the tokens or the messages.
    """
    response: Response = row["responses"]
    tokens, logprobs, mask = (row.get(name) for name in ("tokens", "logprobs", "masks"))
    turns = () if isinstance(response, str) else response
    if mask is not None and (tokens is None or len(tokens) != len(mask) or len(logprobs or mask) != len(mask)):
        raise ValueError(f"row {i}: a mask has one value for each of the row's `tokens` and `logprobs`")
    if turns and tokens is not None and (mask is not None or sum(turn.by_policy for turn in turns) == 1):
        try:
            turns = with_tokens(turns, tokens, [True] * len(tokens) if mask is None else mask)
        except ValueError as error:
            raise ValueError(f"row {i}: {error}") from None
    if mask is not None:
        chosen = np.flatnonzero(np.asarray(mask, bool)).tolist()
        tokens, logprobs = ([column[n] for n in chosen] if column else column for column in (tokens, logprobs))
    columns: dict[str, Any] = {
        "tokens": tokens,
        "logprobs": None if logprobs is None else np.asarray(logprobs, np.float32),
    }
    return Rollout(response, **columns) if isinstance(response, str) else Rollout.of_turns(turns, **columns)


def spread(advantages: np.ndarray, mask: Sequence[bool]) -> np.ndarray:
    """The advantages of the policy's tokens [T] at their places among all tokens, float32 [S], 0 elsewhere."""
    values = np.zeros(len(mask), np.float32)
    values[np.asarray(mask, bool)] = advantages
    return values
