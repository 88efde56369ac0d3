"""Read the groups of a path: the layout of each file, its rollouts, and notes for the user."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diver.core import settings
from diver.core.files import read_jsonl
from diver.core.formats import NoRows, check_content
from diver.core.progress import progress
from diver.core.run_folder import trained_counts, trained_note
from diver.core.seeds import digest
from diver.core.types import DiverError, Group
from diver.rollouts.columns import Columns, File, Part
from diver.rollouts.cut import cut
from diver.rollouts.files import RolloutFile, rollout_files
from diver.rollouts.formats import READERS, rows_within
from diver.rollouts.grouping import grouped
from diver.rollouts.layouts import LAYOUTS, NAMED, TRAIN, parts

if TYPE_CHECKING:
    import pandas as pd

ANY_COLUMNS = Columns()
THRESHOLD = 0.5  # default of --threshold in every command
LARGE = 20_000_000  # bytes that take a second or more


class Rollouts(list[Group]):
    """The groups of a path, with the `layouts` of its files, and `notes` for the user, such as on what was left out.

    If they are known, `problem.meta["step"]` is the step of a group, `problem.meta["by"]` the origin of its responses,
    and `problem.source` the benchmark or the task. The id of the problem is unique only within its source.
    """

    def __init__(self, groups: Iterable[Group], notes: Iterable[str] = (), layouts: Iterable[str] = ()) -> None:
        super().__init__(groups)
        self.notes, self.layouts = [*notes], [*layouts]

    def frame(self) -> pd.DataFrame:
        """One row per response, in order. A column without any value is left out.

        by, step, source, problem, prompt, answer, sample, response, grade; outcome, reward (its total), advantage,
        trained, entropy (nats), logprob (mean over the tokens), length (tokens), truncated; diversity/<metric>.
        """
        import pandas as pd

        rows = [
            {
                "by": problem.meta.get("by"),
                "step": problem.meta.get("step"),
                "source": problem.source,
                "problem": problem.id,
                "prompt": problem.prompt if isinstance(problem.prompt, str) else [dict(m) for m in problem.prompt],
                "answer": problem.answer,
                "sample": r.index,
                "response": r.response,
                "grade": None if r.grade is None else str(r.grade),
                "outcome": None if r.reward is None else r.reward.outcome,
                "reward": None if r.reward is None else r.reward.total,
                "advantage": r.advantage,
                "trained": r.trained,
                "entropy": r.entropy,
                "logprob": None if r.logprobs is None else float(r.logprobs.mean()),
                "length": r.known_length,
                "truncated": r.truncated,
                **{f"diversity/{name}": value for name, value in r.diversity.items()},
            }
            for group in self
            for problem in [group.problem]
            for r in group.rollouts
        ]
        table = pd.DataFrame(rows)
        return table.drop(columns=[name for name in table if table[name].isna().all() or (table[name] == "").all()])


def read(path: str | Path, *, steps: str = "", **columns: Any) -> Rollouts:
    """All rollouts of a file, or of the files of a folder, as groups.

    The format is found from the content: TRL, verl, slime and others (docs/measure.md).
    `diver.read("runs/quickstart", steps="last").frame()` is a data frame.

    Args:
        path: a file or a folder of files.
        steps: which steps to read, such as "100", "1,50-60" or "last". Defaults to all.
        columns: names of columns that differ from those of the format: problem, response, outcome, answer, by, step,
            entropy, logprobs.

    Raises:
        DiverError: a row cannot be read; the message names the file, the row and the column.
    """
    return read_rollouts(Path(path).expanduser(), settings.read(Columns, columns, ""), steps)


def read_rollouts(path: Path, columns: Columns = ANY_COLUMNS, steps: str = "") -> Rollouts:
    """All rollouts of a file, or of the files of a folder, grouped by problem and, if known, by step and origin.

    Args:
        steps: read only the files of a folder with these numbers: `100`, `1,50-60`, `last`.

    Raises:
        DiverError: names the file and the row that cannot be read, and what would be right.
    """
    files, notes = rollout_files(Path(path), steps)
    size = sum(file.size for file in files)
    if size > (memory := os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")):
        raise DiverError(
            f"{path}: {size / 1e9:.0f} GB of rollouts, more than the memory of this machine ({memory / 1e9:.0f} GB); "
            "of a folder --steps 1,100,last reads some, and diver browse reads a part of any file"
        )
    reader = Reader(columns, notes, in_folder=len(files) > 1)
    shown = progress(files, f"read {path.name}", "file") if size > LARGE and len(files) > 1 else files
    group_stream = grouped((part for file in shown for part in reader.parts(file)), {}, reader.notes, path)
    groups = list(group_stream)
    if not groups:
        raise reader.unread or DiverError("; ".join([f"{path}: empty, not one response", *reader.notes]))
    sizes = [*map(len, groups)]
    span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    problems = len({(group.problem.source, group.problem.id) for group in groups})
    summary = f"{path}: {', '.join(reader.layouts)}: {sum(sizes)} responses to {problems} problems"
    summary += f" in {len(groups)} groups of {span}"
    scored = sum(rollout.reward is not None for group in groups for rollout in group.rollouts)
    summary += "" if scored == sum(sizes) else f", {scored or 'none'} with an outcome"
    summary += f"; outcome: {', '.join(reader.outcomes)}" if reader.outcomes else ""
    if TRAIN in reader.layouts and (note := trained_note(trained_counts(groups), path)):
        reader.notes.append(f"{path}: {note}")
    return Rollouts(groups, [summary, *reader.notes], reader.layouts)


class Reader:
    """Reads one file after another. `layouts` are those of the files, `outcomes` the columns read as the outcome, and
    `notes` are for the user.

    In a folder, a file without any response is left out with a note, and its error is `unread`.
    """

    def __init__(self, columns: Columns, notes: Sequence[str] = (), in_folder: bool = False) -> None:
        self.columns, self.notes, self.in_folder = columns, [*notes], in_folder
        self.layouts: dict[str, None] = {}
        self.outcomes: dict[str, None] = {}
        self.unread: DiverError | None = None
        self._logged: dict[str, Path] = {}

    def parts(self, file: RolloutFile, size: int | None = None) -> Iterator[Part]:
        """The responses of a file in its order, one row at a time but for layouts that need the complete file.

        Args:
            size: bytes. Only the rows of about the first so many bytes are read, where the format is JSON Lines or
                parquet.
        """
        path = file.path
        rows = _rows(path)
        if size is not None:
            rows = islice(rows, rows_within(path, size))
        elif file.size > LARGE and (total := rows_within(path, file.size)):
            rows = progress(rows, f"read {path.name}", "row", total=total)
        try:
            first = next(rows, None)
        except NoRows as error:
            if not self.in_folder:
                raise
            self._leave_out(error)
            return
        if first is None:
            return
        named = self.columns.problem or self.columns.response  # columns that the user names
        name = NAMED if named else next(name for name, form in LAYOUTS.items() if first[1].keys() >= {*form["columns"]})
        layout = LAYOUTS[name]
        step = {"any": file.step, "word": file.step_by_word}.get(layout.get("numbered", ""))
        stream = parts(name, File(path, chain([first], rows), self.notes, self.outcomes, step=step), self.columns)
        if name != TRAIN:
            stream = cut(stream, path, self.notes, self.columns.keep_prompt)
        try:
            first_part = next(stream, None)
        except DiverError as error:
            if self.in_folder and name == NAMED and str(error).startswith(f"{first[0]}: no "):
                self._leave_out(error)
                return
            raise
        self.layouts[name] = None
        read_parts: Iterable[Part] = chain([first_part] if first_part else [], stream)
        if layout.get("repeats"):
            read_parts = [*read_parts]
            content = digest([(part.key, part.group.responses) for part in read_parts])
            earlier = self._logged.setdefault(content, path)
            if earlier != path:
                self.notes.append(f"{path}: the same completions as in {earlier}, which {name} logs again; left out")
                return
        yield from read_parts

    def _leave_out(self, error: DiverError) -> None:
        self.unread = self.unread or error
        self.notes.append(f"{error}: left out")


def largest_outcome(groups: Iterable[Group]) -> float:
    return max((r.reward.outcome for group in groups for r in group.rollouts if r.reward is not None), default=0.0)


def scale_note(name: str, largest: float, threshold: float) -> list[str]:
    """A note if outcomes exceed 1, such as a judge's 1 to 5, and the user has not set the threshold."""
    if largest <= 1 or threshold != THRESHOLD:
        return []
    return [
        f"{name}: outcomes of up to {largest:g}; those of at least {threshold:g} count as correct (--threshold sets it)"
    ]


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a file. An evaluation appends to its generations, so an incomplete last row is left out."""
    if path.parent.name == "generations" and path.suffix == ".jsonl":
        rows = read_jsonl(path, appended=True)
        first = next(rows, None)
        if first and first[1].keys() >= {*LAYOUTS["diver eval"]["columns"]}:
            return chain([first], rows)
    check_content(path)
    return iter(READERS[path.suffix](path))
