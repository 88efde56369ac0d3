"""A trajectory: the turns of the policy and of the environment, read from messages with tool calls.

The texts of policies and tools are untrusted. They are parsed as JSON up to a limit, searched in linear time, and never
evaluated.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

POLICY, ENVIRONMENT = "assistant", "environment"
"""The roles of the policy and of the environment. All other roles (tool, user, system) are the environment's, too."""
LONGEST = 100_000
"""Maximum number of characters of a call's arguments that are parsed as JSON; longer ones are compared as texts."""
MARKS = ("tool_call", "action", "search", "sql", "python", "tool")
"""Names of the tags that enclose actions in a text, such as `<search>query</search>`."""
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Keys of a message that may have its thought, which chat templates and vLLM remove from the content."""
CALL_ITEMS = ("function_call", "custom_tool_call")
ITEMS = dict.fromkeys(("message", "reasoning", *CALL_ITEMS), POLICY)
"""The role of an item of OpenAI's Responses API by its type, for items without a role."""
ARGUMENTS = ("arguments", "args", "input", "parameters")
"""Keys of a call that may have its arguments: OpenAI's, LangChain's, Anthropic's and custom tools', and Llama's."""


class Action(NamedTuple):
    """An action of the policy: a tool with normalised arguments, so that equal calls are equal actions."""

    name: str
    arguments: str = ""

    def __str__(self) -> str:
        """The call as JSON, as chat templates write it."""
        return f'{{"name": {json.dumps(self.name, ensure_ascii=False)}, "arguments": {self.arguments or "{}"}}}'


@dataclass(frozen=True, slots=True)
class Turn:
    """The message of one side in its turn.

    Attributes:
        role: `POLICY`, or any other name for the environment.
        text: the text of the message; for the policy with its thought and its tool calls.
        actions: the actions of the policy.
        state: the state in which the policy acts or to which the environment leads, if the environment names it.
        reward: the reward of this turn; None if the environment gives none.
        tokens: the token ids of this turn. An environment's turn has those of the chat template around it, too.
    """

    role: str
    text: str = ""
    actions: tuple[Action, ...] = ()
    state: str | None = None
    reward: float | None = None
    tokens: Sequence[int] | None = None

    @property
    def by_policy(self) -> bool:
        return self.role == POLICY


def turn_row(turn: Turn) -> dict[str, Any]:
    """A turn as JSON, without its tokens; `turns_from_rows` reads it."""
    optional = {"state": turn.state, "reward": turn.reward}
    return {
        "role": turn.role,
        "text": turn.text,
        "actions": [list(action) for action in turn.actions],
        **{name: value for name, value in optional.items() if value is not None},
    }


def turns_from_rows(rows: Any) -> tuple[Turn, ...]:
    """The turns that `turn_row` wrote.

    Raises:
        ValueError: a row is not such a turn; names its index.
    """
    turns = []
    for i, row in enumerate(rows if isinstance(rows, list) else [rows]):
        try:
            actions = tuple(Action(str(name), str(arguments)) for name, arguments in row["actions"])
            state, reward = row.get("state"), row.get("reward")
            label, payoff = None if state is None else str(state), None if reward is None else float(reward)
            turns.append(Turn(str(row["role"]), str(row["text"]), actions, label, payoff))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError(f"turn {i}: must have role, text and actions, not {row!r:.60}") from None
    return tuple(turns)


def turns_of(messages: Iterable[Mapping[str, Any]]) -> tuple[Turn, ...]:
    """The turns of a response given as messages.

    A message has `role` and `content`, the policy's also `tool_calls` as in OpenAI's API, or `actions`: pairs of name
    and arguments, for an environment without tools. `reward` and `state` are optional.

    Raises:
        ValueError: a message is not such a dict; names its index.
    """
    return tuple(_turn(i, message) for i, message in enumerate(messages))


