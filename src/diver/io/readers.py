"""Rows of JSONL and parquet files, each with where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from diver.types import DiverError

Rows = Iterable[tuple[str, Mapping[str, Any]]]


def _read_jsonl(path: Path) -> Rows:
    with path.open(encoding="utf-8") as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield f"{path}:{number}", _object(line, f"{path}:{number}")
        except UnicodeDecodeError as error:
            raise DiverError(f"{path}: not a text file in UTF-8 ({error.reason} at byte {error.start})") from error


def _object(line: str, where: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # a ValueError alone for a number of more than 4,300 digits
        raise DiverError(f"{where}: not JSON ({error}); a line must be one object") from error
    if not isinstance(row, dict):
        raise DiverError(f"{where}: a {type(row).__name__}, not an object with a problem and an answer")
    return row


def _read_parquet(path: Path) -> Rows:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        for batch in ParquetFile(path).iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield f"{path}, row {number}", row
    except (ArrowException, OSError) as error:
        raise DiverError(f"{path}: not a readable parquet file ({error})") from error


READERS = {".jsonl": _read_jsonl, ".parquet": _read_parquet}
