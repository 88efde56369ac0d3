"""Rollouts of one path, read a file at a time within a budget: numbers by step, and a bounded sample of groups."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diver.core.run_folder import trained_counts, trained_note
from diver.core.seeds import stream_seed
from diver.core.types import DiverError, Group
from diver.pages.page import evenly_spaced
from diver.rollouts.columns import Columns, Part
from diver.rollouts.dependence import Dependence, dependence
from diver.rollouts.files import RolloutFile, rollout_files
from diver.rollouts.grouping import grouped
from diver.rollouts.layouts import TRAIN
from diver.rollouts.problems import SINGLE, diversity_values, name_of, outcome_values, owner
from diver.rollouts.reader import Reader, largest_outcome, scale_note

if TYPE_CHECKING:
    import pandas as pd

OPEN_CHARS = 100_000_000  # characters of incomplete groups in memory; beyond it the oldest groups count as complete
SAMPLE_CHARS = 60_000_000  # characters of the groups that may be shown
MEASURED = 300  # groups of one reading whose diversity is measured
COMPARED = 200_000  # pairs of responses of one reading that are compared, for repetition beyond chance
POINTS = 100  # files per reading, enough for a curve
UNDIVIDED = frozenset({".json", ".pt"})  # formats that cannot be read in part

Row = dict[str, Any]
"""The values of a group: its origin (`by`), `step`, `problem` as a number, its number of `responses` and of those with
an outcome (`scored`), and its metrics."""


class Sample:
    """At most `count` groups, drawn at random from all that are added, of at most `chars` characters; each with its
    row."""

    def __init__(self, count: int, chars: int) -> None:
        self.count, self.chars = count, chars
        # largest rank first: rank, number, characters, group, row of the group
        self._heap: list[tuple[int, int, int, Group, Row]] = []
        self._added = self._chars = 0

    def add(self, group: Group, row: Row) -> None:
        problem, size = group.problem, group.characters
        origin = (problem.id, problem.source, problem.meta.get("step"), problem.meta.get("by"))
        rank = stream_seed(0, *origin)  # random, but equal in every reading
        heapq.heappush(self._heap, (-rank, self._added, size, group, row))
        self._added += 1
        self._chars += size
        self.limit(self.count, self.chars)

    def limit(self, count: int, chars: int) -> None:
        """Reduce the sample to these limits. One group remains whatever its length."""
        self.count, self.chars = count, chars
        while len(self._heap) > max(count, 1) or (self._chars > chars and len(self._heap) > 1):
            self._chars -= heapq.heappop(self._heap)[2]

    def groups(self) -> list[tuple[Group, Row]]:
        return [(group, row) for *_, group, row in sorted(self._heap, key=lambda item: item[1])]


class Drawn:
    """At most `count` groups, of at most `chars` characters, drawn at random as by `Sample`.

    Each step of each name has an equal share. If there are more of these than `count`, several have a share together.
    """

    def __init__(self, count: int, chars: int) -> None:
        self.count, self.chars = count, chars
        self._numbers: dict[tuple[str, int | None], int] = {}
        self._samples: list[Sample] = []

    def add(self, group: Group, row: Row) -> None:
        number = self._numbers.setdefault((row["by"], row["step"]), len(self._numbers)) % self.count
        if number == len(self._samples):
            self._samples.append(Sample(0, 0))
            parts = len(self._samples)
            for sample in self._samples:
                sample.limit(self.count // parts, self.chars // parts)
        self._samples[number].add(group, row)

    def groups(self) -> list[tuple[Group, Row]]:
        return [drawn for sample in self._samples for drawn in sample.groups()]


@dataclass(eq=False)
class Content:
    """The content of one file: one row per group, a sample of its groups, notes, and the largest outcome if above 0.

    `whole` says whether the complete file was read.
    """

    sample: Sample
    table: pd.DataFrame
    notes: list[str] = field(default_factory=list)
    largest: float = 0.0
    whole: bool = True
    trained: Counter[bool | None] = field(default_factory=Counter)
    responses: list[list[int]] = field(default_factory=list)
    """A number for each response of the first groups, equal where responses are."""


class Source:
    """The rollouts of a path. `read` reads the next files; those that have changed since are read again."""

    def __init__(self, name: str, path: Path, columns: Columns, steps: str, groups: int, threshold: float) -> None:
        self.name, self.path, self.steps = name, path, steps
        self.by, self.groups, self.threshold = columns.by, groups, threshold
        self.files: list[RolloutFile] = []
        self.contents: dict[RolloutFile, Content] = {}
        self.names: dict[str, str] = {}
        self._reader = Reader(columns)  # one reader for all files, because TRL writes some rows twice
        self.layouts, self.outcomes = self._reader.layouts, self._reader.outcomes
        self._said: list[str] = []  # notes on the files of the path, or the error of listing them
        self._shares: dict[Path, int] = {}  # bytes read of each file
        self._repeated: Dependence | None = None

    def look(self) -> None:
        """List the current files. A file that has changed counts as another one: it is read again."""
        self.files, self._said = rollout_files(self.path, self.steps)
        self._reader.in_folder = len(self.files) > 1
        self.contents = {file: self.contents[file] for file in self.files if file in self.contents}

    def read_more(self, size: int | None, measured: int) -> bool:
        """Read further files while a run goes on; returns whether the page has to change.

        If nothing can be read now, such as a folder that does not exist yet, `notes` say so.
        """
        before = self.notes, {*self.contents}
        try:
            self.look()
        except (DiverError, OSError) as error:
            self._said, has_new = [str(error)], False
        else:
            has_new = self.read(size, measured, growing=True)
        return has_new or before != (self.notes, {*self.contents})

    @property
    def notes(self) -> list[str]:
        """Notes for the user, each once: what was left out, and which values are missing."""
        return [*dict.fromkeys([*self._said, *self._of_files()]), *self._gaps()]

    def _of_files(self) -> list[str]:
        return [note for content in self.contents.values() for note in content.notes]

    @property
    def table(self) -> pd.DataFrame:
        """One row per group that was read."""
        import pandas as pd

        none = pd.DataFrame(columns=["by", "step", "responses", "scored", "pass@1"])
        return pd.concat([none, *(content.table for content in self.contents.values())], ignore_index=True)

    def _gaps(self) -> Iterator[str]:
        table = self.table
        groups, single = len(table), int((table["responses"] == 1).sum())
        responses, scored = int(table["responses"].sum()), int(table["scored"].sum())
        if groups and not scored:
            yield f"{self.name}: no response has an outcome, so no Pass@k; --outcome names its column"
        elif scored < responses:
            unknown = f"{responses - scored:,} of {responses:,} responses have no outcome"
            yield f"{self.name}: {unknown}: Pass@k leaves them out"
        if single:
            yield f"{self.name}: {single:,} of {groups:,} groups are {SINGLE}"
        largest = max((content.largest for content in self.contents.values()), default=0.0)
        yield from scale_note(self.name, largest, self.threshold)
        trained = sum((content.trained for content in self.contents.values()), Counter[bool | None]())
        if TRAIN in self.layouts and (note := trained_note(trained, self.path)):
            yield f"{self.name}: {note}"
        if self._repeated:
            yield f"{self.name}: {self._repeated}"

    @property
    def missing(self) -> list[RolloutFile]:
        return [file for file in self.files if file not in self.contents]

    def read(self, size: int | None, measured: int, growing: bool = False) -> bool:
        """Read further files of about `size` bytes in total, evenly spaced; returns whether any was read.

        Args:
            size: bytes; None reads all files.
            measured: the number of groups whose diversity is measured, over all files; at least one per file.
            growing: whether files may still be written. A file that cannot be read is then left out for now. If no file
                is missing, more is read of the files that were read in part.

        Raises:
            DiverError: the only file cannot be read, unless `growing`.
            OSError: a file cannot be read, unless `growing`.
        """
        import pandas as pd

        chosen, share = self._plan(size)
        if growing and not chosen:
            chosen, share = self._further(size or 0)
        if not chosen:
            return False
        for file in chosen:
            self.contents.pop(file, None)
        notes = self._reader.notes = self._of_files()  # a note that is no longer true is dropped
        measured //= len(self.contents) + len(chosen)
        for file in chosen:
            limits, start = (-(-self.groups // len(chosen)), SAMPLE_CHARS // len(chosen)), len(notes)
            content = Content(Sample(*limits), pd.DataFrame())
            try:
                self._fill(content, file, share, max(1, measured), COMPARED // len(chosen))
            except (DiverError, OSError) as error:
                if not growing and (len(self.files) == 1 or isinstance(error, OSError)):
                    raise
                content = Content(Sample(*limits), pd.DataFrame())
                notes.append(f"{error}: left out")
            content.notes = notes[start:]
            self.contents[file] = content
        self.contents = {file: self.contents[file] for file in self.files if file in self.contents}
        for content in self.contents.values():
            content.sample.limit(-(-self.groups // len(self.contents)), SAMPLE_CHARS // len(self.contents))
        self._repeated = dependence(group for content in self.contents.values() for group in content.responses)
        return True

    def _plan(self, size: int | None) -> tuple[list[RolloutFile], int | None]:
        """Choose the files to read next, at most POINTS and as many as fit, and the share of each, which is equal."""
        files = self.missing
        if size is None or sum(file.size for file in files) <= size:
            return files, None
        for count in range(min(len(files), POINTS), 0, -1):
            chosen, share = [files[i] for i in evenly_spaced(len(files), count)], size // count
            if sum(f.size if f.path.suffix in UNDIVIDED else min(f.size, share) for f in chosen) <= size:
                break
        return chosen, share

    def _further(self, size: int) -> tuple[list[RolloutFile], int | None]:
        """The files read in part of which the fewest bytes were read, and twice that number of bytes."""
        begun = [file for file in self.files if not self.contents[file].whole]
        share = 2 * min((self._shares[file.path] for file in begun), default=0)
        behind = [file for file in begun if 2 * self._shares[file.path] == share]
        count = min(POINTS, max(1, size // share)) if begun else 0
        return [behind[i] for i in evenly_spaced(len(behind), count)], share

    def _fill(self, content: Content, file: RolloutFile, share: int | None, measured: int, compared: int) -> None:
        import pandas as pd

        rows, drawn = [], Drawn(measured, content.sample.chars)
        for group in self._groups(content, file, share):
            problem = group.problem
            row: Row = {"by": owner(problem, self.by), "step": problem.meta.get("step"), "responses": len(group)}
            row |= {"scored": sum(r.reward is not None for r in group.rollouts), "problem": hash(name_of(problem))}
            row |= outcome_values(group, self.threshold)
            rows.append(row)
            content.trained += trained_counts([group])
            content.largest = max(content.largest, largest_outcome([group]))
            content.sample.add(group, row)
            if compared > 0:
                content.responses.append([*map(hash, group.responses)])
                compared -= len(group) ** 2
            drawn.add(group, row)
        for group, row in drawn.groups():
            row |= diversity_values(group, self.threshold)
        content.table = pd.DataFrame(rows)

    def _groups(self, content: Content, file: RolloutFile, share: int | None) -> Iterable[Group]:
        """The groups of about the first `share` bytes. The share doubles until a group is known to be complete."""
        notes, path = self._reader.notes, file.path
        to_groups = partial(grouped, names=self.names, notes=notes, path=path, open_chars=OPEN_CHARS)
        share = None if share is None else max(share, self._shares.get(path, 1))
        while share is not None and share < file.size and path.suffix not in UNDIVIDED:
            begun = list(to_groups(_beginning(self._reader.parts(file, share), share)))
            if (complete := _complete(begun)) or not begun:
                content.whole, self._shares[path] = False, share
                return complete
            share *= 2
        self._shares[path] = file.size
        return to_groups(self._reader.parts(file))


def _beginning(parts: Iterator[Part], size: int) -> Iterator[Part]:
    """The parts of the first `size` characters, at least one: for formats whose rows are not counted beforehand."""
    chars = 0
    for part in parts:
        if chars > size:
            return
        chars += part.group.characters + len(str(part.group.problem.prompt))
        yield part


def _complete(groups: list[Group]) -> list[Group]:
    """The complete groups in the beginning of a file: as large as the largest size that two groups have, or larger.

    A smaller group may lack responses that come later, as may one that is alone in its size.
    """
    sizes = Counter(map(len, groups))
    smallest = max((size for size, count in sizes.items() if count > 1), default=math.inf)
    return [group for group in groups if len(group) >= smallest]
