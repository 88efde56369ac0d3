"""From a path to groups: which files, which layout each has, and which responses belong together."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from diver.data.rows import READERS, row_files
from diver.io.jsonl import read_jsonl
from diver.rollouts.layouts import LAYOUTS, Columns, File, Part, Row, layout_of
from diver.types import DiverError, Group

ANY_COLUMNS = Columns()
FOLDERS = ("rollouts", "generations", "completions")  # where a run, an evaluation and TRL keep them


class Rollouts(NamedTuple):
    """What a path holds; `notes` are what a user should know: what it was recognised as, what was left out."""

    groups: list[Group]
    notes: list[str]


def read_rollouts(path: Path, columns: Columns = ANY_COLUMNS, steps: str = "") -> Rollouts:
    """All rollouts of a file, or of the files of a folder, grouped by problem and, where it is known, by step.

    steps: of a folder, only the files with these numbers: `100`, `1,50-60`, `last`. A group's step is its problem's
    `meta["step"]`; in a folder of `diver eval` its `source` is the benchmark, and its id is unique only within that.
    DiverError names the file and the row that cannot be read, and what would be right.
    """
    parts: dict[tuple[object, str], list[Group]] = {}
    notes: list[str] = []
    layouts: dict[str, None] = {}
    for layout, read in _read_all(_files(Path(path), steps), columns, notes):
        layouts[layout] = None
        for part in read:
            parts.setdefault((part.group.problem.meta.get("step"), part.key), []).append(part.group)
    if not parts:
        raise DiverError(f"{path}: empty, not one response")
    names: dict[str, str] = {}
    groups = [_merged(of_group, names) for of_group in parts.values()]
    return Rollouts(groups, [f"{path}: {', '.join(layouts)}: {_sizes(groups)}", *notes])


def _merged(parts: Sequence[Group], names: dict[str, str]) -> Group:
    """One group of its parts. `names` are the ids given so far to problems without one, by prompt."""
    problem = parts[0].problem
    name = problem.id or names.setdefault(str(problem.prompt), f"problem-{len(names) + 1}")
    rollouts = tuple(rollout for part in parts for rollout in part.rollouts)
    group = replace(parts[0], problem=replace(problem, id=name), rollouts=rollouts)
    return group.with_each(index=range(len(rollouts))) if len(parts) > 1 else group


def _sizes(groups: Sequence[Group]) -> str:
    sizes = [len(group) for group in groups]
    span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    scored = sum(rollout.reward is not None for group in groups for rollout in group.rollouts)
    problems = len({(group.problem.source, group.problem.id) for group in groups})
    words = f"{sum(sizes)} responses to {problems} problems in {len(groups)} groups of {span}"
    return words + ("" if scored == sum(sizes) else f", {scored or 'none'} with an outcome")


# ---- files -------------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"(?:step_|completions_)?(\d+)")


def _files(path: Path, steps: str) -> list[Path]:
    if path.is_file() and steps:
        raise DiverError(f"--steps {steps}: selects files of a folder, and {path} is one file")
    if not path.exists():
        raise DiverError(f"{path}: no such file or folder")
    folder = next((path / name for name in FOLDERS if (path / name).is_dir()), path)
    files = row_files(folder)
    number = {p: int(m[1]) for p in files if (m := _NUMBER.fullmatch(p.stem))}
    if steps:
        selected = _selected(steps, max(number.values(), default=0))
        files = [p for p in files if p in number and selected(number[p])]
    if not files:
        raise DiverError(f"{folder}: no file of steps {steps} in this folder")
    return sorted(files, key=lambda p: (number.get(p, -1), p.name))


def _selected(steps: str, last: int) -> Callable[[int], bool]:
    ranges = []
    for part in steps.replace("last", str(last)).split(","):
        ends = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if ends is None:
            raise DiverError(f"--steps {steps}: must be numbers such as 100, or 1,50-60,last")
        ranges.append(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return lambda step: any(step in r for r in ranges)


def _read_all(files: Sequence[Path], columns: Columns, notes: list[str]) -> Iterator[tuple[str, list[Part]]]:
    """The layout and the responses of each file."""
    previous: list[tuple[str, list[str]]] = []
    for path in files:
        # An evaluation appends to its generations: what a kill left of the last row does not count.
        appended = path.parent.name == "generations" and path.suffix == ".jsonl"
        rows = list(read_jsonl(path, appended=True) if appended else READERS[path.suffix](path))
        if not rows:
            continue
        name = layout_of(rows[0][1], columns)
        layout = LAYOUTS[name]
        for where, row in rows:
            if missing := layout.required - row.keys():
                raise DiverError(f"{where}: has no {', '.join(sorted(missing))}, which the first row of {name} has")
        if layout.columns is not None:
            _check_names(path, rows, columns)
        named = {key: value for key, value in asdict(columns).items() if value}
        parts = list(layout.read(File(path, rows, replace(layout.columns or columns, **named), notes)))
        responses = [(part.key, part.group.responses) for part in parts]
        if layout.repeats and responses == previous:
            notes.append(f"{path}: the same completions as in the file before, which {name} logs again; left out")
            continue
        previous = responses
        yield name, parts


def _check_names(path: Path, rows: Sequence[tuple[str, Row]], columns: Columns) -> None:
    """A column named by mistake is an error, not one without values."""
    for option, name in (("outcome", columns.outcome), ("answer", columns.answer)):
        if name and not any(name in row or name.partition(".")[0] in row for _, row in rows):
            raise DiverError(f"{path}: no column {name!r}, which --{option} names: found {', '.join(rows[0][1])}")
