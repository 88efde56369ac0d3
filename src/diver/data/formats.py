"""Files of rows, each row with its place: JSON Lines, JSON, CSV and parquet, in UTF-8 with or without a byte order mark."""

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from diver.io.jsonl import read_jsonl
from diver.types import DiverError

Rows = Iterable[tuple[str, Any]]
"""(Location, a mapping or a Problem)."""


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
    absent = (None,) if keep_empty else (None, "")
    csv.field_size_limit(sys.maxsize)
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)  # else an open quote takes in all the rows that follow
            if twice := [name for name, count in Counter(reader.fieldnames or ()).items() if name and count > 1]:
                raise DiverError(f"{path}: has more than one column {twice[0]!r}; rename all but one")
            for number, row in enumerate(reader, start=1):
                if None in row:
                    raise DiverError(f"{path}, row {number}: has more fields than the header")
                yield f"{path}, row {number}", {name: value for name, value in row.items() if value not in absent}
    except UnicodeDecodeError as error:
        raise DiverError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error
    except csv.Error as error:
        raise DiverError(f"{path}, row {number + 1}: not CSV ({error}): see its quotes") from error


def load_json(path: Path) -> Any:
    """The value of a JSON file; DiverError where it is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        lines = "; name a file of JSON Lines .jsonl" if "Extra data" in str(error) else ""
        raise DiverError(f"{path}: not JSON ({error}){lines}") from error


def read_json_rows(path: Path) -> Rows:
    """The objects of a JSON list, or of the only list in an object."""
    content = load_json(path)
    lists = [value for value in content.values() if isinstance(value, list)] if isinstance(content, Mapping) else []
    return numbered(path, lists[0] if len(lists) == 1 else content)


def numbered(path: Path, rows: Any) -> Rows:
    if not isinstance(rows, list):
        raise DiverError(f"{path}: must be a list of rows, not a {type(rows).__name__}")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise DiverError(f"{path}, row {number}: a {type(row).__name__}, not an object")
        yield f"{path}, row {number}", row


READERS: dict[str, Callable[[Path], Rows]] = {
    ".jsonl": read_jsonl,
    ".parquet": read_parquet,
    ".csv": read_csv,
    ".json": read_json_rows,
}
