"""The layouts: what each trainer and each evaluation calls the parts of a rollout. The first row of a file decides.

A new layout is a line of `LAYOUTS`; rows that are nested are first made plain by a function of `unpack`.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from diver.core import rollout_rows
from diver.core.jsonl import read_jsonl
from diver.core.types import DiverError, Grade, Group, Problem, Reward, Rollout
from diver.look.read import unpack, values
from diver.look.read.columns import NAMES, NO_OUTCOMES, ROW_NUMBER, SOURCES, Columns, File, Layout, Part, Row
from diver.look.read.named import named_columns, rank_of_id


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


def trl(file: File) -> Iterator[Part]:
    """The outcome is one of OUTCOMES, or the only column of numbers."""
    where, first = next(file.rows)
    file = file._replace(rows=chain([(where, first)], file.rows))
    if any(name in first for name in file.names["outcome"]):
        return named_columns(file)
    numbers = [
        k for k, v in first.items()
        if values.is_number(v) and k not in NO_OUTCOMES and rank_of_id(k) == 2 and not ROW_NUMBER.fullmatch(k)
    ]  # fmt: skip
    name = numbers if len(numbers) == 1 else []
    ambiguous = f"the outcome column is ambiguous; --outcome names one of {', '.join(first)}"
    if not name and not any(note.endswith(ambiguous) for note in file.notes):  # of all files of a folder one note
        file.notes.append(f"{file.path}: {ambiguous}")
    file.outcomes.update(dict.fromkeys(name))
    return named_columns(file._replace(names={**file.names, "outcome": name}))


def lm_eval(file: File) -> Iterator[Part]:
    """lm-eval repeats the responses of a document for each of its filters: the first filter is read.

    Documents are numbered within a task, which only the name of the file says.
    """
    named = re.fullmatch(r"samples_(.+)_\d{4}-\d\d-\d\d(?:T[\d.-]+)?", file.path.stem)
    task = named[1] if named else ""
    where_first, first = next(file.rows)
    name = first.get("filter")  # versions before 0.4.1 have none
    repeated = f"{file.path}: the rows of filter {name!r}; the others repeat their responses"

    def of_filter() -> Iterator[tuple[str, Row]]:
        for where, row in chain([(where_first, first)], file.rows):
            if row.get("filter") == name:
                yield where, {**row, "source": task}
            elif repeated not in file.notes:
                file.notes.append(repeated)

    return named_columns(file._replace(rows=of_filter()))


def inspect_ai(file: File) -> Iterator[Part]:
    """Samples that failed are left out, as inspect_ai leaves them out of its scores, and counted in a note."""
    failed = 0

    def scored() -> Iterator[tuple[str, Row]]:
        nonlocal failed
        for where, row in file.rows:
            if row["failed"]:
                failed += 1
            else:
                yield where, row

    yield from named_columns(file._replace(rows=scored()))
    if failed:
        are = "sample that failed is" if failed == 1 else "samples that failed are"
        file.notes.append(f"{file.path}: {failed} {are} left out")


TRAIN, EVAL, NAMED = "diver train", "diver eval", "named columns"
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
            "group": ("session",),
        },
        unpack.verl,
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
        read=inspect_ai,
    ),
    "lm-eval": Layout(
        frozenset({"doc_id", "arguments", "resps"}),
        {"outcome": ("score",), "group": ("group",), "id": ("id",), "source": ("source",)},
        unpack.lm_eval,
        read=lm_eval,
    ),
    "GAOKAO-Bench": Layout(
        frozenset({"question", "score", "standard_answer", "model_output"}),
        # its `score` is what the question is worth
        {"response": ("model_output",), "outcome": (), "answer": ("standard_answer",)},
    ),
    NAMED: Layout(frozenset(), {"source": SOURCES}, numbered_by_word=True),
}  # fmt: skip


def parts(name: str, file: File, columns: Columns) -> Iterator[Part]:
    """The responses of a file of the layout `name`; `columns` are those that the user names."""
    layout = LAYOUTS[name]
    given = {key: path for key, path in asdict(columns).items() if path}
    if given and name in (TRAIN, EVAL):
        raise DiverError(
            f"{file.path}: the columns of {name} are always called the same; omit --{next(iter(given))}, or name "
            "--problem and --response, too, to read other columns"
        )
    heads = {path: path.partition(".")[0] for path in given.values()}
    absent = {key: path for key, path in given.items() if key not in ("problem", "response")}
    found: list[Row] = []
    nested = file.rows

    def plain_rows() -> Iterator[tuple[str, Row]]:
        for where, row in nested:
            if missing := layout.required - row.keys():
                raise DiverError(f"{where}: has no {', '.join(sorted(missing))}, which the first row of {name} has")
            found[:] = found or [row]
            rows = [row]
            if layout.plain is not None:
                kept = {column: row[column] for column in heads.values() if column in row}
                try:
                    rows = [{**kept, **made} for made in layout.plain(where, row)]
                except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
                    raise DiverError(f"{where}: not a row of {name} ({type(error).__name__}: {error})") from error
            for key in [k for k, path in absent.items() if any({path, heads[path]} & r.keys() for r in (row, *rows))]:
                del absent[key]
            yield from ((where, one) for one in rows)

    names = {**NAMES, **layout.names, **{key: (path,) for key, path in given.items()}}
    file = file._replace(rows=plain_rows(), names=names, problem_is_named="problem" in given)
    yield from (layout.read or named_columns)(file)
    if absent and found:  # a column named by mistake is an error, not one without values
        key, column = next(iter(absent.items()))
        raise DiverError(f"{file.path}: no column {column!r}, which --{key} names: found {', '.join(found[0])}")