def _turn(i: int, message: Mapping[str, Any]) -> Turn:
    if not isinstance(message, Mapping):
        raise ValueError(f"message {i}: must be a dict with role and content, not {type(message).__name__}")
    kind = message.get("type")
    role = message.get("role") or ITEMS.get(str(kind), kind)
    if not isinstance(role, str) or not role:
        raise ValueError(f"message {i}: has no role; that of the policy is {POLICY!r}")
    reward = message.get("reward")
    if reward is not None and (not isinstance(reward, int | float) or not math.isfinite(reward)):
        raise ValueError(f"message {i}: a reward is a finite number, not {reward!r:.60}")
    state = None if message.get("state") is None else normalised(message["state"])
    fields: dict[str, Any] = {"state": state, "reward": None if reward is None else float(reward)}
    content = content_text(message.get("output") if message.get("content") is None else message["content"], i)
    if role != POLICY:
        return Turn(role, content, **fields)
    calls = _called(message)
    items = message.get("actions")
    actions = (
        calls or marked_actions(content) if items is None else tuple(as_action(item, f"message {i}") for item in items)
    )
    thought = next((str(message[name]) for name in THOUGHTS if message.get(name)), "")
    parts = (thought and f"<think>\n{thought}\n</think>", content, *map(str, calls))
    return Turn(role, "\n".join(filter(None, parts)), actions, **fields)


