"""JSON and JSON Lines: how values are written, how rows are read and appended."""

import contextlib
import json
import math
import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from diver.core.files import as_utf8, write_parts
from diver.core.types import DiverError

Rows = Iterable[tuple[str, Mapping[str, Any]]]
"""Rows of a file, each with its place: `FILE:LINE`."""


class InvalidRow(DiverError):
    """A row that cannot be used: where it is, and the reason, the same for all rows of its kind, before the details."""

    def __init__(self, where: str, reason: str, details: str = "") -> None:
        super().__init__(f"{where}: {reason}{details}")
        self.where, self.reason = where, reason


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON, in one line unless there is an indent; NaN and infinities, which JSON lacks, become null."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, indent=indent)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.item() if hasattr(value, "item") else value


def number(value: Any) -> float:
    """A finite number as a float; NaN for everything else, so that an odd value never breaks a reader."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return float(value) if known else math.nan


def table(row: Any, *keys: str) -> dict[str, Any]:
    """row[key][key]...: the table there, or an empty one."""
    for key in keys:
        row = row.get(key) if isinstance(row, Mapping) else None
    return dict(row) if isinstance(row, Mapping) else {}


def read_jsonl(path: Path, *, appended: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a JSONL file, one by one, each after its place `FILE:LINE`; blank lines are skipped.

    Args:
        appended: whether `JsonlLog` appends to the file. It may then not exist yet, and a last line without its newline
            was cut off by a kill and is left out.

    Raises:
        InvalidRow: a line is not an object. The next line can be read after it.
    """
    return map(_row, _lines(path, appended))  # unlike a generator, `map` continues after an exception


def read_json(path: Path) -> dict[str, Any]:
    """The object of a JSON file. InvalidRow names the file where it is none."""
    return _row((str(path), path.read_bytes()))[1]


def _lines(path: Path, appended: bool) -> Iterator[tuple[str, bytes]]:
    if appended and not path.exists():
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if appended and not line.endswith(b"\n"):
                return
            if line.strip():
                yield f"{path}:{number}", line


def _row(placed: tuple[str, bytes]) -> tuple[str, dict[str, Any]]:
    where, line = placed
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidRow(where, "not UTF-8", f" ({error.reason} at byte {error.start})") from error
    except (ValueError, RecursionError) as error:  # a ValueError alone for a number of more than 4,300 digits
        raise InvalidRow(where, "not JSON", f" ({error})") from error
    if not isinstance(row, dict):
        raise InvalidRow(where, f"a {type(row).__name__}, not an object")
    return where, row


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a whole file of rows, one after another; it is whole or absent."""
    write_parts(path, (as_utf8(to_json(row) + "\n") for row in rows))


class JsonlLog:
    """A JSONL file that grows by whole rows; one writer at a time. `before` is called before each row is appended."""

    def __init__(self, path: Path, before: Callable[[], None] = lambda: None) -> None:
        self.path, self._before = path, before
        self._fd: int | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """The whole rows, one by one: a file may hold more text than memory."""
        return (row for _, row in read_jsonl(self.path, appended=True))

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row by a single write. Where the disk is full it is taken back, and the OSError names the file."""
        self._before()
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            if os.fstat(self._fd).st_size:  # an empty file cannot be mapped
                with mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ) as content:
                    whole = content.rfind(b"\n") + 1
                os.ftruncate(self._fd, whole)  # a kill may have left half a row
        fd = self._fd
        data = as_utf8(to_json(row) + "\n")
        size = os.fstat(fd).st_size
        try:
            while data:
                data = data[os.write(fd, data) :]
        except OSError as e:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, size)
            e.filename = str(self.path)
            raise

    def close(self) -> None:
        """The rows are on the disk then: what is written from them afterwards does not outlive them in
        a loss of power."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            try:
                os.fsync(fd)
            except OSError as e:  # where a network file system tells that a disk or a quota is full
                e.filename = str(self.path)
                raise
            finally:
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
