"""Sources of problems: JSONL, parquet in verl's or TRL's layout, a data set on the Hugging Face hub, or a function.

A row gives a prompt (a question or chat messages) and an answer, under the names of core/columns.toml, which are tried
in order. The layouts of GSM8K (what follows `####`), TRL and verl (`reward_model.ground_truth`) are read, too.

`columns` gives other names, with a dot for a field inside a column. A user's function ("my_module:my_function", without
arguments) returns such rows as dicts, or `Problem`s.
"""

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from diver.core.columns import COLUMNS, first_value, needed
from diver.core.files import InvalidRow
from diver.core.formats import Rows
from diver.core.settings import choose
from diver.core.types import DiverError, Problem
from diver.grading import EnvironmentGrader, get_grader
from diver.grading.choice import options_of, prompt_with_options
from diver.grading.references import after_hashes, answer_and_verifier, by_index, options_in, text_of
from diver.recipe.data import Source
from diver.tasks.rows import Adapt, adapted, read_rows

NONE_GIVEN = ("proof", "notfound")  # in NuminaMath-1.5, for a problem without an answer
PARTS = ("prompt", "answer", "id", "source")
"""The parts of a row that `columns` may name."""
BESIDE = dict.fromkeys(column for part in ("passages", "contexts") for column in COLUMNS[part])
"""Columns of texts that a question may refer to."""
THREE_WORDS = re.compile(r"(?:\b[A-Za-z]{2,}[,;:.]? +){3}")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Problems(list[Problem]):
    """The problems without duplicates, in the order of the source. `notes` for the log: the commit, rows left out."""

    notes: list[str]


def load_problems(source: Source | str, key: str = "", name: str = "", adapt: Adapt | None = None) -> Problems:
    """The problems of a source, each once. DiverError names the setting, or the file and line (or row), that is wrong.

    `key` is the key of the source in the recipe; `name` replaces the path in ids; `adapt` makes a row one of ours.
    """
    source = Source(path=source) if isinstance(source, str) else source
    prefix = f"{key}." if key else ""
    if not source.path:
        raise DiverError(
            f"{prefix}path: name a .jsonl, .json, .csv or .parquet file, a folder, "
            "or a data set on the hub (owner/name)"
        )
    if source.verifier != "auto":
        get_grader(source.verifier, f"{prefix}verifier")
    for part in source.columns:
        choose(part, PARTS, f"{prefix}columns")
    rows, notes = read_rows(source, f"{prefix}path")
    if adapt:
        rows = adapted(rows, adapt, name)
    try:
        problems = deduplicate(rows, replace(source, path=name or source.path), source.path, notes)
    except InvalidRow as error:
        raise DiverError(f"{error}{'' if name else _options(error, prefix)}") from error  # a benchmark has no such key
    for problem in problems:
        get_grader(problem.verifier, f"{prefix}verifier").check(problem, f"{source.path}: ")
    prose = [  # answers of three or more words without a formula
        p
        for p in problems
        if p.verifier in ("math", "gsm8k") and not {"$", "\\"} & {*p.answer} and THREE_WORDS.search(p.answer)
    ]
    if prose:
        problems.notes.append(
            f"{source.path}: {len(prose)} reference answers are sentences, such as {prose[0].answer[:60]!r} of problem "
            f"{prose[0].id!r}: a response is compared with the whole; give the final answer alone, "
            "or end with it in a box or after ####"
        )
    return problems


def _options(error: InvalidRow, prefix: str) -> str:
    if error.reason.startswith("no column "):
        return f"; {prefix}columns names it"
    missing = error.reason in {f"no {part}" for part in PARTS}
    columns = f"; {prefix}columns names other columns" if missing else ""
    return f"{columns}; {prefix}skip_invalid_rows = true leaves out such rows"


# ---- from a row to a problem -----------------------------------------------------------------------------------------