def content_text(content: Any, i: int) -> str:
    """The text in the content of message `i`. If the content is a list of parts, images are left out."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError(f"message {i}: content is a text or a list of parts, not {type(content).__name__}")
    return "".join(str(part.get("text") or "") if isinstance(part, Mapping) else str(part) for part in content)


def as_action(action: Any, where: str) -> Action:
    """An action from its name, or from its name and arguments. Otherwise a ValueError, which begins with `where`."""
    if isinstance(action, str):
        return Action(action)
    if isinstance(action, Sequence) and len(action) == 2 and isinstance(action[0], str):
        return Action(action[0], normalised(action[1]))
    raise ValueError(f"{where}: an action is a name, or a pair of name and arguments, not {action!r:.60}")


def _called(message: Mapping[str, Any]) -> tuple[Action, ...]:
    """The tool calls of a message, without those that name no function."""
    calls = message.get("tool_calls")
    calls = [*(calls if isinstance(calls, list | tuple) else ()), *tool_uses(message.get("content"))]
    if isinstance(message.get("function_call"), Mapping):  # OpenAI's format before `tool_calls`
        calls.append(message["function_call"])
    if message.get("type") in CALL_ITEMS:
        calls.append(message)
    return tuple(filter(None, map(_call, calls)))


def tool_uses(content: Any) -> list[Any]:
    """The calls among the parts of a message's content, in Anthropic's format."""
    parts = content if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, Mapping) and part.get("type") == "tool_use"]


def _call(call: Any) -> Action | None:
    """The action of a call, or None without a name. The call may be a JSON text, or inside `function` or `custom`."""
    if isinstance(call, str):
        call = _parsed(call)
    if isinstance(call, Mapping):
        call = next((call[kind] for kind in ("function", "custom") if isinstance(call.get(kind), Mapping)), call)
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str) or not call["name"]:
        return None
    return Action(call["name"], normalised(next((call[name] for name in ARGUMENTS if call.get(name)), {})))


def _parsed(text: str) -> Any:
    """The value of a JSON text. A text that is not JSON, or too long, is returned without repeated white space."""
    try:
        return json.loads(text) if len(text) <= LONGEST else " ".join(text.split())
    except (ValueError, RecursionError):
        return " ".join(text.split())


def normalised(value: Any) -> str:
    """Arguments or a state as one text: JSON with sorted keys and without nulls, else the text with single spaces.

    Nulls are left out because parquet gives every call the arguments of all others, as nulls.
    """
    parsed = _parsed(value) if isinstance(value, str) else value
    if isinstance(parsed, str):
        return parsed
    try:
        return json.dumps(_known(parsed), sort_keys=True, ensure_ascii=False, default=str)
    except RecursionError:
        return " ".join(value.split()) if isinstance(value, str) else "nested too deeply"


def _known(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _known(item) for key, item in value.items() if item is not None}
    return [_known(item) for item in value] if isinstance(value, list | tuple) else value


def marked_actions(text: str) -> tuple[Action, ...]:
    """The actions between the tags of `MARKS` in a text, in order, without those of its thought.

    A `<tool_call>` encloses a name and arguments as JSON. Any other tag is the name of an action and encloses its
    arguments.
    """
    text = text.rpartition("</think>")[2]
    spans = []
    for mark in MARKS:
        opener, closer = f"<{mark}>", f"</{mark}>"
        start = text.find(opener)
        while start >= 0 and (end := text.find(closer, start)) >= 0:
            spans.append((start, end, mark, text[start + len(opener) : end]))
            start = text.find(opener, end)
    actions, previous_end = [], 0
    for start, end, mark, content in sorted(spans):
        if start >= previous_end:  # not nested in the previous one
            actions.append((mark == "tool_call" and _call(content)) or Action(mark, normalised(content)))
            previous_end = end
    return tuple(actions)


def anchors(turns: Iterable[Turn]) -> Iterator[tuple[str, ...] | None]:
    """A key of the state in which each turn of the policy acts: equal states have equal keys.

    The key is the last state that the turn or the environment before it names, else the texts of the environment before
    it. Without either, it is the start for the first turn, and None for a turn that follows one of the policy.
    """
    anchor: tuple[str, ...] | None = ("start",)
    texts: tuple[str, ...] = ()
    state: str | None = None
    for turn in turns:
        state = turn.state if turn.state is not None else state
        if not turn.by_policy:
            texts = (*texts, turn.text)
            anchor = ("text", *texts)
            continue
        yield anchor if state is None else ("state", state)
        anchor, texts, state = None, (), None


def turns_of_tokens(tokens: Sequence[int], mask: Sequence[bool] | np.ndarray) -> tuple[Turn, ...]:
    """Turns without texts, from a sequence [S] and its mask [S]: each run of tokens that one side wrote is a turn.

    Raises:
        ValueError: the mask has another length than the tokens.
    """
    written = np.asarray(mask, bool)
    if written.shape != (len(tokens),):
        raise ValueError(f"a mask of {written.size} for {len(tokens)} tokens")
    borders = [0, *(np.flatnonzero(written[1:] != written[:-1]) + 1).tolist(), len(tokens)]
    return tuple(Turn(POLICY if written[a] else ENVIRONMENT, tokens=tokens[a:b]) for a, b in pairwise(borders) if a < b)


def with_tokens(turns: Sequence[Turn], tokens: Sequence[int], mask: Sequence[bool]) -> tuple[Turn, ...]:
    """The turns with their token ids, from a sequence [S] whose `mask` [S] marks the policy's tokens.

    If several turns of the environment follow one another, the first has the tokens of all of them.

    Raises:
        ValueError: the mask has another length than the tokens, or another number of runs of policy tokens than turns.
    """
    runs = turns_of_tokens(tokens, mask)
    in_mask, in_turns = (sum(turn.by_policy for turn in sequence) for sequence in (runs, turns))
    if in_mask != in_turns:
        raise ValueError(f"the mask has {in_mask} runs of policy tokens, but the messages have {in_turns} policy turns")
    result, runs_left = [], iter(runs)
    run = next(runs_left, None)
    for turn in turns:
        ids: Sequence[int] | None = ()
        if run and run.by_policy is turn.by_policy:
            ids, run = run.tokens, next(runs_left, None)
        result.append(replace(turn, tokens=ids))
    if run:
        raise ValueError("the mask and the messages differ in the order of the policy and the environment")
    return tuple(result)
