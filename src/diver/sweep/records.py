"""The records of a sweep: one compressed JSON Lines file, a line a run, sorted by name."""

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diver.core.files import as_utf8, lock, make_folder, to_json, write_parts
from diver.core.types import DiverError

Record = Mapping[str, Any]


def read(file: Path) -> dict[str, dict[str, Any]]:
    """The name of each record -> the record; empty without a file."""
    if not file.exists():
        return {}
    try:
        rows = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
        return {row["name"]: row for row in rows}
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as e:
        raise DiverError(f"{file}: is not a file of records ({e}); restore it, or give another --out") from None


def add(file: Path, records: Mapping[str, Record]) -> None:
    """Add records by name, each in the place of one of its name.

    One process writes at a time, and the others wait for it. A reader, and a kill, find the file before or after. The
    same records give the same bytes.
    """
    make_folder(file.parent)
    with lock(file.parent, wait=True):
        rows = {**read(file), **{name: {**record, "name": name} for name, record in records.items()}}
        content = b"".join(as_utf8(to_json(dict(sorted(rows[name].items())))) + b"\n" for name in sorted(rows))
        write_parts(file, [gzip.compress(content, mtime=0)])