def deduplicate(rows: Rows, source: Source, origin: str, notes: Sequence[str] = ()) -> Problems:
    """The problems of the rows without duplicates. The problem's number is added to an id that an earlier one has."""
    by_prompt: dict[str, Problem] = {}
    ids: set[str] = set()
    duplicates = conflicting = 0
    invalid: list[InvalidRow] = []
    unread: Counter[str] = Counter()
    for problem in _valid(rows, source, invalid, unread):
        columns = problem.meta if _is_game(problem, origin) else problem.meta.get("options")
        key = json.dumps([problem.prompt, columns], default=str)
        if key in by_prompt:
            same_answer = by_prompt[key].answer == problem.answer
            duplicates, conflicting = duplicates + same_answer, conflicting + (not same_answer)
            continue
        if len(by_prompt) == source.limit:
            break
        while problem.id in ids:
            problem = replace(problem, id=f"{problem.id}#{len(by_prompt)}")
        ids.add(problem.id)
        by_prompt[key] = problem
    if not by_prompt:
        raise DiverError(f"{origin}: empty, not one problem" + (f"; {invalid[0]}" if invalid else ""))
    counted, start = counted_options([*by_prompt.values()], source, origin)
    unique = [counted.get(i, problem) for i, problem in enumerate(by_prompt.values())]
    problems = Problems(map(_with_options, unique))
    extended = sum(new is not old for new, old in zip(problems, unique, strict=True))
    if any(_is_game(problem, origin) for problem in problems):  # its environment may read every column
        unread.clear()
    remarks = {
        f"{len(counted)} reference answers count the options from {start}; they are letters now": len(counted),
        f"the options of {extended} problems, which are in a column, follow their questions": extended,
        **{
            f"the policy does not see column {column!r} of {count} rows; write its text into the question": count
            for column, count in unread.items()
        },
        f"{duplicates} duplicate rows left out, {len(problems)} problems remain": duplicates,
        f"{conflicting} rows repeat a prompt with another answer; the first is kept": conflicting,
    }
    problems.notes = [*notes, *(f"{origin}: {remark}" for remark, count in remarks.items() if count)]
    if invalid:
        first = {error.reason: error.where for error in reversed(invalid)}
        counts = Counter(error.reason for error in invalid).most_common()
        reasons = ", ".join(f"{count} {reason} (first at {first[reason]})" for reason, count in counts)
        problems.notes.append(f"{origin}: {len(invalid)} invalid rows left out (skip_invalid_rows): {reasons}")
    return problems


def counted_options(problems: Sequence[Problem], source: Source, origin: str) -> tuple[dict[int, Problem], int]:
    """`by_index` if the verifier of the source may be "choice". DiverError if the first number is unknown."""
    counted, start = by_index(problems) if source.verifier in ("auto", "choice") else ({}, 0)
    if start is None:
        raise DiverError(
            f"{origin}: the reference answers of {len(problems)} problems count their options, and whether from 0 or "
            "from 1 cannot be told; read more problems (limit), or write letters"
        )
    return counted, start


def _is_game(problem: Problem, origin: str) -> bool:
    """Whether an environment asks the question of a problem: it may read every column for that."""
    where = f"{origin}: problem {problem.id!r}: verifier"
    return ":" in problem.verifier and isinstance(get_grader(problem.verifier, where), EnvironmentGrader)


def _with_options(problem: Problem) -> Problem:
    """The problem; if its options are in a column and not in its question, with a question that lists them."""
    options = options_of(problem) if problem.verifier == "choice" and "options" in problem.meta else {}
    texts = [rf"(?<!\w){re.escape(' '.join(text.split()))}(?!\w)" for text in options.values()]
    question, end = " ".join(problem.question.split()), 0
    for text in texts:  # one after the other, in any layout
        match = re.compile(text, re.IGNORECASE).search(question, end)
        if match is None:
            break
        end = match.end()
    else:
        return problem
    extended = prompt_with_options(problem.question, options)
    if isinstance(problem.prompt, str):
        return replace(problem, prompt=extended)
    last = max((i for i, m in enumerate(problem.prompt) if m["role"] == "user"), default=None)
    if last is None:
        return problem
    messages = [m if i != last else {**m, "content": extended} for i, m in enumerate(problem.prompt)]
    return replace(problem, prompt=tuple(messages))


def _valid(rows: Rows, source: Source, invalid: list[InvalidRow], unread: Counter[str]) -> Iterator[Problem]:
    """The problems of the rows; with `skip_invalid_rows`, the errors of invalid rows go to `invalid`.

    `unread` counts the rows for each column that a question may refer to and that the prompt does not contain.
    """
    rows = iter(rows)
    for number in itertools.count():
        try:
            where, row = next(rows)
            problem = to_problem(row, where, source, number)
            _check_text(problem, where)
            unread.update(_beside(row, problem))
            yield problem
        except StopIteration:
            return
        except InvalidRow as error:
            if not source.skip_invalid_rows:
                raise
            invalid.append(error)


