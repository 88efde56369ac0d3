"""From one row of a file to the responses in it, layout by layout; the columns of a file's first row tell its layout."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from diver.data.sources import first_value, value_at
from diver.settings import settings
from diver.types import DiverError, Grade, Problem, Reward, Rollout

PROBLEMS = ("problem", "question", "prompt", "messages", "input", "problem_id")
RESPONSES = (
    "response",
    "responses",
    "completion",
    "completions",
    "output",
    "outputs",
    "generation",
    "generations",
    "text",
)
OUTCOMES = ("outcome", "correct", "is_correct", "score", "reward", "accuracy")
ANSWERS = ("answer", "solution", "ground_truth", "reward_model.ground_truth", "gold", "target")


@settings
class Columns:
    """What the columns of a file are called; none: as its layout has them. A dot reaches into a column."""

    problem: str = ""
    response: str = ""
    outcome: str = ""
    answer: str = ""


class Found(NamedTuple):
    """One response. Rows of a group share the `key`; a `sample` that comes again begins another group."""

    key: str
    problem: Problem
    rollout: Rollout
    sample: Any = None


Row = Mapping[str, Any]


def diver_train(row: Row, where: str, columns: Columns) -> Iterator[Found]:
    parts = row["reward"] if isinstance(row["reward"], Mapping) else {}
    outcome = _outcome(parts.get("outcome"), where)
    rollout = Rollout(
        _text(row["response"], where),
        truncated=bool(row.get("truncated")),
        grade=_grade(row["grade"], where),
        reward=None if outcome is None else Reward(outcome, parts.get("diversity") or 0.0, parts.get("length") or 0.0),
        advantage=_known(row.get("advantage")),
    )
    problem = Problem(str(row["problem"]), str(row.get("prompt") or ""), _answer(row, columns), meta=_meta(row))
    yield Found(problem.id, problem, rollout, row["sample"])


def diver_eval(row: Row, where: str, columns: Columns) -> Iterator[Found]:
    grade = _grade(row.get("grade"), where)
    scored = grade not in (None, Grade.TIMEOUT, Grade.ERROR)
    reward = Reward(float(grade is Grade.CORRECT)) if scored else None
    rollout = Rollout(_text(row["response"], where), truncated=bool(row["truncated"]), grade=grade, reward=reward)
    problem = Problem(str(row["problem"]), "", "", source=row.get("benchmark", ""))
    yield Found(f"{problem.source} {row['key']} {problem.id}", problem, rollout)


def verl(row: Row, where: str, columns: Columns) -> Iterator[Found]:
    outcome = _outcome(value_at(row, columns.outcome or "score"), where)
    session = re.fullmatch(r"(.+)_\d+_\d+", str(row.get("uid", "")))  # uid, rollout, output: the first is the group's
    problem = Problem("", _prompt(row["input"], where), str(row.get("gts") or ""), meta=_meta(row))
    yield Found(session[1] if session else _key(row["input"]), problem, _rollout(row["output"], outcome, where))


def trl(row: Row, where: str, columns: Columns) -> Iterator[Found]:
    outcome = _outcome(value_at(row, columns.outcome), where) if columns.outcome else None
    problem = Problem("", _prompt(row["prompt"], where), _answer(row, columns), meta=_meta(row))
    rollout = _rollout(row["completion"], outcome, where).replace(advantage=_known(row["advantage"]))
    yield Found(_key(row["prompt"]), problem, rollout)


def lm_eval(row: Row, where: str, columns: Columns) -> Iterator[Found]:
    arguments, resps = row["arguments"], row["resps"]
    request = arguments.get("gen_args_0") if isinstance(arguments, Mapping) else None
    if not isinstance(request, Mapping) or not isinstance(request.get("arg_1"), Mapping):
        raise DiverError(f"{where}: a task of log-likelihoods has no responses; give the samples of one that generates")
    if not (isinstance(resps, list) and resps and isinstance(resps[0], list)):
        raise DiverError(f"{where}: resps must be a list of lists of texts, not {resps!r:.60}")
    metrics = row.get("metrics") or []
    name = columns.outcome or (metrics[0] if len(metrics) == 1 else "")
    # Of several responses the metric judges one, and does not say which.
    outcome = _outcome(value_at(row, name), where) if name and len(resps[0]) == 1 else None
    problem = Problem(f"doc-{row['doc_id']}", _prompt(request.get("arg_0"), where), str(row.get("target") or ""))
    for response in resps[0]:
        yield Found(str(row.get("doc_hash") or row["doc_id"]), problem, _rollout(response, outcome, where))


def plain(row: Row, where: str, columns: Columns) -> Iterator[Found]:
    value = _needed(row, "problem", columns.problem, PROBLEMS, where)
    texts = _needed(row, "response", columns.response, RESPONSES, where)
    found = value_at(row, columns.outcome) if columns.outcome else _first_outcome(row)
    several = isinstance(texts, list) and not _is_messages(texts)
    responses = texts if several else [texts]
    outcomes = found if several and isinstance(found, list) else [found] * len(responses)
    if len(outcomes) != len(responses):
        raise DiverError(f"{where}: {len(responses)} responses, but {len(outcomes)} outcomes")
    problem = Problem("", _prompt(value, where), _answer(row, columns), meta=_meta(row))
    for response, outcome in zip(responses, outcomes, strict=True):
        yield Found(_key(value), problem, _rollout(response, _outcome(outcome, where), where))


class Layout(NamedTuple):
    marks: frozenset[str]
    """The columns by which it is recognised."""
    read: Callable[[Row, str, Columns], Iterator[Found]]


LAYOUTS = {
    "diver train": Layout(frozenset({"problem", "sample", "response", "grade", "reward"}), diver_train),
    "diver eval": Layout(frozenset({"key", "problem", "sample", "response", "truncated"}), diver_eval),
    "verl": Layout(frozenset({"input", "output", "score"}), verl),
    "TRL": Layout(frozenset({"prompt", "completion", "advantage"}), trl),
    "lm-eval": Layout(frozenset({"doc_id", "arguments", "resps"}), lm_eval),
    "named columns": Layout(frozenset(), plain),
}


def layout_of(row: Row, columns: Columns) -> str:
    """The name of the first layout whose columns the row has; named columns where the caller names them."""
    if columns.problem or columns.response:
        return "named columns"
    return next(name for name, layout in LAYOUTS.items() if row.keys() >= layout.marks)


def trl_reward(row: Row) -> str:
    """Which column of TRL's completions is the outcome: one of OUTCOMES, or the only one of numbers; else none."""
    known = [name for name in OUTCOMES if name in row]
    numbers = [k for k, v in row.items() if k not in ("step", "advantage") and _is_number(v)]
    return known[0] if known else numbers[0] if len(numbers) == 1 else ""


