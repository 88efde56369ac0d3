"""A trajectory: the turns of the policy and of the environment, as messages with tool calls have them.

What a policy and a tool wrote is untrusted: it is parsed as JSON up to a limit and searched in linear
time. It is never evaluated.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

POLICY, ENVIRONMENT = "assistant", "environment"
"""The role of the policy, and one of the environment. Every other role is the environment, too: tool, user, system."""
LONGEST = 100_000
"""Characters of the arguments of a call that are parsed as JSON; longer ones are compared as texts."""
MARKS = ("tool_call", "action", "search", "sql", "python", "tool")
"""Names of the tags that enclose actions in a text, such as `<search>query</search>`."""
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Where a message has the thought that was parsed out of its content, by the chat templates of models and by vLLM."""
CALL_ITEMS = ("function_call", "custom_tool_call")
ITEMS = dict.fromkeys(("message", "reasoning", *CALL_ITEMS), POLICY)
"""The role of an item of OpenAI's Responses, which may have a type instead."""
ARGUMENTS = ("arguments", "args", "input", "parameters")
"""Where a call has its arguments: OpenAI's, LangChain's, Anthropic's and a custom tool's, and Llama's."""


class Action(NamedTuple):
    """What the policy did: the tool with its normalised arguments, so that equal calls are equal actions."""

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
        text: what was said; for the policy with its thought and its tool calls.
        actions: what the policy did.
        state: the state in which the policy acts or to which the environment leads, where the environment names it.
        reward: what the environment paid for this turn, None if it says nothing.
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
    about = {"state": turn.state, "reward": turn.reward}
    return {
        "role": turn.role,
        "text": turn.text,
        "actions": [list(action) for action in turn.actions],
        **{name: value for name, value in about.items() if value is not None},
    }


def turns_from_rows(rows: Any) -> tuple[Turn, ...]:
    """The turns that `turn_row` wrote.

    Raises:
        ValueError: a row is not such a turn; names its index.
    """
    found = []
    for i, row in enumerate(rows if isinstance(rows, list) else [rows]):
        try:
            actions = tuple(Action(str(name), str(arguments)) for name, arguments in row["actions"])
            state, reward = row.get("state"), row.get("reward")
            named, paid = None if state is None else str(state), None if reward is None else float(reward)
            found.append(Turn(str(row["role"]), str(row["text"]), actions, named, paid))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError(f"turn {i}: must have role, text and actions, not {row!r:.60}") from None
    return tuple(found)


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
    about: dict[str, Any] = {"state": state, "reward": None if reward is None else float(reward)}
    content = content_text(message.get("output") if message.get("content") is None else message["content"], i)
    if role != POLICY:
        return Turn(role, content, **about)
    called = _called(message)
    given = message.get("actions")
    actions = (
        called or marked_actions(content) if given is None else tuple(as_action(one, f"message {i}") for one in given)
    )
    thought = next((str(message[name]) for name in THOUGHTS if message.get(name)), "")
    parts = (thought and f"<think>\n{thought}\n</think>", content, *map(str, called))
    return Turn(role, "\n".join(filter(None, parts)), actions, **about)


def content_text(content: Any, i: int) -> str:
    """The text in the content of message `i`, which may be in parts: those that are texts, without images."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ValueError(f"message {i}: content is a text or a list of parts, not {type(content).__name__}")
    return "".join(str(part.get("text") or "") if isinstance(part, Mapping) else str(part) for part in content)


def as_action(given: Any, where: str) -> Action:
    """An action from its name or from a pair of name and arguments; else a ValueError, which begins with `where`."""
    if isinstance(given, str):
        return Action(given)
    if isinstance(given, Sequence) and len(given) == 2 and isinstance(given[0], str):
        return Action(given[0], normalised(given[1]))
    raise ValueError(f"{where}: an action is a name, or a pair of name and arguments, not {given!r:.60}")


def _called(message: Mapping[str, Any]) -> tuple[Action, ...]:
    """The tool calls of a message; those without the name of a function are left out."""
    calls = message.get("tool_calls")
    calls = [*(calls if isinstance(calls, list | tuple) else ()), *tool_uses(message.get("content"))]
    if isinstance(message.get("function_call"), Mapping):  # OpenAI's before tools
        calls.append(message["function_call"])
    if message.get("type") in CALL_ITEMS:
        calls.append(message)
    return tuple(filter(None, map(_call, calls)))


def tool_uses(content: Any) -> list[Any]:
    """The calls among the parts of a content, as Anthropic's messages have them."""
    parts = content if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, Mapping) and part.get("type") == "tool_use"]


def _call(call: Any) -> Action | None:
    """A tool call, with its name inside or outside `function` or `custom`, possibly as a JSON text."""
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
    """Arguments or a state as one text: JSON with sorted keys and without nulls, else the text between white space.

    Nulls are left out since parquet fills in the arguments of other calls with them.
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
        return {str(key): _known(one) for key, one in value.items() if one is not None}
    return [_known(one) for one in value] if isinstance(value, list | tuple) else value


def marked_actions(text: str) -> tuple[Action, ...]:
    """The actions that a text has between `MARKS` behind its thought, in order.

    Between `<tool_call>` a name and arguments as JSON are the action. Other marks name the action, and what stands
    between them are its arguments.
    """
    text = text.rpartition("</think>")[2]
    found = []
    for mark in MARKS:
        opener, closer = f"<{mark}>", f"</{mark}>"
        start = text.find(opener)
        while start >= 0 and (end := text.find(closer, start)) >= 0:
            found.append((start, end, mark, text[start + len(opener) : end]))
            start = text.find(opener, end)
    actions, behind = [], 0
    for start, end, mark, content in sorted(found):
        if start >= behind:  # not nested in the previous one
            actions.append((mark == "tool_call" and _call(content)) or Action(mark, normalised(content)))
            behind = end
    return tuple(actions)


def anchors(turns: Iterable[Turn]) -> Iterator[tuple[str, ...] | None]:
    """The state in which each turn of the policy acts, equal where the states are.

    It is what the turn or the environment before it names, the last of several names, else what the environment says
    there. It is the start for a first turn, and None for a turn that follows one of the policy.
    """
    now: tuple[str, ...] | None = ("start",)
    said: tuple[str, ...] = ()
    named: str | None = None
    for turn in turns:
        named = turn.state if turn.state is not None else named
        if not turn.by_policy:
            said = (*said, turn.text)
            now = ("text", *said)
            continue
        yield now if named is None else ("state", named)
        now, said, named = None, (), None


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

    The first of consecutive turns of the environment has the tokens of all of them.

    Raises:
        ValueError: the mask has another length than the tokens, or another number of runs of policy tokens than turns.
    """
    runs = turns_of_tokens(tokens, mask)
    own, count = (sum(turn.by_policy for turn in each) for each in (runs, turns))
    if own != count:
        raise ValueError(f"the mask has {own} runs of policy tokens, but the messages have {count} policy turns")
    found, rest = [], iter(runs)
    run = next(rest, None)
    for turn in turns:
        mine: Sequence[int] | None = ()
        if run and run.by_policy is turn.by_policy:
            mine, run = run.tokens, next(rest, None)
        found.append(replace(turn, tokens=mine))
    if run:
        raise ValueError("the mask and the messages differ in the order of the policy and the environment")
    return tuple(found)
