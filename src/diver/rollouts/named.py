"""From the rows of a file to responses, by the names of its columns."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from diver.core.columns import COLUMNS, first_value, needed, present, value_at
from diver.core.endings import is_cut_off
from diver.core.files import InvalidRow
from diver.core.seeds import digest
from diver.core.tables import counted
from diver.core.types import DiverError, Group, Problem, Reward, Rollout
from diver.diversity import action_key
from diver.grading.references import final_answer, options_in
from diver.rollouts import values
from diver.rollouts.columns import NAMES, OUTCOMES, SESSION, SOURCES, File, Part, Row

LONGEST_NAME = 200  # maximum characters of a source or a value of --by; a longer value is a text
LONGEST_JSON = 100_000  # maximum characters of a JSON value that is parsed: a model may have written it
_NUMBERED = r"_?(?:ng_)?(?:problem|question|prompt|example|unique|task|item|instance|doc|group|query|puzzle|challenge)"
PROBLEM_ID = re.compile(_NUMBERED + r"[_ -]?(?:id|idx|index|uid|uuid|hash|number)", re.IGNORECASE)
ROW_ID = re.compile(
    r"uid|uuid|qid|pid|id|idx|index|(?:sample|episode)[_-]?id|"
    r"(?:record|row|game|case|source|orig|original|data|dataset)[_-]?(?:id|idx|index)",
    re.IGNORECASE,
)
"""Columns that may number the problems, or rows (ROW_ID). `diver.rollouts.grouping` says when they number problems."""
APART = dict.fromkeys(("model", "model_name", "model_id", "checkpoint", "policy", "method", "agent", "llm"), "--by")
APART |= {"epoch": "--step", "iteration": "--step"}
"""Columns that name the model, the policy or the step of a response, with the option that reads them."""
REFERENCES = ("target", "label", "gold_answer", "gold_label", "gt", "gts", "reference", "standard_answer")
"""Columns that may hold the reference answer if `answer` holds the answer of the model."""
LABEL = re.compile(r"(?![01]$)(?:[A-Z]|-?\d[\d.,/]*)")
"""A `label` that may be the reference answer: a letter or a number, but not a verdict (0 or 1) or its source."""
BESIDE = (*COLUMNS["passages"], *COLUMNS["contexts"])
"""Columns that a problem may ask about, besides its prompt."""
DESCRIBED = ("entropy", "logprobs", "length", "truncated", "advantage")
"""Parts of a row that describe its response, besides the outcome."""
NUMBERED = re.compile(r"(.+?)[-_:/#.]\d+")  # the id of a sample: the id of its problem and a number
# a chat, as Python or JSON writes it as one text
CHAT = re.compile(
    r"\s{0,9}\[\s{0,9}\{\s{0,9}['\"](?:role|from)['\"]\s{0,9}:\s{0,9}['\"]"
    r"(?:assistant|model|gpt|ai|user|human|system)['\"]"
)
LIST = re.compile(r"\[\s*['\"{\[].*\]", re.DOTALL)  # a list, as Python, NumPy or JSON writes it


def named_columns(file: File) -> Iterator[Part]:
    """The responses of each row. If other rows have texts, a row without a text is a response without an answer.

    Raises:
        InvalidRow: no row has a text. Another column may have the texts.
    """
    names = file.names
    outcome_of = _outcome_reader(file)
    labels: dict[tuple[int, str], Any] = {}
    waiting: list[tuple[str, Row, Part]] = []  # rows without text before the first row with text
    has_text = False
    for where, cells in file.rows:
        row: Row = {name: values.unwrapped(value) for name, value in cells.items()}
        group, turns = _first(row, names["group"], values.identity), _conversation(row.get("messages"), where)
        cell = _given(file, where, row, turns)
        value = _problem_value(row, names["problem"], cell, turns)
        if value is None:
            value = needed(row, "problem", names["problem"], where, "--problem")
            if group is None:
                raise InvalidRow(where, "no problem", ": it is empty (--problem names another)")
        if cell is None and not has_text and not any(_has(row, name) for name in (*names["response"], "messages")):
            needed(row, "response", names["response"], where, "--response")
        outcome = outcome_of(where, row)
        texts = values.responses(cell) if cell is not None else _without_text(file, where, row, outcome)
        if not texts:
            short = value if len(str(value)) <= 60 else f"{str(value)[:60]}..."
            _note(file, where, f"problem {short!r} has no response: left out", "has no response: left out")
            continue
        several = len(texts) != 1 or (isinstance(cell, list) and not values.is_turns(cell))
        scored = [*zip(texts, _outcomes(file, where, row, cell, texts, outcome), strict=True)]
        # programs write the same id as 1 or as "1"
        prompt = json.dumps(value if values.is_turns(value) else str(value), ensure_ascii=False, default=str)
        key = prompt if group is None else json.dumps(str(group), ensure_ascii=False)
        options = options_in(row)
        problem = _problem(row, value, options, where, file)
        group_hash = hash((problem.source, problem.meta.get("step"), problem.meta.get("by"), key))  # a key may be long
        for column in present(row, APART):
            label = None if column == "model" and names["by"] else values.known(row.get(column))
            if label is not None and labels.setdefault((group_hash, column), label) != label:
                option = APART[column] if column == "model" or values.integer(label) is not None else "--by"
                note = f"column {column!r} differs within a group; {option} {column} keeps the {column}s apart"
                _note(file, "", note)
        problem_column = names["problem"][0] if file.problem_is_named else ""
        ids, certain = (None, problem_column) if problem_column or group is not None else _ids(row, options)
        prompt_digest = digest(prompt) if values.is_turns(value) else ""
        rollouts = tuple(_rollouts(row, scored, several, file, where))
        part = Part(key, Group(problem, rollouts), ids, certain, prompt_digest, file.path)
        for response, rollout in zip(texts, part.group.rollouts, strict=True):
            if not rollout.response and values.is_turns(response) and not values.is_empty(response):
                note = "has a chat in which no text of the assistant is found: a response without an answer"
                _note(file, where, note)
        has_text = has_text or cell is not None
        waiting.append((where, row, part))
        if has_text:
            yield from (part for *_, part in waiting)
            waiting.clear()
    if waiting:
        where, row, _ = waiting[0]
        details = f": no row has a text; found {', '.join(row)} (--response names another)"
        raise InvalidRow(where, "no response", details)


def _conversation(messages: Any, where: str) -> tuple[list[Any], list[Any]] | None:
    """A chat in which the assistant answers: the turns up to the last one of a user or system, and the later turns.

    The first action of the policy ends the question: later users are its environment.
    """
    if not values.is_turns(messages):
        return None
    turns = values.turns(messages, where)
    first_action = next((i for i, turn in enumerate(turns) if turn.by_policy and turn.actions), len(messages))
    start = next((i for i in range(first_action, 0, -1) if values.speaker(messages[i - 1]) in values.ASKING), 0)
    reply = messages[start:]  # the last turn may be a tool's
    answers = any(values.speaker(turn) in values.ASSISTANT for turn in reply) or values.response_turns(reply)
    return (messages[:start], reply) if answers else None


def _given(file: File, where: str, row: Row, turns: tuple[list[Any], list[Any]] | None) -> Any:
    """The value of a row that holds its response or responses; None if the row has no text.

    Raises:
        DiverError: one text has several responses, as pandas writes a list. Where each one ends is uncertain.
    """
    outcomes = (value_at(row, name) for name in present(row, file.names["outcome"]))
    several = any(isinstance(value, str) and value.lstrip().startswith("[") for value in outcomes)  # a list as text
    names = present(row, file.names["response"])
    for name in names:
        if values.is_missing(cell := value_at(row, name)):
            continue
        text = cell.strip() if isinstance(cell, str) else ""
        is_list = (name.endswith("s") or several) and LIST.fullmatch(text)
        if (is_chat := CHAT.match(text)) or is_list:
            raise DiverError(
                f"{where}: column {name!r} has a {'chat' if is_chat else 'list'} written as one text; write a row for "
                "each response, or a list in JSON Lines or parquet"
            )
        if (first := next(column for column in names if _has(row, column))) != name:  # it may be no response
            note = "is read as the response; --response names the one to read"
            _note(file, where, f"column {first!r} is empty, so column {name!r} {note}", note)
        for other in names:
            if other in (name, "text") or values.is_missing(second := value_at(row, other)):
                continue  # `text` may be the question
            if any(other in paths for field, paths in file.names.items() if field != "response"):
                continue  # the user names it for another part
            with suppress(DiverError):  # it is no text
                read, unread = ([values.text(a, where).strip() for a in values.responses(v)] for v in (cell, second))
                if any(read) and any(unread) and read != unread:
                    note = f"column {other!r} has another text; --response {other} reads that"
                    _note(file, where, f"column {name!r} is read as the response, and {note}")
        return cell
    if turns is not None:
        return turns[1]
    choices = row.get("choices")  # those of a chat completion, or of a multiple-choice question
    completion = isinstance(choices, list) and all(
        isinstance(c, Mapping) and not c.keys().isdisjoint({"message", "finish_reason"}) for c in choices
    )
    return {"choices": choices} if choices and completion else None


def _problem_value(row: Row, names: Sequence[str], response: Any, turns: tuple[list[Any], list[Any]] | None) -> Any:
    """The first value that names the problem. If messages end with the response, it is the part before the response."""
    for name in present(row, names):
        value = value_at(row, name)
        if name == "messages" and turns is not None:
            chat, texts = values.text(turns[1], "").strip(), response if isinstance(response, list) else [response]
            # The response may be in another column, without its thought; or it may continue the chat.
            is_response = response is value or response is turns[1]
            stripped = [text.strip() for text in texts if isinstance(text, str)]
            if is_response or any(text == chat or (text and chat.endswith(text)) for text in stripped):
                value = turns[0] or None
        value = values.identity(value) if PROBLEM_ID.fullmatch(name) else values.known(value)
        if value is not None:
            return value
    return None


def _has(value: Any, path: str) -> bool:
    """Whether a row has the column, or an empty column of which it would be a field."""
    if value is None or (isinstance(value, Mapping) and path in value):
        return True
    column, dot, field = path.partition(".")
    return bool(dot) and isinstance(value, Mapping) and column in value and _has(value[column], field)


def _without_text(file: File, where: str, row: Row, outcome: Any) -> list[Any]:
    """One response without text, or no response: an empty value may be a response or an empty list of responses.

    A list of outcomes gives their number, and a single outcome means one response. Without outcomes, a plural column
    name means a list.
    """
    column = next((name for name in file.names["response"] if _has(row, name)), file.names["response"][0])
    lists = [v for name in file.names["outcome"] if isinstance(v := value_at(row, name), list)]
    if (lists and not lists[0]) or (not lists and values.known(outcome) is None and column.endswith("s")):
        return []
    note = "has no text: a response without an answer"
    _note(file, where, f"column {column!r} {note}", note)
    return [None]


def _outcome_reader(file: File) -> Callable[[str, Row], Any]:
    """A function that reads the outcome of a row. If the user names no column, all rows use the same one."""
    names, chosen = file.names["outcome"], ""

    def read(where: str, row: Row) -> Any:
        nonlocal chosen
        if names is not OUTCOMES:  # one that is null says that the outcome is unknown
            return next((row[name] for name in names if name in row), first_value(row, names))
        chosen = chosen or next((name for name in OUTCOMES if _each_outcome(row.get(name))), "")
        if chosen:
            file.outcomes[chosen] = None
        if chosen and _each_outcome(row.get(chosen)):
            return row[chosen]
        for name in (chosen,) if chosen else OUTCOMES:
            unread = f"column {name!r} is no outcome: must be true, false or a finite number"
            if values.known(row.get(name)) not in (None, []) and not any(unread in note for note in file.notes):
                file.notes.append(f"{where}: {unread}, not {row[name]!r:.60}")
        return None

    return read


def _outcomes(
    file: File, where: str, row: Row, response: Any, texts: Sequence[Any], outcome: Any
) -> Sequence[float | None]:
    """The outcome of each response, from the row or else from the object of the response.

    If a row has several responses, a single outcome is left out: it does not name its response.
    """
    if file.names["outcome"] is OUTCOMES and values.known(outcome) is None:
        objects = [item if isinstance(item, Mapping) else {} for item in texts]
        if name := next((name for name in OUTCOMES if any(values.is_outcome(item.get(name)) for item in objects)), ""):
            outcome = [item.get(name) for item in objects]
            file.outcomes[f"{name} of each response"] = None
    if not isinstance(outcome, list):
        if len(texts) > 1 and values.known(outcome) is not None:
            _note(file, "", "one outcome for several responses, which does not say whose it is: left out")
        outcome = [outcome if len(texts) == 1 else None] * len(texts)
    if len(outcome) != len(texts):
        column = next((name for name in file.names["response"] if value_at(row, name) is response), "messages")
        raise DiverError(
            f"{where}: column {column!r} has {counted(len(texts), 'response')}, but there are {len(outcome)} outcomes; "
            "a chat is one response; write several as a list of texts or chats, or give --response"
        )
    return [values.outcome(value, where) for value in outcome]


def _ids(row: Row, options: Any) -> tuple[dict[str, int], str]:
    """The hashes of a row's ids by column, and the column that certainly identifies problems.

    Ids of problems come first, then other ids, then both without the number at their end. Images, options and contexts
    count as ids.
    """
    tables = present(row, COLUMNS["inside"])
    fields = {**row, **{f"{table}.{name}": value for table in tables for name, value in _inside(row, table).items()}}
    columns = id_columns(tuple(fields))
    id_texts = {name: value for name in columns if (value := _id(fields[name], rank_of_id(name))) is not None}
    shorter = {
        f"{name} without the number at its end": match[1]
        for name, value in id_texts.items()
        if (match := (SESSION.fullmatch(value) if name == "uid" else None) or NUMBERED.fullmatch(value))
    }
    source = _first(row, COLUMNS["benchmark"])  # two benchmarks may number their problems alike
    source = source if _is_name(source) else ""
    ids = {name: hash((source, value)) for name, value in (id_texts | shorter).items()}
    certain = next((name for name, others in COLUMNS["certain"].items() if name in ids and row.keys() >= {*others}), "")
    for name in present(row, COLUMNS["images"]):
        if (images := value_at(row, name)) and isinstance(images, str | bytes | list | Mapping):
            ids[name] = hash(json.dumps(images, default=str))
            single = not isinstance(images, list) or len(images) == 1  # several images may come from tools
            certain = certain or name * single
    if options:  # the order of options does not tell problems apart
        texts = options.values() if isinstance(options, Mapping) else options
        ids["options"] = hash(json.dumps(sorted(map(str, texts))))
        certain = certain or "options"
    contexts = {
        name: hash(json.dumps(row[name], default=str))
        for name in present(row, BESIDE)
        if values.known(row[name]) not in (None, [], {})
    }
    return ids | contexts, certain


def _id(value: Any, rank: int) -> str | None:
    """An id as text. The id of a problem may have several parts, or be a fraction or a date."""
    plain = values.identity(value)
    if plain is not None:
        return str(plain)
    composed = rank == 0 and not values.is_missing(value) and not isinstance(value, str | bool)
    return json.dumps(value, sort_keys=True, default=str) if composed else None


def _inside(row: Row, column: str) -> Mapping[str, Any]:
    """The fields of a column, which may be written as JSON, as verifiers' environments write `info`."""
    value = row.get(column)
    if isinstance(value, str) and value.startswith("{") and len(value) <= LONGEST_JSON:
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    return value if isinstance(value, Mapping) else {}


