"""Rollouts of any origin as groups: files, or the folders that a trainer leaves.

| layout | what is read | a group is | response | outcome |
|---|---|---|---|---|
| diver train | a run folder, or one rollouts/step_NNNN.jsonl | a problem in a step | `response` | `reward.outcome` |
| diver eval | a result folder, or one generations/NAME.jsonl | a problem, drawn one way | `response` | its grade |
| verl | a `rollout_data_dir`, or one of its N.jsonl | a `uid`, else an `input`, in a step | `output` | `score` |
| TRL | completions/, or one of its *.parquet | a `prompt` in a step | `completion` | its one reward |
| lm-eval | samples_*.jsonl, or a folder of them | a document | each of `resps` | its one metric |
| named columns | any JSONL or parquet | a `problem` | `response`, or a list of them | `correct`, `score`, ... |

For the last one `layouts.PROBLEMS` and its like are tried in turn, and `Columns` names what is called otherwise.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from diver.io.jsonl import read_rows
from diver.io.readers import READERS
from diver.rollouts.layouts import LAYOUTS, Columns, Found, Row, layout_of, trl_reward
from diver.types import DiverError, Group, Problem, Rollout

AS_IT_IS = Columns()
FOLDERS = ("rollouts", "generations", "completions")  # where a run, an evaluation and TRL keep them


class Rollouts(NamedTuple):
    """What a path holds: `layout` is what it was recognised as, `notes` what is worth telling."""

    groups: list[Group]
    layout: str
    notes: list[str]


def read_groups(path: Path, columns: Columns = AS_IT_IS, steps: str = "") -> list[Group]:
    """The groups at a path; see `read_rollouts`."""
    return read_rollouts(path, columns, steps).groups


def read_rollouts(path: Path, columns: Columns = AS_IT_IS, steps: str = "") -> Rollouts:
    """All rollouts of a file, or of the files of a folder, grouped by problem and, where it is known, by step.

    steps: of a folder, only the files with these numbers: `100`, `1,50-60`, `last`. A group's step is its problem's
    `meta["step"]`; in a folder of `diver eval` its `source` is the benchmark, and its id is unique only within that.
    DiverError names the file and the row that cannot be read, and what would be right.
    """
    problems: dict[tuple[Any, ...], Problem] = {}
    rollouts: defaultdict[tuple[Any, ...], list[Rollout]] = defaultdict(list)
    names: dict[Any, str] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    notes: list[str] = []
    layouts: dict[str, None] = {}
    for layout, found in _read_all(_files(Path(path), steps), columns, notes):
        layouts[layout] = None
        for key, problem, rollout, sample in found:
            step, again = problem.meta.get("step"), 0
            if sample is not None:
                again = seen[step, key, sample]
                seen[step, key, sample] += 1
            if (step, key, again) not in problems:
                name = problem.id or names.setdefault(str(problem.prompt), f"problem-{len(names) + 1}")
                problems[step, key, again] = replace(problem, id=name)
            rollouts[step, key, again].append(rollout)
    if not problems:
        raise DiverError(f"{path}: empty, not one response")
    groups = [Group(problem, tuple(rollouts[key])) for key, problem in problems.items()]
    recognised = ", ".join(layouts)
    return Rollouts(groups, recognised, [f"{path}: {recognised}: {_sizes(groups)}", *notes])


def _sizes(groups: Sequence[Group]) -> str:
    sizes = [len(group) for group in groups]
    span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    scored = sum(rollout.reward is not None for group in groups for rollout in group.rollouts)
    problems = len({(group.problem.source, group.problem.id) for group in groups})
    told = f"{sum(sizes)} responses to {problems} problems in {len(groups)} groups of {span}"
    return told + ("" if scored == sum(sizes) else f", {scored or 'none'} with an outcome")


# ---- files -------------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"(?:step_|completions_)?(\d+)")


def _files(path: Path, steps: str) -> list[Path]:
    if path.is_file():
        if steps:
            raise DiverError(f"--steps {steps}: chooses among the files of a folder, and {path} is one file")
        if path.suffix not in READERS:
            raise DiverError(f"{path}: a file must be {' or '.join(READERS)}")
        return [path]
    if not path.is_dir():
        raise DiverError(f"{path}: no such file or folder")
    folder = next((path / name for name in FOLDERS if (path / name).is_dir()), path)
    files = [p for p in folder.iterdir() if p.suffix in READERS and not p.name.startswith(".")]
    number = {p: int(m[1]) for p in files if (m := _NUMBER.fullmatch(p.stem))}
    if steps:
        wanted = _wanted(steps, max(number.values(), default=0))
        files = [p for p in files if p in number and wanted(number[p])]
    if not files:
        raise DiverError(
            f"{folder}: no {' or '.join(READERS)} file{f' of steps {steps}' if steps else ''} in this folder"
        )
    return sorted(files, key=lambda p: (number.get(p, -1), p.name))


def _wanted(steps: str, last: int) -> Callable[[int], bool]:
    ranges = []
    for part in steps.replace("last", str(last)).split(","):
        ends = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if ends is None:
            raise DiverError(f"--steps {steps}: must be numbers such as 100, or 1,50-60,last")
        ranges.append(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return lambda step: any(step in r for r in ranges)


def _read_all(files: Sequence[Path], columns: Columns, notes: list[str]) -> Iterator[tuple[str, list[Found]]]:
    """The layout and the responses of each file."""
    before: list[tuple[str, str]] = []
    for file in files:
        rows = list(_rows(file))
        if not rows:
            continue
        layout = layout_of(rows[0][1], columns)
        marks = LAYOUTS[layout].marks
        for where, row in rows:
            if missing := marks - row.keys():
                raise DiverError(f"{where}: has no {', '.join(sorted(missing))}, which the first row of {layout} has")
        _check_named(file, layout, rows, columns)
        rows, how = PREPARE.get(layout, _as_they_are)(file, rows, columns, notes)
        found = [f for where, row in rows for f in LAYOUTS[layout].read(row, where, how)]
        texts = [(f.key, f.rollout.response) for f in found]
        if layout == "TRL" and texts == before:
            notes.append(f"{file}: the same completions as in the file before, which TRL logs at each update; left out")
            continue
        before = texts
        yield layout, found


def _check_named(file: Path, layout: str, rows: Rows, columns: Columns) -> None:
    """A column that is named by mistake is told, not taken for one without values; our own files need no names."""
    for option, name in (("outcome", columns.outcome), ("answer", columns.answer)):
        known = (name in row or name.partition(".")[0] in row for _, row in rows)
        if name and not layout.startswith("diver") and not any(known):
            raise DiverError(f"{file}: no column {name!r}, which --{option} names: found {', '.join(rows[0][1])}")


Rows = list[tuple[str, Row]]
Prepared = tuple[Rows, Columns]


def _rows(file: Path) -> Iterator[tuple[str, Row]]:
    if file.parent.name == "generations" and file.suffix == ".jsonl":
        # An evaluation appends to it: what a kill left of the last row does not count.
        return ((f"{file}:{number}", row) for number, row in enumerate(read_rows(file), start=1))
    return iter(READERS[file.suffix](file))


def _as_they_are(file: Path, rows: Rows, columns: Columns, notes: list[str]) -> Prepared:
    return rows, columns


def _with_grades(file: Path, rows: Rows, columns: Columns, notes: list[str]) -> Prepared:
    """The benchmark, which an evaluation's file is named after, and the grades, from the grades beside the file."""
    if file.parent.name == "generations":
        rows = [(where, {**row, "benchmark": file.stem}) for where, row in rows]
    grades = sorted((file.parent.parent / "grades").glob(f"{file.stem}.*.jsonl"))
    if not grades:
        return rows, columns
    if len({(row["problem"], row["sample"]) for _, row in rows}) < len(rows):
        notes.append(f"{file}: generations of several settings, so whose the grades are is not known; left out")
        return rows, columns
    if len(grades) > 1:
        notes.append(f"{file}: grades from {grades[0].name}, the first of {len(grades)}")
    known = {(row["problem"], row["sample"]): row["grade"] for row in read_rows(grades[0])}
    return [(w, {**row, "grade": known.get((row["problem"], row["sample"]))}) for w, row in rows], columns


def _with_reward(file: Path, rows: Rows, columns: Columns, notes: list[str]) -> Prepared:
    outcome = columns.outcome or trl_reward(rows[0][1])
    if not outcome:
        notes.append(
            f"{file}: which column is the outcome is not clear; --outcome names one of {', '.join(rows[0][1])}"
        )
    return rows, replace(columns, outcome=outcome)


def _of_one_filter(file: Path, rows: Rows, columns: Columns, notes: list[str]) -> Prepared:
    """lm-eval repeats the responses of a document for each of its filters."""
    first = rows[0][1].get("filter")
    kept = [(where, row) for where, row in rows if row.get("filter") == first]
    if len(kept) < len(rows):
        notes.append(f"{file}: the rows of filter {first!r}; the others repeat their responses")
    return kept, columns


PREPARE: Mapping[str, Callable[[Path, Rows, Columns, list[str]], Prepared]] = {
    "diver eval": _with_grades,
    "TRL": _with_reward,
    "lm-eval": _of_one_filter,
}
