"""The comparisons: the questions to the judge, and the ranks that its replies give.

The answers of a problem are shown in as many orders as there are models, each rotated by one position from the last. So
every answer is shown once at every position, and a judge with a pure position bias gives every model every rank once.
That is a round. Only a complete round counts, because without one of its orders the positions would decide.
"""

import random
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from diver.core.files import JsonlLog
from diver.core.seeds import digest, stream_seed
from diver.core.types import DiverError
from diver.sample.base import Request
from model_judge.answers import Case
from model_judge.prompt import Message, question, read_ranks, repair

Replies = Mapping[tuple[str, int], Mapping[str, Any]]
"""The rows of the stored replies, by the key of the comparison and the attempt."""


class Comparison(NamedTuple):
    """One question to the judge: `order[i]` is the model whose answer is shown at position i."""

    case: Case
    round: int
    order: tuple[int, ...]
    key: str
    """A digest of all that the reply depends on."""
    messages: list[Message]
    structured: bool
    """Whether the reply is structured output."""


class Decision(NamedTuple):
    """The result of a comparison: the rank of each model, or the reason why there is no verdict."""

    comparison: Comparison
    ranks: tuple[int, ...] | None
    reason: str
    shown: tuple[int, ...] = ()
    """The ranks in the order shown."""


def comparisons(
    cases: Sequence[Case], rounds: int, max_chars: int, config: Mapping[str, Any], seed: int
) -> list[Comparison]:
    """All questions. `config` is the judge and its settings, with `structured_output` if it is set."""
    structured, requested = config.get("structured_output", False), []
    for case, number in product(cases, range(rounds)):
        n = len(case.answers)
        start = random.Random(stream_seed(seed, "judge", case.benchmark, case.problem_id, number)).sample(range(n), n)
        for shift in range(n):
            order = tuple(start[shift:] + start[:shift])
            messages = question(case.problem, [case.answers[m] for m in order], max_chars, structured)
            key = digest(dict(config), number, messages)
            requested.append(Comparison(case, number, order, key, messages, structured))
    return requested


def requests_for(requested: Sequence[Comparison], replies: Replies, attempt: int) -> list[Request]:
    """The questions without a stored reply; at attempt 1, those whose first reply cannot be parsed."""
    requests: dict[str, Request] = {}  # equal answers make equal questions: one reply serves them
    for c in requested:
        if (c.key, attempt) in replies:
            continue
        messages = c.messages
        if attempt:
            first = replies[c.key, 0]["reply"]
            reason = read_ranks(first, len(c.order), c.structured)
            if not isinstance(reason, str):
                continue
            messages = repair(c.messages, first, reason, len(c.order), c.structured)
        requests[c.key] = Request(c.key, attempt, messages, stream_seed(0, "judge", c.key, attempt))
    return [*requests.values()]


def stored(replies: JsonlLog) -> dict[tuple[str, int], dict[str, Any]]:
    """The replies by comparison and attempt. DiverError if the file is another program's."""
    try:
        return {(row["key"], row["attempt"]): row for row in replies.rows()}
    except (KeyError, TypeError):
        raise DiverError(f"{replies.path}: has rows that are no replies of a judge; choose another --out") from None


def decide(comparison: Comparison, replies: Replies) -> Decision:
    """The ranks by the last reply to this comparison."""
    last = replies.get((comparison.key, 1)) or replies[comparison.key, 0]
    shown = read_ranks(last["reply"], len(comparison.order), comparison.structured)
    if isinstance(shown, str):
        cut = "; the reply was cut off, so --max-tokens may be too low" if last["truncated"] else ""
        return Decision(comparison, None, shown + cut)
    ranks = tuple(shown[comparison.order.index(model)] for model in range(len(shown)))
    return Decision(comparison, ranks, "", tuple(shown))


def whole_rounds(decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions of the rounds in which every comparison has a verdict."""
    failed = {(d.comparison.case, d.comparison.round) for d in decisions if d.ranks is None}
    return [d for d in decisions if (d.comparison.case, d.comparison.round) not in failed]