@lru_cache(10_000)  # rows with the same columns share the result
def id_columns(columns: tuple[str, ...], rows_first: bool = False) -> tuple[str, ...]:
    """The columns that may number problems, then those that may number rows; or the other way round."""
    return tuple(sorted((name for name in columns if rank_of_id(name) < 2), key=rank_of_id, reverse=rows_first))


@lru_cache(1000)
def rank_of_id(name: str) -> int:
    """0 for a column that numbers problems, 1 for one that may number rows instead, 2 for others."""
    name = name.rpartition(".")[2]
    return next((rank for rank, kind in enumerate((PROBLEM_ID, ROW_ID)) if kind.fullmatch(name)), 2)


def _problem(row: Row, value: Any, options: Any, where: str, file: File) -> Problem:
    cells = {name: _first(row, file.names[name]) for name in ("answer", "step", "by", "grader", "source", "id")}
    if file.names["source"] is SOURCES:
        # The source is needed if the problem is a number or an id, because another benchmark may have the same one.
        column = _column(row, file.names["problem"])
        number = isinstance(value, int) or (isinstance(value, str) and value.isdecimal())
        if not (number or column == "id" or column.endswith(("_id", ".id"))) or not _is_name(cells["source"]):
            cells["source"] = None
    if isinstance(cells["answer"], list) and len(cells["answer"]) == 1:
        cells["answer"] = cells["answer"][0]
    if file.names["answer"] is NAMES["answer"] and _column(row, file.names["answer"]) == "answer":
        for name in present(row, REFERENCES):
            references = _answers(row[name])
            is_reference = references and (name != "label" or all(map(LABEL.fullmatch, references)))
            if is_reference and references.isdisjoint(_answers(cells["answer"])):
                note = f"is the reference answer, and column {name!r} says something else; --answer {name} reads that"
                _note(file, where, f"column 'answer' {note}", note)
    texts = {name: str(cell) for name, cell in cells.items() if cell is not None}
    if len(texts.get("by", "")) > LONGEST_NAME:
        raise DiverError(
            f"{where}: --by names a column of long texts ({texts['by']!r:.40}...); name one that says whose a "
            "response is"
        )
    step, answer = values.integer(cells["step"]), cells["answer"]
    if step is None and cells["step"] is not None:  # without a step, groups of different steps would be one
        note = "is no whole number, so no step"
        if file.names["step"] is not NAMES["step"]:
            raise DiverError(f"{where}: --step {file.names['step'][0]}: {cells['step']!r:.60} {note}")
        _note(file, where, f"{cells['step']!r:.60} {note}", note)
    meta = {
        "step": file.step if step is None else step,
        "by": texts.get("by"),
        "grader": texts.get("grader"),
        "options": options,
        # only grading needs the answer, and reports its absence
        "accepted": _first(row, file.names["accepted"]),
        "answer_kind": type(answer).__name__ if isinstance(answer, list | dict) else None,
    }
    meta = {name: cell for name, cell in meta.items() if cell is not None}
    prompt = values.prompt(value, where)
    return Problem(texts.get("id", ""), prompt, texts.get("answer", ""), texts.get("source", ""), meta=meta)


