"""From the rows of a file to responses, layout by layout; the columns of the first row determine the layout."""

import dataclasses
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diver.data.sources import first_value, needed, value_at
from diver.io import rollout_rows
from diver.io.jsonl import number, read_jsonl
from diver.settings import settings
from diver.types import DiverError, Grade, Group, Problem, Reward, Rollout

PROBLEMS = ("problem", "question", "prompt", "messages", "input", "problem_id")
RESPONSES = (
    "response", "responses", "completion", "completions", "output", "outputs", "generation", "generations", "text",
)  # fmt: skip
OUTCOMES = ("outcome", "correct", "is_correct", "score", "reward", "accuracy")
ANSWERS = ("answer", "solution", "ground_truth", "reward_model.ground_truth", "gold", "target")

Row = Mapping[str, Any]


@settings
class Columns:
    """The names of a file's columns; an empty name stands for those of its layout. A dot reaches into a column."""

    problem: str = ""
    """The column that says which rows answer the same problem."""
    response: str = ""
    """The column of the response, or of a list of them."""
    outcome: str = ""
    """The column that says how good a response is: true, false or a number."""
    answer: str = ""
    """The column of the known answer."""


class File(NamedTuple):
    """The rows of a file, each with its place, and how to read them; a reader adds to `notes` what a user should know."""

    path: Path
    rows: list[tuple[str, Row]]
    columns: Columns
    notes: list[str]


class Part(NamedTuple):
    """Responses to one problem. Parts with the same key in the same step are one group."""

    key: str
    group: Group


def diver_train(file: File) -> Iterator[Part]:
    for i, group in enumerate(rollout_rows.groups_from_rows(file.rows)):
        yield Part(f"{file.path}:{i}", group)


def diver_eval(file: File) -> Iterator[Part]:
    """Generations, with the grades that stand beside them in a result folder."""
    in_folder = file.path.parent.name == "generations"
    grades = _stored_grades(file)
    for where, row in file.rows:
        stored = row.get("grade") if grades is None else grades.get((row["problem"], row["sample"]))
        grade = rollout_rows.read_grade(stored, where)
        scored = grade not in (None, Grade.TIMEOUT, Grade.ERROR)
        rollout = Rollout(
            _text(row["response"], where),
            num_tokens=row["tokens"] if isinstance(row.get("tokens"), int) else None,
            truncated=bool(row["truncated"]),
            grade=grade,
            reward=Reward(float(grade is Grade.CORRECT)) if scored else None,
        )
        source = file.path.stem if in_folder else ""  # outside of its folder a file may be called anything
        problem = Problem(str(row["problem"]), "", "", source=source)
        yield Part(f"{source} {row['key']} {problem.id}", Group(problem, (rollout,)))


def _stored_grades(file: File) -> dict[tuple[Any, Any], Any] | None:
    files = sorted((file.path.parent.parent / "grades").glob(f"{file.path.stem}.*.jsonl"))
    if not files:
        return None
    if len({(row["problem"], row["sample"]) for _, row in file.rows}) < len(file.rows):
        file.notes.append(f"{file.path}: generations of several settings; whose the grades are is not known: left out")
        return None
    if len(files) > 1:
        file.notes.append(f"{file.path}: grades from {files[0].name}, the first of {len(files)}")
    return {(row["problem"], row["sample"]): row["grade"] for _, row in read_jsonl(files[0], appended=True)}


def verl(file: File) -> Iterator[Part]:
    for (_, row), part in zip(file.rows, named_columns(file), strict=True):
        session = re.fullmatch(r"(.+)_\d+_\d+", str(row.get("uid", "")))  # uid, rollout, output: the first is the group
        yield part._replace(key=session[1]) if session else part


def trl(file: File) -> Iterator[Part]:
    name = file.columns.outcome or _trl_reward(file.rows[0][1])
    if not name:
        columns = ", ".join(file.rows[0][1])
        file.notes.append(f"{file.path}: the outcome column is ambiguous; --outcome names one of {columns}")
    return named_columns(file._replace(columns=dataclasses.replace(file.columns, outcome=name)))


def _trl_reward(row: Row) -> str:
    """The outcome column of TRL's completions: one of OUTCOMES, or the only one of numbers; else none."""
    known = [name for name in OUTCOMES if name in row]
    numbers = [k for k, v in row.items() if k not in ("step", "advantage") and _is_number(v)]
    return known[0] if known else numbers[0] if len(numbers) == 1 else ""


