"""Files of rows by their suffix: JSONL and parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from diver.io.jsonl import Rows, read_jsonl
from diver.types import DiverError


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


READERS: dict[str, Callable[[Path], Rows]] = {".jsonl": read_jsonl, ".parquet": _read_parquet}
