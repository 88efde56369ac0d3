"""Files that are whole or absent, and folders that one process works in at a time."""

import errno
import fcntl
import os
import platform
import sys
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from diver.core.types import DiverError

NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK}


def write_text(path: Path, text: str) -> None:
    """`write_parts` of UTF-8."""
    write_parts(path, [as_utf8(text)])


def as_utf8(text: str) -> bytes:
    """A lone surrogate, which UTF-8 lacks, as its escape."""
    return text.encode("utf-8", "backslashreplace")


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """Write aside, then rename: readers see the old file or the new one, never half of one, and of two writers the
    last."""
    make_folder(path.parent)
    aside = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex[:8]}.part")
    try:
        with open(aside, "wb") as file:
            file.writelines(parts)
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
    """The path itself, or the nearest parent that exists."""
    return next(p for p in (path, *path.parents) if p.exists())


def _not_here(path: Path) -> DiverError:
    there = _nearest(path)
    reason = "" if there.is_dir() else f", {there} is a file"
    return DiverError(f"{path}: no folder can be made here{reason}; name another")


def lock(folder: Path, wait: bool = False) -> IO[str]:
    """Lock `folder` against other processes until the returned file is closed or this process ends.

    Where another process has the lock: DiverError, or with `wait` this one waits for it.
    A file system without locks, as some clusters have, is a note on standard error: then it is up to the user.
    """
    file = open(folder / ".lock", "a+")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip()
        file.close()
        raise DiverError(f"{folder}: another process is using this folder{f' ({owner})' * bool(owner)}") from None
    except OSError as e:
        if e.errno not in NO_LOCKS:
            file.close()
            raise
        print(f"{folder}: cannot be locked ({e.strerror}): let no other process use it", file=sys.stderr)
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}\n")
    file.flush()
    return file
