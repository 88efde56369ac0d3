"""Where problems come from: JSONL, parquet in verl's or TRL's layout, or a data set on the Hugging Face hub.

A row gives a prompt (a question or chat messages) and an answer, under names that are tried in order:

| layout | prompt | answer |
|---|---|---|
| ours | `problem` | `answer` |
| GSM8K | `question` | `answer`, what follows `####` |
| TRL | `prompt` (text or messages) | `solution`, else `answer` |
| verl | `prompt` (messages) | `reward_model.ground_truth` |

`columns` names them where they are called otherwise, with a dot for a field inside a column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from diver.config.data import Source, Verifier
from diver.data import hub
from diver.data.options import LETTERS, listed_options
from diver.io.readers import READERS, Rows
from diver.types import DiverError, Problem

PROMPTS = ("problem", "question", "prompt", "messages")
ANSWERS = ("answer", "solution", "reward_model.ground_truth", "ground_truth")
SOURCES = ("source", "data_source")
NAMES = ("prompt", "answer", "id", "source")


@dataclass(frozen=True)
class Problems(Sequence[Problem]):
    """The problems, each once, in the order of the source.

    `folded` counts rows that repeated an earlier prompt and answer. `conflicting` counts rows that repeated an earlier
    prompt with another answer: the first answer is kept, the caller should say so. `revision` is the hub's commit.
    """

    problems: tuple[Problem, ...]
    origin: str
    folded: int = 0
    conflicting: int = 0
    revision: str | None = None

    def __len__(self) -> int:
        return len(self.problems)

    def __getitem__(self, index: Any) -> Any:
        return self.problems[index]

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    @property
    def notes(self) -> list[str]:
        """What to tell at the start of a run; empty where there is nothing odd."""
        notes = [f"{self.origin}: revision {self.revision}"] if self.revision else []
        if self.folded:
            notes.append(f"{self.origin}: {self.folded} repeated rows folded, {len(self)} problems left")
        if self.conflicting:
            notes.append(
                f"{self.origin}: {self.conflicting} rows repeat a prompt with another answer; the first is kept"
            )
        return notes


def load_problems(source: Source | str) -> Problems:
    """Read, map and fold the rows of a source. DiverError names the file and the line (or row) that cannot be used."""
    source = Source(path=source) if isinstance(source, str) else source
    _check(source)
    path = Path(source.path).expanduser()
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in READERS)
        if not files:
            raise DiverError(f"{path}: no {' or '.join(READERS)} file in this folder")
        return fold((row for file in files for row in _read(file)), source, origin=str(path))
    if path.is_file():
        return fold(_read(path), source, origin=str(path))
    if path.suffix or not re.fullmatch(r"[\w.-]+/[\w.-]+", source.path):
        raise DiverError(f"{source.path}: no such file or folder, and not the id of a data set on the hub (owner/name)")
    rows, revision = from_hub(source)
    return fold(rows, source, origin=source.path, revision=revision)


def _check(source: Source) -> None:
    if not source.path:
        raise DiverError(
            "path: name a .jsonl or .parquet file, a folder of them, or a data set on the hub (owner/name)"
        )
    if source.verifier not in get_args(Verifier):
        raise DiverError(f"verifier: unknown {source.verifier!r}; choose one of {', '.join(get_args(Verifier))}")
    if unknown := set(source.columns) - set(NAMES):
        raise DiverError(f"columns: unknown {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    if source.limit is not None and source.limit < 1:
        raise DiverError(f"limit: must be at least 1, is {source.limit}")


# ---- rows: (where it stands, the row) ----------------------------------------------------------------------------------


def _read(path: Path) -> Rows:
    if path.suffix not in READERS:
        raise DiverError(f"{path}: a file must be {' or '.join(READERS)}, not {path.suffix or 'without suffix'}")
    return READERS[path.suffix](path)


def from_hub(source: Source) -> tuple[Rows, str | None]:
    try:
        import datasets
    except ImportError as error:
        raise DiverError(f"{source.path}: a data set on the hub needs `pip install 'diver-rl[train]'`") from error
    revision = hub.newest_commit(source.path, "dataset", source.revision)
    try:
        table = datasets.load_dataset(
            source.path, source.config, split=source.split, revision=revision or source.revision
        )
    except Exception as error:  # the hub and `datasets` raise some twenty kinds
        reason = "; ".join(hub.one_line(e) for e in (error, error.__cause__) if e)
        if revision is None and isinstance(error, ConnectionError):
            reason = "HF_HUB_OFFLINE is set, and it was not downloaded before"
        raise DiverError(
            f"{source.path} (config {source.config}, split {source.split!r}): {reason}; check config and split, or give a "
            "local .jsonl or .parquet file"
        ) from error
    return hub_rows(table, source.path), revision


def hub_rows(table: Iterable[Mapping[str, Any]], name: str) -> Rows:
    """The rows of a `datasets.Dataset`."""
    return ((f"{name}, row {number}", row) for number, row in enumerate(table, start=1))


# ---- from a row to a problem -------------------------------------------------------------------------------------------


def fold(rows: Rows, source: Source, origin: str, revision: str | None = None) -> Problems:
    """The problems of the rows, repeated ones once."""
    found: dict[str, Problem] = {}
    folded = conflicting = 0
    for where, row in rows:
        problem = to_problem(row, where, source, number=len(found) + folded + conflicting)
        key = problem.prompt if isinstance(problem.prompt, str) else json.dumps([dict(m) for m in problem.prompt])
        if key not in found:
            if source.limit is not None and len(found) == source.limit:
                break
            found[key] = problem
        elif found[key].answer == problem.answer:
            folded += 1
        else:
            conflicting += 1
    if not found:
        raise DiverError(f"{origin}: empty, not one problem")
    problems = _with_unique_ids(list(found.values()))
    return Problems(problems, origin, folded, conflicting, revision)


def _with_unique_ids(problems: list[Problem]) -> tuple[Problem, ...]:
    """Ids name rollouts in the run folder: where a source repeats one, the problem's number is appended."""
    seen: set[str] = set()
    unique = []
    for number, problem in enumerate(problems):
        if problem.id in seen:
            problem = replace(problem, id=f"{problem.id}#{number}")
        seen.add(problem.id)
        unique.append(problem)
    return tuple(unique)