def to_problem(row: Mapping[str, Any] | Problem, where: str, source: Source, number: int = 0) -> Problem:
    """A row as a problem. InvalidRow, whose message begins with `where`, if the row is no problem."""
    if isinstance(row, Problem):
        return row if source.verifier == "auto" else replace(row, verifier=source.verifier)
    if not isinstance(row, Mapping):
        raise InvalidRow(where, f"a {type(row).__name__}, not a Problem or a dict")
    columns = {part: COLUMNS[part] for part in PARTS} | {name: [column] for name, column in source.columns.items()}
    for name, column in source.columns.items():
        if not {column, column.partition(".")[0]} & row.keys():
            needed(row, name, [column], where)
    prompt = _prompt(needed(row, "prompt", columns["prompt"], where), where)
    raw = needed(row, "answer", columns["answer"], where)
    if isinstance(raw, list) and len(raw) == 1:
        raw = raw[0]
    is_scalar = isinstance(raw, str | int) or (isinstance(raw, float | Decimal) and math.isfinite(raw))
    raw_text = text_of(raw)
    if not is_scalar or isinstance(raw, bool) or not raw_text.strip():
        raise InvalidRow(where, "the answer must be text or a number", f", not {raw!r:.60}")
    if raw_text.strip() in NONE_GIVEN:
        raise InvalidRow(where, "no answer", f": {raw!r} says that none is given, as in NuminaMath-1.5")
    if isinstance(images := row.get("images"), list) and images:
        raise InvalidRow(where, "images", ", and only text is read")
    name = str(first_value(row, columns["source"]) or "")
    text = prompt if isinstance(prompt, str) else str(prompt[-1]["content"])
    options = options_in(row)
    answer, verifier, _ = answer_and_verifier(text, raw_text, f"{name} {source.path}", options)
    if source.verifier != "auto":
        verifier = source.verifier
    if ":" in verifier:  # a custom verifier reads the reference answer itself
        answer = after_hashes(raw_text)
    meta = row.get("meta") or row.get("extra_info") or {}
    meta = dict(meta) if isinstance(meta, Mapping) else {"meta": meta}
    if options is not None:
        meta["options"] = options
    identity = first_value(row, columns["id"])
    return Problem(
        id=str(identity) if identity is not None else f"{Path(source.path).stem}-{number}",
        prompt=prompt,
        answer=answer,
        source=name or Path(source.path).stem,
        verifier=verifier,
        meta=meta,
    )


def question_only(problem: Problem) -> Problem:
    """The problem with the last user message of a chat as its question, to be put into a template."""
    if isinstance(problem.prompt, str):
        return problem
    questions = [m["content"] for m in problem.prompt if m["role"] == "user"]
    if not questions:
        raise DiverError(f'problem {problem.id!r}: its prompt has no user message; set data.messages = "as-they-are"')
    return replace(problem, prompt=questions[-1])


def _prompt(value: Any, where: str) -> str | tuple[Mapping[str, str], ...]:
    if isinstance(value, str) and value.strip():
        return value
    messages = value if isinstance(value, list) else []
    if messages and all(isinstance(m, Mapping) and {"role", "content"} <= m.keys() for m in messages):
        return tuple({"role": str(m["role"]), "content": _content(m["content"], where)} for m in messages)
    reason = "the prompt must be text or a list of messages with role and content"
    raise InvalidRow(where, reason, f", not {value!r:.60}")


def _content(content: Any, where: str) -> str:
    """The text of a message, or its parts of type text, one after the other."""
    parts = content if isinstance(content, list) and content else [{"type": "text", "text": content}]
    for part in parts:
        if not (isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)):
            raise InvalidRow(where, "the content of a message must be text or parts of text", f", not {content!r:.60}")
    return "".join(part["text"] for part in parts)


def _check_text(problem: Problem, where: str) -> None:
    """InvalidRow for half of a surrogate pair, which JSON can write and no tokenizer reads."""
    prompt = problem.prompt if isinstance(problem.prompt, str) else "".join(m["content"] for m in problem.prompt)
    for name, text in (("prompt", prompt), ("answer", problem.answer), ("id", problem.id)):
        if not isinstance(text, str):
            raise InvalidRow(where, f"the {name} must be text", f", not {text!r:.60}")
        if half := LONE_SURROGATE.search(text):
            raise InvalidRow(
                where, f"the {name} has half of a surrogate pair", f", {half[0]!r}; write the whole character"
            )


def _beside(row: Mapping[str, Any] | Problem, problem: Problem) -> list[str]:
    """The columns of BESIDE with a text of three words or more that is no part of the prompt."""
    prompt = problem.prompt if isinstance(problem.prompt, str) else "\n".join(m["content"] for m in problem.prompt)
    texts = {name: text for name in BESIDE if isinstance(row, Mapping) and isinstance(text := row.get(name), str)}
    return [
        name
        for name, text in texts.items()
        if THREE_WORDS.search(text) and text.strip() not in prompt and prompt.strip() not in text
    ]
