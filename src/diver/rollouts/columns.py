"""What a layout is: its columns, and what it calls the parts of a rollout. Rows of named columns as groups."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from diver.data.sources import first_value, needed, value_at
from diver.io.jsonl import InvalidRow
from diver.rollouts import values
from diver.settings import settings
from diver.types import DiverError, Group, Problem, Reward, Rollout

PROBLEMS = ("problem", "question", "prompt", "messages", "input", "problem_id")
RESPONSES = (
    "response", "responses", "completion", "completions", "output", "outputs", "generation", "generations", "text",
)  # fmt: skip
OUTCOMES = ("outcome", "correct", "is_correct", "score", "reward", "accuracy")
SOURCES = ("benchmark", "data_source", "dataset", "task")
ANSWERS = ("answer", "solution", "ground_truth", "reward_model.ground_truth", "gold", "target")

LONGEST_NAME = 200

Row = Mapping[str, Any]
Names = Mapping[str, Sequence[str]]
"""Where each part of a rollout may stand, the first that is there: dotted paths of columns."""

NAMES: Names = {
    "problem": PROBLEMS,
    "response": RESPONSES,
    "outcome": OUTCOMES,
    "answer": ANSWERS,
    "step": ("step", "global_step"),
    "entropy": ("entropy",),
    "logprobs": ("logprobs", "log_probs"),
    "length": ("num_tokens", "response_length"),
    "truncated": ("truncated", "is_truncated"),
    "advantage": ("advantage",),
    "id": (),
    "group": (),
    "source": (),
    "by": (),
    "grader": (),
}


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
    """The column of the reference answer."""
    by: str = ""
    """The column that says whose a response is, such as model or method: each has groups of its own."""
    step: str = ""
    """The column of the training step."""
    entropy: str = ""
    """The column of the entropy, in nats: of the response, or of each of its tokens."""
    logprobs: str = ""
    """The column of the log-probabilities of the sampled tokens."""

    @property
    def columns(self) -> "Columns":
        """These names alone, of settings that have others, too."""
        return Columns(**{field.name: getattr(self, field.name) for field in fields(Columns)})


class File(NamedTuple):
    """The rows of a file, each with its place, and how to read them.

    `notes` are what a user should know, `outcomes` the columns that were taken for the outcome where nobody says which it is.
    """

    path: Path
    rows: Iterator[tuple[str, Row]]
    notes: list[str]
    outcomes: dict[str, None]
    names: Names = NAMES
    step: int | None = None
    """The step of rows that do not say it."""


class Part(NamedTuple):
    """Responses to one problem. Parts with the same key in the same step are one group."""

    key: str
    group: Group


Read = Callable[[File], Iterator[Part]]


class Layout(NamedTuple):
    required: frozenset[str]
    """The columns by which it is recognised; every row has them."""
    names: Names = MappingProxyType({})
    """What it calls the parts of a rollout, where that is not among `NAMES`."""
    plain: Callable[[str, Row], Iterator[Row]] | None = None
    """From its row to plain ones."""
    read: Read | None = None
    """Its reader, where names are not enough."""
    numbered: bool = False
    """The number in the name of a file is the step."""
    numbered_by_word: bool = False
    """It is where the name says step, iteration or rollout: another number may be that of a part of a step."""
    repeats: bool = False
    """A file may repeat the one before it."""


def named_columns(file: File) -> Iterator[Part]:
    names, chosen = file.names, ""
    models: dict[int, Any] = {}
    for where, row in file.rows:
        group, value = _known(row, names["group"]), _known(row, names["problem"])
        if value is None:
            value = needed(row, "problem", names["problem"], where, "--problem")
            if group is None:
                raise InvalidRow(where, "no problem", ": it is empty (--problem names another)")
        texts = needed(row, "response", names["response"], where, "--response")
        several = isinstance(texts, list) and not values.is_messages(texts)
        responses = texts if several else [texts]
        if names["outcome"] is OUTCOMES:  # nobody says which it is: of the whole file the same
            chosen = chosen or next((name for name in OUTCOMES if _each_outcome(row.get(name))), "")
            file.outcomes.update({chosen: None} if chosen else {})
            given = row.get(chosen) if _each_outcome(row.get(chosen)) else None
            if given is None:
                _note_unread(file, where, row, (chosen,) if chosen else OUTCOMES)
        else:
            given = first_value(row, names["outcome"])
        if len(responses) > 1 and not isinstance(given, list):
            if values.known(given) is not None:
                _note(file, "one outcome for several responses, which does not say whose it is: left out")
            given = None
        outcomes = given if several and isinstance(given, list) else [given] * len(responses)
        if len(outcomes) != len(responses):
            raise DiverError(f"{where}: {len(responses)} responses, but {len(outcomes)} outcomes")
        if responses:
            scored = [
                (values.text(r, where), values.outcome(o, where)) for r, o in zip(responses, outcomes, strict=True)
            ]
            key = json.dumps(value if group is None else group, ensure_ascii=False, default=str)
            problem = _problem(row, value, where, file)
            if not names["by"] and (model := _known(row, ("model",))) is not None:
                of_group = hash((problem.source, problem.meta.get("step"), key))  # a key may be as long as a prompt
                if models.setdefault(of_group, model) != model:
                    _note(file, "column 'model' differs within a group; --by model keeps the models apart")
            yield Part(key, Group(problem, tuple(_rollouts(row, scored, names))))


def _problem(row: Row, value: Any, where: str, file: File) -> Problem:
    found = {name: _known(row, file.names[name]) for name in ("answer", "step", "by", "grader", "source", "id")}
    if file.names["source"] is SOURCES and not (
        _is_name(found["source"]) and _is_id(row, value, file.names["problem"])
    ):
        found["source"] = None
    step = values.integer(found["step"])
    meta: dict[str, Any] = {"step": file.step if step is None else step}
    meta |= {name: None if found[name] is None else str(found[name]) for name in ("by", "grader")}
    if len(meta["by"] or "") > LONGEST_NAME:
        raise DiverError(
            f"{where}: --by names a column of long texts ({meta['by']!r:.40}...); name one that says whose a response is"
        )
    name, source = ("" if found[key] is None else str(found[key]) for key in ("id", "source"))
    known = found["answer"]
    if isinstance(known, list) and len(known) == 1:
        known = known[0]
    if isinstance(known, list | dict):  # only who grades needs it, and is told
        meta["answer_kind"] = type(known).__name__
    answer = "" if known is None else str(known)
    return Problem(
        name, values.prompt(value, where), answer, source, meta={k: v for k, v in meta.items() if v is not None}
    )


def _rollouts(row: Row, scored: Sequence[tuple[str, float | None]], names: Names) -> Iterator[Rollout]:
    """What the row says besides is of its response, so of several not known."""
    several = len(scored) > 1
    about = {
        name: None if several else first_value(row, names[name])
        for name in ("entropy", "logprobs", "length", "truncated", "advantage")
    }
    for index, (response, outcome) in enumerate(scored):
        yield Rollout(
            response,
            index=index,
            reward=None if outcome is None else Reward(outcome),
            entropy=values.mean_of(about["entropy"]),
            logprobs=values.by_token(about["logprobs"]),
            num_tokens=values.integer(about["length"]),
            truncated=str(about["truncated"]).lower() in ("true", "1", "1.0"),
            advantage=values.mean_of(about["advantage"]),
        )


def _known(row: Row, names: Sequence[str]) -> Any:
    """The first value that says something; None where there is none."""
    return next((value for name in names if (value := values.known(value_at(row, name))) is not None), None)


def _is_id(row: Row, value: Any, names: Sequence[str]) -> bool:
    """Whether the problem is a number or an id, which another benchmark may have, too, and not its text."""
    column = next((name for name in names if values.known(value_at(row, name)) is not None), "")
    number = isinstance(value, int) or (isinstance(value, str) and value.isdecimal())
    return number or column == "id" or column.endswith(("_id", ".id"))


def _is_name(value: Any) -> bool:
    """Not a table, nor the text of a task."""
    return isinstance(value, str | int) and len(str(value)) <= LONGEST_NAME


def _note(file: File, said: str) -> None:
    """Once of a file."""
    if (note := f"{file.path}: {said}") not in file.notes:
        file.notes.append(note)


def _note_unread(file: File, where: str, row: Row, names: Sequence[str]) -> None:
    """Say once of a column why nothing in it is an outcome."""
    for name in names:
        unread = f"column {name!r} is no outcome: must be true, false or a finite number"
        if values.known(row.get(name)) is not None and not any(unread in note for note in file.notes):
            file.notes.append(f"{where}: {unread}, not {row[name]!r:.60}")


def _each_outcome(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(values.is_outcome, value)) and bool(value)
    return values.is_outcome(values.known(value))