def _rollouts(
    row: Row, scored: Sequence[tuple[Any, float | None]], several: bool, file: File, where: str
) -> Iterator[Rollout]:
    """The rollouts of a row, with the further columns that describe them.

    If the row may have `several` responses, a list has one value for each. Any other value needs a single response.
    """
    described = {name: first_value(row, file.names[name]) for name in DESCRIBED}
    number = re.search(r"\d+\Z", where)
    name = _first(row, id_columns(tuple(row), rows_first=True), values.identity)
    place = (str(file.path), int(number[0]) if number else 0, name)
    for index, (response, outcome) in enumerate(scored):
        details = {
            name: value[index] if several and isinstance(value, list) and len(value) == len(scored)
            else value if len(scored) == 1 else None
            for name, value in described.items()
        }  # fmt: skip
        rollout = Rollout(
            values.text(response, where),
            turns=values.turns(response, where),
            index=index,
            reward=None if outcome is None else Reward(outcome),
            entropy=values.mean_of(details["entropy"]),
            logprobs=values.by_token(details["logprobs"]),
            num_tokens=values.integer(details["length"]),
            truncated=any(map(is_cut_off, [details["truncated"], *values.finish_reasons(response)])),
            advantage=values.mean_of(details["advantage"]),
            place=place,
        )
        yield rollout.replace(key=action_key(rollout)) if rollout.turns and rollout.actions else rollout