# ---- values ------------------------------------------------------------------------------------------------------------


def _rollout(value: Any, outcome: float | None, where: str) -> Rollout:
    return Rollout(_text(value, where), reward=None if outcome is None else Reward(outcome))


def _text(value: Any, where: str) -> str:
    """A response: a text, or the messages of a chat, whose assistant's words count."""
    if _is_messages(value):
        return "\n".join(str(m["content"] or "") for m in value if m.get("role", "assistant") == "assistant")
    if not isinstance(value, str):
        raise DiverError(f"{where}: a response must be a text, not {value!r:.60}")
    return value


def _prompt(value: Any, where: str) -> str | tuple[Mapping[str, str], ...]:
    if _is_messages(value):
        return tuple({"role": str(m.get("role", "user")), "content": str(m["content"] or "")} for m in value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DiverError(f"{where}: a problem must be a text, a number or chat messages, not {value!r:.60}")
    return str(value)


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(m, Mapping) and "content" in m for m in value)


def _outcome(value: Any, where: str) -> float | None:
    """true is 1, false 0; None and NaN are unknown."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, bool | int | float) or not abs(value) <= sys.float_info.max:
        raise DiverError(f"{where}: an outcome must be true, false or a finite number, not {value!r:.60}")
    return float(value)


def _first_outcome(row: Row) -> Any:
    """The first of OUTCOMES that can be one: other people's `score` may be a text or a table."""
    values = (row.get(name) for name in OUTCOMES)
    return next((v for v in values if _is_number(v) or (isinstance(v, list) and v and all(map(_is_number, v)))), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _known(value: Any) -> float:
    return float(value) if _is_number(value) else math.nan


def _grade(value: Any, where: str) -> Grade | None:
    try:
        return None if value is None else Grade(value)
    except ValueError:
        raise DiverError(f"{where}: unknown grade {value!r:.60}; choose from {', '.join(Grade)}") from None


def _meta(row: Row) -> dict[str, Any]:
    return {"step": row["step"]} if isinstance(row.get("step"), int) else {}


def _answer(row: Row, columns: Columns) -> str:
    value = first_value(row, (columns.answer,) if columns.answer else ANSWERS)
    return "" if value is None else str(value)


def _key(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _needed(row: Row, what: str, named: str, known: Sequence[str], where: str) -> Any:
    tried = (named,) if named else known
    value = first_value(row, tried)
    if value is None:
        raise DiverError(
            f"{where}: no {what}: found {', '.join(row) or 'nothing'}; accepted {', '.join(tried)} (--{what} names another)"
        )
    return value
