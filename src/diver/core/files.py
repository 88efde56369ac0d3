"""Storage: files that are complete or absent, JSON Lines, and folders that one process uses at a time."""

import contextlib
import errno
import fcntl
import json
import math
import os
import platform
import sys
import tempfile
import tomllib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, Self

from diver.core.types import DiverError

ESCAPED = "backslashreplace"
"""A lone surrogate, which UTF-8 cannot encode, becomes its escape."""
NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK}


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, by `write_parts`."""
    write_parts(path, [text.encode(errors=ESCAPED)])


def write_parts(path: Path, parts: Iterable[bytes]) -> None:
    """Write to another file, then rename it: readers see the old file or the complete new one.

    If two processes write at the same time, the last one wins.
    """
    # Cut, since most file systems allow names of 255 bytes.
    aside = path.with_name(f".{path.name[:100]}.{uuid.uuid4().hex[:8]}.part")
    make_folder(path.parent)
    try:
        with named_in_errors(path), open(aside, "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
            os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


@contextlib.contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """Name this file or folder in an OSError of the block: the error of a full disk names no file."""
    try:
        yield
    except OSError as e:
        e.filename = str(path)
        raise


@contextlib.contextmanager
def _holds_files(path: Path) -> Iterator[None]:
    """`named_in_errors`; DiverError for a place where no folder can be, under a file or in /proc."""
    try:
        with named_in_errors(path):
            yield
    except (FileExistsError, NotADirectoryError, FileNotFoundError):
        file = next((p for p in (path, *path.parents) if p.exists() and not p.is_dir()), None)
        reason = f", {file} is a file" if file else ""
        raise DiverError(f"{path}: no folder can be made here{reason}; name another") from None


def make_folder(path: Path) -> None:
    """Make a folder and those above it. DiverError if one of them is a file, or in a place such as /proc."""
    with _holds_files(path):
        path.mkdir(parents=True, exist_ok=True)


def check_folder(path: Path) -> None:
    """Raise what `make_folder`, or writing a file into the folder, would raise. Nothing is left behind."""
    with _holds_files(path):
        tempfile.TemporaryFile(dir=next(p for p in (path, *path.parents) if p.exists())).close()


def lock(folder: Path, wait: bool = False) -> IO[str]:
    """Lock `folder` against other processes until the returned file is closed or this process ends.

    If another process has the lock, this one raises DiverError, or waits for it with `wait`.
    On a file system without locks, as on some clusters, a note on standard error asks the user to take care.
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


# ---- JSON and JSON Lines

Rows = Iterable[tuple[str, Mapping[str, Any]]]
"""Rows of a file, each with its place: `FILE:LINE`."""


class InvalidRow(DiverError):
    """A row that cannot be used: its place, the reason, which rows with the same fault share, and details."""

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
    is_finite = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return float(value) if is_finite else math.nan


def table(row: Any, *keys: str) -> dict[str, Any]:
    """The table at row[key][key]..., or an empty table if there is none."""
    for key in keys:
        row = row.get(key) if isinstance(row, Mapping) else None
    return dict(row) if isinstance(row, Mapping) else {}


def packaged_table(package: str, name: str) -> dict[str, Any]:
    """The table in a TOML file of a package, such as panels.toml of diver.pages."""
    return tomllib.loads((files(package) / name).read_text(encoding="utf-8"))


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
    """The object in a JSON file. InvalidRow names the file if it has no object."""
    return _row((str(path), path.read_bytes()))[1]


def load_json(path: Path) -> Any:
    """The value of a JSON file. DiverError if it is none: a file is no row that could be left out."""
    try:
        return _loaded(str(path), path.read_bytes())
    except InvalidRow as error:
        raise DiverError(str(error)) from error


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
    if not isinstance(row := _loaded(where, line), dict):
        raise InvalidRow(where, f"a {type(row).__name__}, not an object")
    return where, row


