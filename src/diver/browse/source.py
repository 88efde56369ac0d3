"""Rollouts of one path, read a file at a time within a budget: numbers by step, and a bounded sample of groups."""

import heapq
from collections.abc import Iterable, Iterator
from pathlib import Path

from diver.browse.measures import Tally, diversity_values, outcome_values
from diver.io.seeds import stream_seed
from diver.measure.problems import SINGLE
from diver.report.text import evenly_spaced
from diver.rollouts.columns import Columns, Part
from diver.rollouts.files import RolloutFile, rollout_files
from diver.rollouts.reader import Reader, grouped
from diver.types import DiverError, Group

OPEN_CHARS = 100_000_000  # of responses whose group may get further ones; then the oldest are taken for complete
SAMPLE_CHARS = 60_000_000  # of the groups that are kept to be shown
POINTS = 100  # files of one reading: enough for a curve
UNDIVIDED = frozenset({".json", ".pt"})  # files that are read whole, or not at all


class Sample:
    """At most `count` groups, drawn at random from all that are added, of at most `chars` characters."""

    def __init__(self, count: int, chars: int) -> None:
        self.count, self.chars = count, chars
        self._heap: list[tuple[int, int, int, Group]] = []  # by rank, the largest first; number, characters, group
        self._added = self._chars = 0

    def add(self, group: Group) -> None:
        problem, size = group.problem, sum(map(len, group.responses))
        origin = (problem.id, problem.source, problem.meta.get("step"), problem.meta.get("by"))
        rank = stream_seed(0, *origin)  # by chance, and the same in every reading
        heapq.heappush(self._heap, (-rank, self._added, size, group))
        self._added += 1
        self._chars += size
        self.limit(self.count, self.chars)

    def limit(self, count: int, chars: int) -> None:
        """Fewer groups; one is kept whatever its length."""
        self.count, self.chars = count, chars
        while len(self._heap) > max(count, 1) or (self._chars > chars and len(self._heap) > 1):
            self._chars -= heapq.heappop(self._heap)[2]

    def groups(self) -> list[Group]:
        return [group for _, _, _, group in sorted(self._heap, key=lambda item: item[1])]


class Content:
    """What one file has: a tally for each (by, step), and a sample of its groups. `whole`: all of it was read."""

    def __init__(self, groups: int, chars: int = SAMPLE_CHARS) -> None:
        self.tallies: dict[tuple[str, int | None], Tally] = {}
        self.sample = Sample(groups, chars)
        self.whole = True


class Source:
    """The rollouts of a path. `read` reads the next files; those that have changed since are read again."""

    def __init__(self, name: str, path: Path, columns: Columns, steps: str, groups: int, threshold: float) -> None:
        self.name, self.path, self.steps = name, path, steps
        self.groups, self.threshold = groups, threshold
        self.files: list[RolloutFile] = []
        self.contents: dict[RolloutFile, Content] = {}
        self.names: dict[str, str] = {}
        self._reader = Reader(columns)  # one for all files: TRL writes some twice

    def look(self) -> None:
        """Which files there are now. A file that has grown counts as another one: it is read again."""
        self.files, notes = rollout_files(self.path, self.steps)
        self._reader.in_folder = len(self.files) > 1
        self.note(*notes)
        self.contents = {file: content for file, content in self.contents.items() if file in {*self.files}}

    @property
    def layouts(self) -> list[str]:
        return [*self._reader.layouts]

    @property
    def notes(self) -> list[str]:
        """What a user should know, each once: what was left out, and of what was read, what has no value."""
        return [*dict.fromkeys(self._reader.notes), *self._gaps()]

    def _gaps(self) -> Iterator[str]:
        tallies = [tally for content in self.contents.values() for tally in content.tallies.values()]
        groups, single = (sum(getattr(tally, name) for tally in tallies) for name in ("groups", "single"))
        if unknown := groups - sum(len(tally.values.get("pass@1", ())) for tally in tallies):
            option = "; --outcome names its column" if unknown == groups else ""
            yield f"{self.name}: {unknown:,} of {groups:,} groups have a response without an outcome, so no Pass@k{option}"
        if single:
            yield f"{self.name}: {single:,} of {groups:,} groups are {SINGLE}"

    def note(self, *lines: str) -> None:
        self._reader.notes += lines

    @property
    def missing(self) -> list[RolloutFile]:
        return [file for file in self.files if file not in self.contents]

    def read(self, size: int | None, measured: int, growing: bool = False) -> bool:
        """Read further files, of together about `size` bytes (all where None), evenly spaced; whether any was read.

        measured: of how many groups the diversity is measured in all of them. growing: a file that cannot be read, such
        as one that is being written, is left out for now; else it is an error where there is no other.
        """
        chosen, share = self._plan(size)
        for file in chosen:
            content = Content(-(-self.groups // len(chosen)), SAMPLE_CHARS // len(chosen))
            try:
                self._fill(content, file, share, max(1, measured // len(chosen)))
            except (DiverError, OSError) as error:
                if not growing and (len(self.files) == 1 or isinstance(error, OSError)):
                    raise
                self.note(f"{error}: left out")
            self.contents[file] = content
        for content in self.contents.values() if chosen else ():
            content.sample.limit(-(-self.groups // len(self.contents)), SAMPLE_CHARS // len(self.contents))
        return bool(chosen)

    def _plan(self, size: int | None) -> tuple[list[RolloutFile], int | None]:
        """Which files to read next, and how much of each: at most POINTS of them, each of the same share."""
        files = self.missing
        if size is None or sum(file.size for file in files) <= size:
            return files, None
        count = min(len(files), POINTS)
        while True:
            chosen, share = [files[i] for i in evenly_spaced(len(files), count)], size // count
            cost = sum(f.size if f.path.suffix in UNDIVIDED else min(f.size, share) for f in chosen)
            if cost <= size or count == 1:
                return chosen, share
            count = max(1, min(count - 1, count * size // cost))

    def _fill(self, content: Content, file: RolloutFile, share: int | None, measured: int) -> None:
        content.whole = share is None or file.size <= share or file.path.suffix in UNDIVIDED
        parts = self._reader.parts(file, None if content.whole else share)
        if not content.whole:
            parts = _beginning(parts, share or 0)
        found: Iterable[Group] = grouped(parts, self.names, OPEN_CHARS)
        if not content.whole:
            found = _complete(list(found))
        for number, group in enumerate(found):
            key = (str(group.problem.meta.get("by", "")), group.problem.meta.get("step"))
            values = [outcome_values(group, self.threshold)]
            if number < measured:
                values.append(diversity_values(group, self.threshold))
            content.tallies.setdefault(key, Tally()).add(group, *values)
            content.sample.add(group)


def _beginning(parts: Iterator[Part], size: int) -> Iterator[Part]:
    """The parts of the first `size` characters: of formats whose rows are not counted before they are read."""
    chars = 0
    for part in parts:
        chars += sum(map(len, part.group.responses)) + len(str(part.group.problem.prompt))
        if chars > size:
            return
        yield part


def _complete(groups: list[Group]) -> list[Group]:
    """Of the beginning of a file, groups that are smaller than the largest may lack responses that come later."""
    largest = max(map(len, groups), default=0)
    return [group for group in groups if len(group) == largest]
