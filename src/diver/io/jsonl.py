"""JSON and JSON Lines: how values are written, how rows are read and appended."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from diver.types import DiverError


def to_json(value: Any) -> str:
    """One line of JSON; NaN and infinities, which JSON lacks, become null."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


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


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The whole rows of a JSONL file; a last line without its newline was cut off by a kill and is left out."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    rows = []
    for number, line in enumerate(text[: text.rfind("\n") + 1].split("\n"), start=1):
        if line:
            try:
                rows.append(json.loads(line))
            except ValueError as e:
                raise DiverError(f"{path}:{number}: is not JSON ({e}); mend or delete this line") from None
    return rows


def append_row(fd: int, row: Mapping[str, Any]) -> None:
    """Add one row to an open JSONL file by a single write; one that does not fit on the disk is taken back."""
    data = (to_json(row) + "\n").encode("utf-8", errors="backslashreplace")
    size = os.fstat(fd).st_size
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, size)
        raise


class JsonlLog:
    """A JSONL file that grows by whole rows; one writer at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """The whole rows, one by one: a file may hold more text than memory."""
        if not self.path.exists():
            return
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    return
                try:
                    row = json.loads(line)
                except ValueError:
                    row = None
                if not isinstance(row, dict):
                    raise DiverError(
                        f"{self.path}:{number}: is no row of this file; delete that line, and it is made again"
                    )
                yield row

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row by one write; where the disk is full it is taken back, and the OSError goes on."""
        append_row(self._open(), row)

    def _open(self) -> int:
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            os.ftruncate(self._fd, _whole(self._fd))
        return self._fd

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> JsonlLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _whole(fd: int) -> int:
    """The length of the file up to its last newline, searched from its end."""
    end = os.fstat(fd).st_size
    while end:
        start = max(0, end - (1 << 16))
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