def lm_eval(file: File) -> Iterator[Part]:
    """lm-eval repeats the responses of a document for each of its filters: the first filter is read."""
    first = file.rows[0][1].get("filter")
    rows = [(where, row) for where, row in file.rows if row.get("filter") == first]
    if len(rows) < len(file.rows):
        file.notes.append(f"{file.path}: the rows of filter {first!r}; the others repeat their responses")
    for where, row in rows:
        arguments, resps = row["arguments"], row["resps"]
        request = arguments.get("gen_args_0") if isinstance(arguments, Mapping) else None
        if not isinstance(request, Mapping) or not isinstance(request.get("arg_1"), Mapping):
            raise DiverError(f"{where}: a task of log-likelihoods has no responses; give samples of one that generates")
        if not (isinstance(resps, list) and resps and isinstance(resps[0], list)):
            raise DiverError(f"{where}: resps must be a list of lists of texts, not {resps!r:.60}")
        metrics = row.get("metrics") or []
        name = file.columns.outcome or (metrics[0] if len(metrics) == 1 else "")
        # Of several responses the metric scores one, and does not say which.
        outcome = _outcome(value_at(row, name), where) if name and len(resps[0]) == 1 else None
        prompt = _prompt(request.get("arg_0"), where)
        problem = Problem(f"doc-{row['doc_id']}", prompt, str(row.get("target") or ""))
        rollouts = [_rollout(response, outcome, where) for response in resps[0]]
        yield from _parts(str(row.get("doc_hash") or row["doc_id"]), problem, rollouts)


def named_columns(file: File) -> Iterator[Part]:
    columns = file.columns
    for where, row in file.rows:
        value = needed(row, "problem", (columns.problem,) if columns.problem else PROBLEMS, where, "--problem")
        texts = needed(row, "response", (columns.response,) if columns.response else RESPONSES, where, "--response")
        outcome = value_at(row, columns.outcome) if columns.outcome else _first_outcome(row)
        several = isinstance(texts, list) and not _is_messages(texts)
        responses = texts if several else [texts]
        outcomes = outcome if several and isinstance(outcome, list) else [outcome] * len(responses)
        if len(outcomes) != len(responses):
            raise DiverError(f"{where}: {len(responses)} responses, but {len(outcomes)} outcomes")
        answer = first_value(row, (columns.answer,) if columns.answer else ANSWERS)
        meta = {"step": row["step"]} if isinstance(row.get("step"), int) else {}
        problem = Problem("", _prompt(value, where), "" if answer is None else str(answer), meta=meta)
        rollouts = [_rollout(text, _outcome(o, where), where) for text, o in zip(responses, outcomes, strict=True)]
        advantage = number(row.get("advantage"))
        key = json.dumps(value, ensure_ascii=False, default=str)
        yield from _parts(key, problem, [rollout.replace(advantage=advantage) for rollout in rollouts])


class Layout(NamedTuple):
    required: frozenset[str]
    """The columns by which it is recognised; every row has them."""
    read: Callable[[File], Iterator[Part]]
    columns: Columns | None = Columns()
    """What it calls them, where the user names no other; None: they are always called the same."""
    repeats: bool = False
    """A file may repeat the one before it."""


VERL = Columns(problem="input", response="output", outcome="score", answer="gts")
TRL = Columns(problem="prompt", response="completion")
LAYOUTS = {
    "diver train": Layout(rollout_rows.REQUIRED, diver_train, None),
    "diver eval": Layout(frozenset({"key", "problem", "sample", "response", "truncated"}), diver_eval, None),
    "verl": Layout(frozenset({"input", "output", "score"}), verl, VERL),
    "TRL": Layout(frozenset({"prompt", "completion", "advantage"}), trl, TRL, repeats=True),
    "lm-eval": Layout(frozenset({"doc_id", "arguments", "resps"}), lm_eval),
    "named columns": Layout(frozenset(), named_columns),
}


def layout_of(row: Row, columns: Columns) -> str:
    """The name of the first layout whose columns the row has; named columns where the caller names them."""
    if columns.problem or columns.response:
        return "named columns"
    return next(name for name, layout in LAYOUTS.items() if row.keys() >= layout.required)


# ---- values ------------------------------------------------------------------------------------------------------------


def _parts(key: str, problem: Problem, rollouts: Sequence[Rollout]) -> Iterator[Part]:
    """The rollouts of a row as one part; none for a row without any."""
    if rollouts:
        yield Part(key, Group(problem, tuple(rollouts)).with_each(index=range(len(rollouts))))


def _rollout(value: Any, outcome: float | None, where: str) -> Rollout:
    return Rollout(_text(value, where), reward=None if outcome is None else Reward(outcome))


def _text(value: Any, where: str) -> str:
    """A response: a text, or the messages of a chat, of which the assistant's count."""
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
    if not _is_number(value) or not abs(value) <= sys.float_info.max:
        raise DiverError(f"{where}: an outcome must be true, false or a finite number, not {value!r:.60}")
    return float(value)


def _first_outcome(row: Row) -> Any:
    """The first of OUTCOMES that can be one: other people's `score` may be a text or a table."""
    values = (row.get(name) for name in OUTCOMES)
    return next((v for v in values if _is_number(v) or (isinstance(v, list) and v and all(map(_is_number, v)))), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)
