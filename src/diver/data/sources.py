"""Where problems come from: JSONL, parquet in verl's or TRL's layout, a data set on the Hugging Face hub, or a function.

A row gives a prompt (a question or chat messages) and an answer, under names that are tried in order:

| layout | prompt | answer |
|---|---|---|
| ours | `problem` | `answer` |
| GSM8K | `question` | `answer`, what follows `####` |
| TRL | `prompt` (text or messages) | `solution`, else `answer` |
| verl | `prompt` (messages) | `reward_model.ground_truth` |

`columns` names them where they are called otherwise, with a dot for a field inside a column. A function of one's own
("my_module:my_function", without arguments) gives such rows as dicts, or `Problem`s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diver.config.data import Source
from diver.data.rows import Adapt, Rows, adapted, read_rows
from diver.types import DiverError, Problem
from diver.verify import get_grader
from diver.verify.options import LETTERS, listed

PROMPTS = ("problem", "question", "prompt", "messages")
ANSWERS = ("answer", "solution", "reward_model.ground_truth", "ground_truth")
SOURCES = ("source", "data_source")
NAMES = ("prompt", "answer", "id", "source")


@dataclass(frozen=True)
class Problems(Sequence[Problem]):
    """The problems, each once, in the order of the source.

    `duplicates` counts rows that repeated an earlier prompt and answer. `conflicting` counts rows that repeated an earlier
    prompt with another answer: the first answer is kept. `revision` is the hub's commit.
    """

    problems: tuple[Problem, ...]
    origin: str
    duplicates: int = 0
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
        """For the log at the start of a run; empty where there is nothing unusual."""
        notes = [f"{self.origin}: revision {self.revision}"] if self.revision else []
        if self.duplicates:
            notes.append(f"{self.origin}: {self.duplicates} duplicate rows left out, {len(self)} problems remain")
        if self.conflicting:
            notes.append(
                f"{self.origin}: {self.conflicting} rows repeat a prompt with another answer; the first is kept"
            )
        return notes


def load_problems(source: Source | str, key: str = "", name: str = "", adapt: Adapt | None = None) -> Problems:
    """The problems of a source, each once. DiverError names the setting, or the file and line (or row), that is wrong.

    `key` is the dotted key of the source in the recipe; `name` stands in ids for the path; `adapt` turns a row of the
    source into one of ours.
    """
    source = Source(path=source) if isinstance(source, str) else source
    _check(source, f"{key}." if key else "")
    rows, revision = read_rows(source, f"{key}.path" if key else "path")
    if adapt:
        rows = adapted(rows, adapt, name)
    named = replace(source, path=name) if name else source
    problems = deduplicate(rows, named, origin=source.path, revision=revision)
    for verifier in {problem.verifier for problem in problems}:
        get_grader(verifier, f"{key}.verifier" if key else "verifier")
    return problems


def _check(source: Source, prefix: str) -> None:
    if not source.path:
        raise DiverError(
            f"{prefix}path: name a .jsonl or .parquet file, a folder of them, or a data set on the hub (owner/name)"
        )
    if source.verifier != "auto":
        get_grader(source.verifier, f"{prefix}verifier")
    if unknown := set(source.columns) - set(NAMES):
        raise DiverError(f"{prefix}columns: unknown {', '.join(sorted(unknown))}; choose from {', '.join(NAMES)}")
    if source.limit is not None and source.limit < 1:
        raise DiverError(f"{prefix}limit: must be at least 1, is {source.limit}")


# ---- from a row to a problem -------------------------------------------------------------------------------------------


def deduplicate(rows: Rows, source: Source, origin: str, revision: str | None = None) -> Problems:
    """The problems of the rows, repeated ones once."""
    problems_by_prompt: dict[str, Problem] = {}
    duplicates = conflicting = 0
    for where, row in rows:
        problem = to_problem(row, where, source, number=len(problems_by_prompt) + duplicates + conflicting)
        key = problem.prompt if isinstance(problem.prompt, str) else json.dumps([dict(m) for m in problem.prompt])
        if key not in problems_by_prompt:
            if source.limit is not None and len(problems_by_prompt) == source.limit:
                break
            problems_by_prompt[key] = problem
        elif problems_by_prompt[key].answer == problem.answer:
            duplicates += 1
        else:
            conflicting += 1
    if not problems_by_prompt:
        raise DiverError(f"{origin}: empty, not one problem")
    problems = _with_unique_ids(list(problems_by_prompt.values()))
    return Problems(problems, origin, duplicates, conflicting, revision)


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


def to_problem(row: Mapping[str, Any] | Problem, where: str, source: Source, number: int = 0) -> Problem:
    """One row as a problem; `where` begins the error if that cannot be."""
    if isinstance(row, Problem):
        return with_verifier(row, source.verifier)
    prompt = _prompt(_value(row, "prompt", PROMPTS, source, where), where)
    raw = _value(row, "answer", ANSWERS, source, where)
    if isinstance(raw, list) and len(raw) == 1:
        raw = raw[0]
    if not isinstance(raw, str | int | float) or isinstance(raw, bool) or not str(raw).strip():
        raise DiverError(f"{where}: the answer must be text or a number, not {raw!r:.60}")
    name = str(_value(row, "source", SOURCES, source) or "")
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
    identity = _value(row, "id", ("id", "extra_info.index"), source)
    return Problem(
        id=str(identity) if identity is not None else f"{Path(source.path).stem}-{number}",
        prompt=prompt,
        answer=answer,
        source=name or Path(source.path).stem,
        verifier=verifier,
        meta=meta,
    )


def with_verifier(problem: Problem, verifier: str) -> Problem:
    """The problem, graded by `verifier` instead of its own unless that is "auto"."""
    return problem if verifier == "auto" else replace(problem, verifier=verifier)


def question_only(problem: Problem) -> Problem:
    """The problem with the last user message of a chat as its question, to be put into a template."""
    if isinstance(problem.prompt, str):
        return problem
    questions = [m["content"] for m in problem.prompt if m["role"] == "user"]
    if not questions:
        raise DiverError(f'problem {problem.id!r}: its prompt has no user message; set data.messages = "as-they-are"')
    return replace(problem, prompt=questions[-1])


def _auto_verifier(prompt: str, answer: str, is_gsm8k: bool) -> str:
    if is_gsm8k:
        return "gsm8k"
    # A number may as well be the answer to a question with a numbered list in it.
    parts = listed(prompt) if answer in {*LETTERS} else None
    return "choice" if parts and answer in parts.options else "math"


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


def _value(row: Mapping[str, Any], name: str, known: Sequence[str], source: Source, where: str = "") -> Any:
    """The column for `name`; with `where`, DiverError if there is none."""
    tried = (source.columns[name],) if name in source.columns else known
    value = first_value(row, tried)
    if value is None and where:
        raise DiverError(
            f"{where}: no {name}: found {', '.join(row) or 'nothing'}; accepted {', '.join(tried)} "
            f"(columns.{name} names another)"
        )
    return value


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
