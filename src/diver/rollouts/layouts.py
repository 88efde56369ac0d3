"""The layouts: what each trainer and each evaluation calls the parts of a rollout. The first row of a file decides.

A new layout is a line of `LAYOUTS`; rows that are nested are first made plain by a function of `unpack`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from diver.io import rollout_rows
from diver.io.jsonl import read_jsonl
from diver.rollouts import unpack, values
from diver.rollouts.columns import NAMES, SOURCES, Columns, File, Layout, Part, Row, named_columns
from diver.types import DiverError, Grade, Group, Problem, Reward, Rollout


def diver_train(file: File) -> Iterator[Part]:
    for i, group in enumerate(rollout_rows.groups_from_rows(file.rows)):
        yield Part(f"{file.path}:{i}", group)


def diver_eval(file: File) -> Iterator[Part]:
    """Generations, with the grades that stand beside them in a result folder."""
    in_folder, rows = file.path.parent.name == "generations", list(file.rows)
    grades = _stored_grades(file, rows)
    for where, row in rows:
        stored = row.get("grade") if grades is None else grades.get((row["problem"], row["sample"]))
        grade = rollout_rows.read_grade(stored, where)
        scored = grade not in (None, Grade.TIMEOUT, Grade.ERROR)
        rollout = Rollout(
            values.text(row["response"], where),
            num_tokens=row["tokens"] if isinstance(row.get("tokens"), int) else None,
            truncated=bool(row["truncated"]),
            grade=grade,
            reward=Reward(float(grade is Grade.CORRECT)) if scored else None,
        )
        source = file.path.stem if in_folder else ""  # outside of its folder a file may be called anything
        problem = Problem(str(row["problem"]), "", "", source=source)
        yield Part(f"{source} {row['key']} {problem.id}", Group(problem, (rollout,)))


def _stored_grades(file: File, rows: Sequence[tuple[str, Row]]) -> dict[tuple[Any, Any], Any] | None:
    files = sorted((file.path.parent.parent / "grades").glob(f"{file.path.stem}.*.jsonl"))
    if not files:
        return None
    if len({(row["problem"], row["sample"]) for _, row in rows}) < len(rows):
        file.notes.append(f"{file.path}: generations of several settings; whose the grades are is not known: left out")
        return None
    if len(files) > 1:
        file.notes.append(f"{file.path}: grades from {files[0].name}, the first of {len(files)}")
    return {(row["problem"], row["sample"]): row["grade"] for _, row in read_jsonl(files[0], appended=True)}


def verl(file: File) -> Iterator[Part]:
    """The group of a `uid` is what stands before the numbers of the rollout and of the output."""

    def session(row: Row) -> Row:
        found = re.fullmatch(r"(.+)_\d+_\d+", str(row.get("uid", "")))
        return {**row, "uid": found[1] if found else None}

    return named_columns(file._replace(rows=((where, session(row)) for where, row in file.rows)))


def trl(file: File) -> Iterator[Part]:
    """The outcome is one of OUTCOMES, or the only column of numbers."""
    where, first = next(file.rows)
    known = any(name in first for name in file.names["outcome"])
    numbers = [k for k, v in first.items() if k not in ("step", "advantage") and values.is_number(v)]
    name = () if known or len(numbers) != 1 else (numbers[0],)
    if not known and not name:
        ambiguous = f"the outcome column is ambiguous; --outcome names one of {', '.join(first)}"
        if not any(note.endswith(ambiguous) for note in file.notes):  # of all files of a folder one note
            file.notes.append(f"{file.path}: {ambiguous}")
    names = {**file.names, "outcome": name} if not known else file.names
    file.outcomes.update(dict.fromkeys(name))
    return named_columns(file._replace(names=names, rows=chain([(where, first)], file.rows)))


def lm_eval(file: File) -> Iterator[Part]:
    """lm-eval repeats the responses of a document for each of its filters: the first filter is read.

    Documents are numbered within a task, which only the name of the file says.
    """
    named = re.fullmatch(r"samples_(.+)_\d{4}-\d\d-\d\d(?:T[\d.-]+)?", file.path.stem)
    task = named[1] if named else ""
    where_first, first = next(file.rows)
    repeated = f"{file.path}: the rows of filter {first['filter']!r}; the others repeat their responses"

    def of_filter() -> Iterator[tuple[str, Row]]:
        for where, row in chain([(where_first, first)], file.rows):
            if row["filter"] == first["filter"]:
                yield where, {**row, "source": task}
            elif repeated not in file.notes:
                file.notes.append(repeated)

    return named_columns(file._replace(rows=of_filter()))


TRAIN, EVAL = "diver train", "diver eval"
LAYOUTS = {
    TRAIN: Layout(rollout_rows.REQUIRED, read=diver_train),
    EVAL: Layout(frozenset({"key", "problem", "sample", "response", "truncated"}), read=diver_eval),
    "diver grade": Layout(
        frozenset({"problem", "prompt", "index", "response", "label", "grade", "grader", "extracted"}),
        {"problem": ("prompt",), "id": ("problem",), "source": ("source",), "by": ("by",), "grader": ("grader",)},
    ),
    "verl": Layout(
        frozenset({"input", "output", "score"}),
        {
            "problem": ("input",), "response": ("output",), "outcome": ("acc", "score"), "answer": ("gts",),
            "group": ("uid",),
        },
        read=verl,
    ),
    "TRL": Layout(
        frozenset({"prompt", "completion", "advantage"}),
        {"problem": ("prompt",), "response": ("completion",)},
        read=trl,
        numbered=True,
        repeats=True,
    ),
    "slime": Layout(
        frozenset({"group_index", "prompt", "response", "label", "reward", "status"}),
        {
            "problem": ("prompt",), "response": ("response",), "outcome": ("reward",), "answer": ("label",),
            "group": ("group_index",), "logprobs": ("rollout_log_probs",), "length": ("response_length",),
        },
        unpack.slime,
    ),
    "SkyRL": Layout(
        frozenset({"input_prompt", "output_response", "score", "stop_reason", "env_extras"}),
        {
            "problem": ("input_prompt",), "response": ("output_response",), "outcome": ("score",),
            "answer": ("env_extras.reward_model.ground_truth", "env_extras.reward_spec.ground_truth"),
            "source": ("data_source",),
        },
        unpack.skyrl,
        numbered=True,
    ),
    "NeMo-RL": Layout(
        frozenset({"content", "rewards", "idx"}),
        {"outcome": ("reward",), "length": ("length",)},
        unpack.nemo_rl,
        numbered=True,
    ),
    "prime-rl": Layout(
        frozenset({"env", "task", "traces"}),
        {"outcome": ("reward",), "group": ("group",), "source": ("source",)},
        unpack.prime_rl,
        numbered=True,
    ),
    "tinker-cookbook": Layout(
        frozenset({"prompt", "response", "correct", "reference_answer"}),
        {"answer": ("reference_answer",)},
        numbered=True,
    ),
    "inspect_ai": Layout(
        frozenset({"id", "epoch", "input", "target", "output", "scores"}),
        {"outcome": ("score",), "id": ("id",), "group": ("id",), "by": ("model",), "source": ("task",)},
        unpack.inspect_ai,
    ),
    "lm-eval": Layout(
        frozenset({"doc_id", "arguments", "resps"}),
        {"outcome": ("score",), "group": ("group",), "id": ("id",), "source": ("source",)},
        unpack.lm_eval,
        read=lm_eval,
    ),
    "named columns": Layout(frozenset(), {"source": SOURCES}, numbered_by_word=True),
}  # fmt: skip


def layout_of(row: Row, columns: Columns) -> str:
    """The name of the first layout whose columns the row has; named columns where the caller names them."""
    if columns.problem or columns.response:
        return "named columns"
    return next(name for name, layout in LAYOUTS.items() if row.keys() >= layout.required)


def parts(name: str, file: File, columns: Columns) -> Iterator[Part]:
    """The responses of a file of the layout `name`; `columns` are those that the user names."""
    layout = LAYOUTS[name]
    if layout.read in (diver_train, diver_eval):
        if given := [key for key, value in asdict(columns).items() if value]:
            raise DiverError(
                f"{file.path}: the columns of {name} are always called the same; omit --{given[0]}, or name --problem and "
                "--response, too, to read other columns"
            )
        yield from layout.read(file._replace(rows=_whole(file.rows, name)))
        return
    named = {key: (value,) for key, value in asdict(columns).items() if value}
    file = file._replace(names={**NAMES, **layout.names, **named})
    absent = {key: value for key, (value,) in named.items() if key not in ("problem", "response")}
    first: list[Row] = []

    def seen(rows: Iterator[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
        for where, row in rows:
            first.append(row) if not first else None
            for key in [k for k, path in absent.items() if path in row or path.partition(".")[0] in row]:
                del absent[key]
            yield where, row

    rows = seen(_whole(file.rows, name))
    if layout.plain is not None:
        unpacked, nested = layout.plain, rows
        chosen = {path.partition(".")[0] for (path,) in named.values()}
        rows = seen(
            (where, {**{column: row[column] for column in chosen & row.keys()}, **made})
            for where, row in nested
            for made in _unpacked(unpacked, where, row, name)
        )
    yield from (layout.read or named_columns)(file._replace(rows=rows))
    if absent and first:  # a column named by mistake is an error, not one without values
        key, column = next(iter(absent.items()))
        raise DiverError(f"{file.path}: no column {column!r}, which --{key} names: found {', '.join(first[0])}")


def _unpacked(unpack: Callable[[str, Row], Iterator[Row]], where: str, row: Row, name: str) -> list[Row]:
    try:
        return list(unpack(where, row))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise DiverError(f"{where}: not a row of {name} ({type(error).__name__}: {error})") from error


def _whole(rows: Iterator[tuple[str, Row]], name: str) -> Iterator[tuple[str, Row]]:
    required = LAYOUTS[name].required
    for where, row in rows:
        if missing := required - row.keys():
            raise DiverError(f"{where}: has no {', '.join(sorted(missing))}, which the first row of {name} has")
        yield where, row
