"""The records of a study: one compressed JSON Lines file, a line a run, sorted by name.

A record is the result of a run: its recipe and seed, a column a metric, its evaluations. It is found again by its
recipe as given (regime and changes, without defaults), so experiments share runs, a study can be run in parts, and a
default that is added later does not invalidate older runs.

python -m diver_paper.records FILE FOLDER    add the JSON files of FOLDER, a record each, which is how older clones
write them
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diver.core.extras import provenance
from diver.core.files import read_json, to_json
from diver.core.types import DiverError
from diver.sweep.records import add
from diver.sweep.records import lines as read
from diver_paper.job import Job, flat

DIGITS = 4  # significant ones that a metric keeps


class Records(NamedTuple):
    """The records in `file` whose names begin with `prefix`, such as `countdown/rates/`."""

    file: Path
    prefix: str = ""

    @classmethod
    def of(cls, out: Path, study: str, prefix: str = "") -> Records:
        """The records of a study whose pages are in `out`."""
        return cls(out / "records" / f"{study}.jsonl.gz", prefix)

    def find(self, job: Job, regime: Mapping[str, Any], also: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """The record of a finished run, None where there is none. `also`: what else of the record must be as given.

        DiverError where the record of that name is a run of another recipe, or another in what is in `also`.
        """
        also, name = also or {}, self.prefix + job.name
        if (line := read(self.file).get(name)) is None:
            return None
        try:
            record = json.loads(line)
            del record["name"]
            theirs = flat({**record["recipe"], **{key: record.get(key) for key in also}})
        except (KeyError, TypeError) as e:
            raise DiverError(f"{self.file}: {name} is not the record of a run ({e}); delete its line") from None
        mine = json.loads(to_json(flat({**job.recipe(regime), **also})))
        if mine == theirs:
            return record
        keys = sorted(k for k in {*mine, *theirs} if mine.get(k) != theirs.get(k))
        changed = "; ".join(f"{k} was {theirs.get(k)!r}, now {mine.get(k)!r}" for k in keys[:4])
        raise DiverError(
            f"{self.file}: {name} holds a run of another recipe ({changed}); give another --out, or delete its line"
        )

    def add(self, job: Job, record: Mapping[str, Any]) -> None:
        """Add the record of a run, in the place of one of its name."""
        add(self.file, {self.prefix + job.name: record})


def origin() -> dict[str, Any]:
    """What every record says of its code: commit and versions."""
    return {key: value for key, value in provenance().items() if key != "started"}


def rounded(value: Any) -> Any:
    """Numbers with `DIGITS` significant digits: a record is read by people and kept in git."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def main(args: Sequence[str]) -> None:
    """Add single files, each under its path in the folder without .json; one of another content is refused."""
    if len(args) != 2:
        raise DiverError("give FILE and FOLDER: docs/results/records/STUDY.jsonl.gz, and the folder of the JSON files")
    file, folder = map(Path, args)
    given = {
        path.relative_to(folder).with_suffix("").as_posix(): read_json(path) for path in sorted(folder.rglob("*.json"))
    }
    there = {name: json.loads(line) for name, line in read(file).items() if name in given}
    if other := [name for name, record in there.items() if record != {"name": name, **given[name]}]:
        raise DiverError(f"{file}: has another record of the name {other[0]}; nothing is added")
    add(file, {name: record for name, record in given.items() if name not in there})
    print(f"{file}: {len(given) - len(there)} records added, {len(there)} were there")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except DiverError as error:
        sys.exit(f"records: {error}")