def _first(row: Row, names: Sequence[str], read: Callable[[Any], Any] = values.known) -> Any:
    """The first value that is not empty, converted by `read`; None if all are empty."""
    return next((value for name in present(row, names) if (value := read(value_at(row, name))) is not None), None)


def _column(row: Row, names: Sequence[str]) -> str:
    """The first of the columns that is not empty; "" if all are."""
    return next((name for name in present(row, names) if values.known(value_at(row, name)) is not None), "")


def _answers(value: Any) -> set[str]:
    """The final answers of a reference or of a list of references."""
    references = map(values.known, value if isinstance(value, list) else [value])
    return {final_answer(str(reference)) for reference in references if reference is not None}


def _is_name(value: Any) -> bool:
    """Whether a value is a name: neither a table nor the text of a task."""
    return isinstance(value, str | int) and len(str(value)) <= LONGEST_NAME


def _note(file: File, where: str, text: str, kind: str = "") -> None:
    """Add a note once per file and `kind`, for the first row."""
    place = where or str(file.path)
    if not any(note.startswith(str(file.path)) and note.endswith(kind or text) for note in file.notes):
        file.notes.append(f"{place}: {text}")


def _each_outcome(value: Any) -> bool:
    if isinstance(value, list):
        outcomes = [outcome for outcome in map(values.known, value) if outcome is not None]
        return all(map(values.is_outcome, outcomes)) and bool(outcomes)
    return values.is_outcome(values.known(value))
