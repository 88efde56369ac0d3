"""The records of a sweep or a study: one compressed JSON Lines file, a line a run, sorted by name."""

import gzip
import json
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from diver.core.files import ESCAPED, lock, make_folder, to_json, write_parts
from diver.core.types import DiverError

Record = Mapping[str, Any]


def read(file: Path) -> dict[str, dict[str, Any]]:
    """The name of each record -> the record; empty without a file."""
    return {name: json.loads(line) for name, line in lines(file).items()}


def lines(file: Path) -> Mapping[str, bytes]:
    """The name of each record -> its line; empty without a file."""
    if not file.exists():
        return {}
    stat = file.stat()
    return _lines(file, stat.st_ino, stat.st_mtime_ns)


@lru_cache(maxsize=4)
def _lines(file: Path, *_: int) -> Mapping[str, bytes]:
    """`lines`, cached until the file changes: a page looks up hundreds of records, one by one."""
    try:
        return {json.loads(line)["name"]: line for line in gzip.decompress(file.read_bytes()).splitlines()}
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as e:
        raise DiverError(f"{file}: is not a file of records ({e}); restore it, or give another --out") from None


def add(file: Path, records: Mapping[str, Record]) -> None:
    """Add records by name. A record replaces an earlier one of the same name.

    One process writes at a time, and the others wait for it, so that runs in parallel keep each other's records. The
    file is complete at any time, also for a reader or after a kill. The same records give the same bytes.
    """
    make_folder(file.parent)
    with lock(file.parent, wait=True):
        new = {name: to_json({"name": name, **record}).encode(errors=ESCAPED) for name, record in records.items()}
        merged = {**lines(file), **new}
        content = b"".join(merged[name] + b"\n" for name in sorted(merged))
        write_parts(file, [gzip.compress(content, mtime=0)])
