"""Files of rows, each row with its place: JSON Lines, JSON, CSV and parquet,
in UTF-8 with or without a byte order mark."""

import codecs
import csv
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from diver.core.files import load_json, read_jsonl, write_parts
from diver.core.types import DiverError

Rows = Iterable[tuple[str, Any]]
"""(Location, a mapping or a Problem)."""
ROWS = "rows data samples results examples records rollouts responses generations predictions".split()
"""Usual names of the rows of an object that has several lists of objects."""


BY_ID = "; jq -c 'to_entries[] | {{id: .key}} + .value' {} > rows.jsonl makes rows of objects by id"


class NoRows(DiverError):
    """A JSON object without rows, such as settings stored beside them."""


def check_content(path: Path) -> None:
    """Raises DiverError, with the command that helps, for a pointer of Git LFS or a file that is not UTF-8."""
    with path.open("rb") as file:
        start = file.read(40)
    if start.startswith(b"version https://git-lfs"):
        raise DiverError(
            f"{path}: a pointer of Git LFS, not the data; in its clone: git lfs pull --include {path.name}"
        )
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # the "Unicode text" of Excel, > of PowerShell
        raise DiverError(f"{path}: UTF-16, not UTF-8; iconv -f UTF-16 -t UTF-8 {path} > utf8{path.suffix} converts it")


def read_parquet(path: Path) -> Rows:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        for batch in ParquetFile(path).iter_batches(batch_size=64):  # rows of long responses fill the memory
            for row in batch.to_pylist():
                number += 1
                yield f"{path}, row {number}", row
    except (ArrowException, OSError) as error:
        raise DiverError(f"{path}: not a readable parquet file ({error})") from error


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows to a file, which is complete or absent afterwards. ArrowException for a column of two types."""
    import pyarrow
    from pyarrow.parquet import write_table

    content = io.BytesIO()
    write_table(pyarrow.Table.from_pylist(rows), content)
    write_parts(path, [content.getvalue()])


def read_csv(path: Path, keep_empty: bool = False) -> Rows:
    """The rows of a CSV file. Values are texts, and empty ones are left out unless `keep_empty`."""
    csv.field_size_limit(sys.maxsize)  # a response may exceed the default of 131,072 characters
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            # Excel writes `;` where a comma is the decimal point.
            delimiter = next((mark for mark in ";\t" if mark in header and "," not in header), ",")
            file.seek(0)
            # If not strict, an unclosed quote swallows all following rows.
            reader = csv.DictReader(file, delimiter=delimiter, strict=True)
            if duplicates := [name for name, count in Counter(reader.fieldnames or ()).items() if name and count > 1]:
                raise DiverError(f"{path}: has more than one column {duplicates[0]!r}; rename all but one")
            for number, row in enumerate(reader, start=1):
                if None in row or None in row.values():
                    short = "has fewer fields than the header, as if cut off; an empty field needs its comma"
                    fault = "has more fields than the header" if None in row else short
                    raise DiverError(f"{path}, row {number}: {fault}")
                yield f"{path}, row {number}", {name: value for name, value in row.items() if value or keep_empty}
    except UnicodeDecodeError as error:
        raise DiverError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error
    except csv.Error as error:
        raise DiverError(f"{path}, row {number + 1}: not CSV ({error}): see its quotes") from error


def numbered(path: Path, content: Any) -> Rows:
    """The rows of a list, or of the only list of objects in an object, each with its place.

    A table of W&B, whose rows are lists, has its column names under `columns`. If an object has several lists of
    objects, the one with a usual name is read.

    Raises:
        DiverError: no list or more than one has a usual name; the message names the keys. It is NoRows if no list has
            an object.
    """
    if isinstance(content, Mapping) and {"columns", "data"} <= content.keys():
        columns, rows = content["columns"], content["data"]
        if isinstance(columns, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows):
            if uneven := [position for position, row in enumerate(rows, start=1) if len(row) != len(columns)]:
                raise DiverError(f"{path}, data, row {uneven[0]}: must have a value for each of {len(columns)} columns")
            content = [dict(zip(columns, row, strict=True)) for row in rows]
    place, rows = str(path), content
    kind: type[DiverError] = DiverError
    if isinstance(content, Mapping):
        lists = {name: value for name, value in content.items() if isinstance(value, list)}
        tables = [name for name, rows in lists.items() if any(isinstance(row, Mapping) for row in rows)]
        usual = [name for name in tables if name in ROWS]
        kind = kind if tables else NoRows
        chosen = next((names for names in (tables, usual, [*lists]) if len(names) == 1), None)
        if chosen is None:
            several = tables or [*content]
            keys = ", ".join(several[:8]) or "none"
            raise kind(
                f"{path}: must be a list of rows, not a dict; a dict may have one list of rows, here keys are {keys}"
                + BY_ID.format(path) * bool(content and all(isinstance(value, Mapping) for value in content.values()))
            )
        place, rows = f"{path}, {chosen[0]}", lists[chosen[0]]
    elif not isinstance(content, list):
        raise DiverError(f"{path}: must be a list of rows, not a {type(content).__name__}")
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
