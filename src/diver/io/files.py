"""Files that are whole or absent, and folders that one process works in at a time."""

import fcntl
import os
from pathlib import Path
from typing import IO

from diver.types import DiverError


def write_text(path: Path, text: str) -> None:
    """`write_bytes` of UTF-8."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write aside, then rename: readers see the old file or the new one, never half of one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.part")
    try:
        with open(aside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as e:
        e.filename = str(path)  # a full disk does not say whose file it is
        raise
    finally:
        aside.unlink(missing_ok=True)


def lock(folder: Path) -> IO[str]:
    """Lock `folder` against other processes until the returned file is closed or this process ends."""
    file = open(folder / ".lock", "w")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise DiverError(f"{folder}: another process is using this folder") from None
    return file