def to_problem(row: Mapping[str, Any], where: str, source: Source, number: int = 0) -> Problem:
    """One row as a problem; `where` begins the error if that cannot be."""
    prompt = _prompt(_column(row, "prompt", PROMPTS, source, where), where)
    raw = _column(row, "answer", ANSWERS, source, where)
    if isinstance(raw, list) and len(raw) == 1:
        raw = raw[0]
    if not isinstance(raw, str | int | float) or isinstance(raw, bool) or not str(raw).strip():
        raise DiverError(f"{where}: the answer must be text or a number, not {raw!r:.60}")
    name = str(_optional(row, "source", SOURCES, source) or "")
    text = prompt if isinstance(prompt, str) else str(prompt[-1]["content"])
    gsm8k = re.search(r"####\s*(\S[^\n]*)\s*$", str(raw))
    answer = gsm8k[1].strip() if gsm8k else str(raw).strip()
    verifier: str = source.verifier
    if verifier == "auto":
        verifier = _auto_verifier(text, answer, is_gsm8k=bool(gsm8k) or "gsm8k" in f"{name} {source.path}".lower())
    meta = row.get("meta") or row.get("extra_info") or {}
    meta = dict(meta) if isinstance(meta, Mapping) else {"meta": meta}
    if "options" in row:
        meta["options"] = row["options"]
    identity = _optional(row, "id", ("id", "extra_info.index"), source)
    return Problem(
        id=str(identity) if identity is not None else f"{Path(source.path).stem}-{number}",
        prompt=prompt,
        answer=answer,
        source=name or Path(source.path).stem,
        verifier=verifier,
        meta=meta,
    )


def _auto_verifier(prompt: str, answer: str, is_gsm8k: bool) -> str:
    if is_gsm8k:
        return "gsm8k"
    # A number may as well be the answer to a question with a numbered list in it.
    return "choice" if answer in {*LETTERS} and answer in listed_options(prompt) else "math"


def _prompt(value: Any, where: str) -> str | tuple[Mapping[str, str], ...]:
    if isinstance(value, str) and value.strip():
        return value
    if (
        isinstance(value, list)
        and value
        and all(isinstance(m, Mapping) and {"role", "content"} <= m.keys() for m in value)
    ):
        return tuple({"role": str(m["role"]), "content": str(m["content"])} for m in value)
    raise DiverError(f"{where}: the prompt must be text or a list of messages with role and content, not {value!r:.60}")


def _column(row: Mapping[str, Any], name: str, known: Sequence[str], source: Source, where: str) -> Any:
    tried = (source.columns[name],) if name in source.columns else known
    value = first_value(row, tried)
    if value is None:
        raise DiverError(
            f"{where}: no {name}: found {', '.join(row) or 'nothing'}; accepted {', '.join(tried)} "
            f"(columns.{name} names another)"
        )
    return value


def _optional(row: Mapping[str, Any], name: str, known: Sequence[str], source: Source) -> Any:
    return first_value(row, (source.columns[name],) if name in source.columns else known)


def first_value(row: Mapping[str, Any], paths: Iterable[str]) -> Any:
    """The value at the first of the dotted paths that the row has; None where it has none."""
    return next((value for path in paths if (value := value_at(row, path)) is not None), None)


def value_at(row: Mapping[str, Any], path: str) -> Any:
    """The value of a column, or of a field inside one: `reward.outcome`. None where there is none."""
    if path in row:
        return row[path]
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
