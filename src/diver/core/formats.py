"""Files of rows, each row with its place: JSON Lines, JSON, CSV and parquet,
in UTF-8 with or without a byte order mark."""

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from diver.core.files import read_jsonl
from diver.core.types import DiverError

Rows = Iterable[tuple[str, Any]]
"""(Location, a mapping or a Problem)."""
ROWS = "rows data samples results examples records rollouts responses generations predictions".split()
"""Usual names of the rows of an object that has several lists of objects."""


class NoRows(DiverError):
    """A JSON object without rows, such as the settings that lie beside them."""


def read_parquet(path: Path) -> Rows:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        for batch in ParquetFile(path).iter_batches(batch_size=64):
            for row in batch.to_pylist():
                number += 1
                yield f"{path}, row {number}", row
    except (ArrowException, OSError) as error:
        raise DiverError(f"{path}: not a readable parquet file ({error})") from error


def read_csv(path: Path, keep_empty: bool = False) -> Rows:
    """Values are texts; those that are empty are left out, or kept as such."""
    csv.field_size_limit(sys.maxsize)
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)  # otherwise an unclosed quote swallows all following rows
            if twice := [name for name, count in Counter(reader.fieldnames or ()).items() if name and count > 1]:
                raise DiverError(f"{path}: has more than one column {twice[0]!r}; rename all but one")
            for number, row in enumerate(reader, start=1):
                if None in row:
                    raise DiverError(f"{path}, row {number}: has more fields than the header")
                if None in row.values():
                    short = "has fewer fields than the header, as if cut off; an empty field needs its comma"
                    raise DiverError(f"{path}, row {number}: {short}")
                yield f"{path}, row {number}", {name: value for name, value in row.items() if value or keep_empty}
    except UnicodeDecodeError as error:
        raise DiverError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error
    except csv.Error as error:
        raise DiverError(f"{path}, row {number + 1}: not CSV ({error}): see its quotes") from error


def load_json(path: Path) -> Any:
    """The value of a JSON file; DiverError if it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        lines = "; name a file of JSON Lines .jsonl" if "Extra data" in str(error) else ""
        raise DiverError(f"{path}: not JSON ({error}){lines}") from error


def numbered(path: Path, content: Any) -> Rows:
    """The rows of a list, or of the only list of objects in an object, each with its place.

    If there are several such lists, the one with a usual name is read.

    Raises:
       DiverError: no list or more than one has a usual name; the message names the keys. It is NoRows if no list has an
       object.
    """
    if isinstance(content, Mapping):
        lists = {name: value for name, value in content.items() if isinstance(value, list)}
        of_objects = [name for name, rows in lists.items() if any(isinstance(row, Mapping) for row in rows)]
        usual = [name for name in of_objects if name in ROWS]
        kind = DiverError if of_objects else NoRows
        chosen = next((names for names in (of_objects, usual, [*lists]) if len(names) == 1), None)
        if chosen is None:
            several = of_objects or [*content]
            keys = ", ".join(several[:8]) or "none"
            raise kind(
                f"{path}: must be a list of rows, not a dict; a dict may have one list of rows, here keys are {keys}"
            )
        yield from _placed(f"{path}, {chosen[0]}", lists[chosen[0]], kind)
    elif isinstance(content, list):
        yield from _placed(str(path), content, DiverError)
    else:
        raise DiverError(f"{path}: must be a list of rows, not a {type(content).__name__}")


def _placed(place: str, rows: list[Any], kind: type[DiverError]) -> Rows:
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise kind(f"{place}, row {number}: a {type(row).__name__}, not an object")
        yield f"{place}, row {number}", row


READERS: dict[str, Callable[[Path], Rows]] = {
    ".jsonl": read_jsonl,
    ".parquet": read_parquet,
    ".csv": read_csv,
    ".json": lambda path: numbered(path, load_json(path)),
}