def _loaded(where: str, content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # ValueError: e.g. a number of over 4,300 digits
        expected = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
        hint = "; name a file of JSON Lines .jsonl" if "Extra data: line 2" in str(error) else ""
        raise InvalidRow(where, f"not {expected}", f" ({error}){hint}") from error


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows to a file, which is complete or absent afterwards."""
    write_parts(path, (f"{to_json(row)}\n".encode(errors=ESCAPED) for row in rows))


class JsonlLog(contextlib.AbstractContextManager["JsonlLog", None]):
    """A JSONL file to which one writer appends rows. `before` is called before each append."""

    def __init__(self, path: Path, before: Callable[[], None] = lambda: None) -> None:
        self.path, self._before = path, before
        self._fd: int | None = None

    def rows(self) -> Iterator[dict[str, Any]]:
        """The complete rows, one by one: a file may be larger than memory."""
        return (row for _, row in read_jsonl(self.path, appended=True))

    def append(self, row: Mapping[str, Any]) -> None:
        """Append a row. If the disk is full, the row is removed again, and the OSError names the file."""
        self._before()
        if self._fd is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
            with self.path.open("rb") as lines:  # a kill may have left half a row
                os.ftruncate(self._fd, sum(len(line) for line in lines if line.endswith(b"\n")))
        fd = self._fd
        data = f"{to_json(row)}\n".encode(errors=ESCAPED)
        size = os.fstat(fd).st_size
        with named_in_errors(self.path):
            try:
                while data:
                    data = data[os.write(fd, data) :]
            finally:
                if data:
                    with contextlib.suppress(OSError):
                        os.ftruncate(fd, size)

    def close(self) -> None:
        """Sync the rows to the disk: after a loss of power, no file derived from them exists without them."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with named_in_errors(self.path):  # a network file system reports a full disk here
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- folders for one piece of work


class MemoryLog:
    """A log that is not stored."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def rows(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def append(self, row: Mapping[str, Any]) -> None:
        self._rows.append(dict(row))


Log = JsonlLog | MemoryLog


KINDS = {"engine": "a training run", "model": "an evaluation", "rollouts": "the grades of rollouts"}
"""A key of the identity -> the kind of work that has it."""


class WorkFolder:
    """A folder whose config.json has the `identity` of the work in it; other work is refused.

    Nothing is written before `begin`, which locks it until `close`.
    """

    content = "a run of another recipe"
    option = "run.folder"
    """The setting that names the folder."""

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        identity: Mapping[str, Any],
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """`defaults` are the values of keys of the identity that did not exist when an older folder was made."""
        self.path, self._file = path, path / "config.json"
        self.config: dict[str, Any] = json.loads(to_json({**config, "identity": identity}))
        self._defaults = json.loads(to_json(defaults or {}))
        self._lock: IO[str] | None = None
        if self._file.exists():
            self._take_over()
            self._lock = lock(path)  # lock the folder before any other file in it is read
        else:
            check_folder(path)
            if path.exists() and any(not p.name.startswith(".") for p in path.iterdir()):
                raise DiverError(f"{path}: has files but no config.json; choose another {self.option}")

    def begin(self) -> None:
        """Make the folder, lock it against other processes, and write config.json if it is missing."""
        make_folder(self.path)
        self._lock = self._lock or lock(self.path)
        for file in self.path.rglob(".*.part"):  # partial files that a kill left behind
            # Another process may be writing the report at this moment.
            if file.is_file() and not file.name.startswith(".report.html."):
                file.unlink()
        if self._file.exists():
            self._take_over()
        else:
            write_text(self._file, to_json(self.config, indent=2) + "\n")

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_over(self) -> None:
        """Read the existing config.json, if it has the same identity."""
        stored, mine = read_json(self._file), self.config["identity"]
        fields = stored.get("identity")
        if not isinstance(fields, dict):
            raise DiverError(f"{self._file}: is not the config.json of a run; choose another {self.option}")
        theirs = {key: self._defaults.get(key) for key in mine} | fields
        changed = sorted(key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key))
        if changed and mine.keys().isdisjoint(fields):
            kind = next((kind for key, kind in KINDS.items() if key in fields), "other work")
            raise DiverError(f"{self.path}: has {kind}; choose another {self.option}")
        if changed:
            # A name determines which other keys exist, so it comes first. Keys that only one of the two has come last.
            changed.sort(key=lambda key: (not key.endswith(("engine", ".name")), key not in mine or key not in fields))
            changes = "; ".join(f"{key} was {theirs.get(key)!r}, now {mine.get(key)!r}" for key in changed[:4])
            raise DiverError(f"{self.path}: has {self.content} ({changes}); choose another {self.option}{self.anew}")
        self.config = stored

    @property
    def anew(self) -> str:
        """An alternative for a folder that cannot be continued; it follows "choose another folder"."""
        return (
            ", or begin anew with --restart" if self.config["identity"].get("engine") == "built-in" else " or delete it"
        )
