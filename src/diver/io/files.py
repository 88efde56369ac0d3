"""Files that are whole or absent, and folders that one process works in at a time."""

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO

from diver.types import DiverError


def write_text(path: Path, text: str) -> None:
    """`write_bytes` of UTF-8."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write aside, then rename: readers see the old file or the new one, never half of one."""
    make_folder(path.parent)
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


def make_folder(path: Path) -> None:
    """Make a folder and those above it. DiverError where one of them is a file, or in a place such as /proc."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError, FileNotFoundError):
        raise _not_here(path) from None


def check_folder(path: Path) -> None:
    """Raises what `make_folder`, or the first file in the folder, would raise; nothing is left behind."""
    try:
        tempfile.TemporaryFile(dir=_nearest(path)).close()
    except (NotADirectoryError, FileNotFoundError):
        raise _not_here(path) from None
    except OSError as e:
        e.filename = str(path)
        raise


def _nearest(path: Path) -> Path:
    """The path itself, or the nearest above it that is there."""
    return next(p for p in (path, *path.parents) if p.exists())


def _not_here(path: Path) -> DiverError:
    there = _nearest(path)
    reason = "" if there.is_dir() else f", {there} is a file"
    return DiverError(f"{path}: no folder can be made here{reason}; name another")


def lock(folder: Path) -> IO[str]:
    """Lock `folder` against other processes until the returned file is closed or this process ends."""
    file = open(folder / ".lock", "w")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise DiverError(f"{folder}: another process is using this folder") from None
    return file
