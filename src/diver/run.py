"""The run folder: what a run leaves behind, and how it survives being killed.

    config.json            the resolved recipe, versions, seed, commit, command
    metrics.jsonl          a row a step, only ever appended to
    rollouts/step_NNNN.jsonl, eval/step_NNNN.json, checkpoints/step_NNNN/, report.html

Every file but metrics.jsonl is written aside and renamed, so it is whole or absent. A row of metrics.jsonl is one
write; what a killed run left after its last checkpoint, half a row included, is dropped when the run goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from diver.types import DiverError


def stream_seed(seed: int, *key: object) -> int:
    """The seed of a random stream of its own for each key, such as (seed, "sample", step).

    Every random number of a run comes from such a stream, so a run's random state IS its step: nothing else has to
    be saved, and whatever one purpose draws leaves the others untouched.
    """
    return int.from_bytes(hashlib.blake2b(repr((seed, *key)).encode(), digest_size=8).digest()) >> 1


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
    finally:
        aside.unlink(missing_ok=True)


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


def lock(folder: Path) -> IO[str]:
    """Hold `folder` against other processes until the returned file is closed, by the end of this process at the latest."""
    file = open(folder / ".lock", "w")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise DiverError(f"{folder}: another process is at work in this folder") from None
    return file


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


class RunFolder:
    """One run's folder. Nothing is written before `begin`, which locks it until `close`.

    `identity` is the recipe without steps, paths and loggers: another recipe may not go on in this folder.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        identity: Mapping[str, Any],
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """`defaults` stand for the keys that an older run, made before they existed, does not have."""
        self.path = path
        self._lock: IO[str] | None = None
        if path.exists() and not path.is_dir():
            raise DiverError(f"{path}: is a file; run.folder must name a folder")
        known = path / "config.json"
        if path.exists() and not known.exists() and any(not p.name.startswith(".") for p in path.iterdir()):
            raise DiverError(f"{path}: has files but no config.json, so it is no run folder; choose another run.folder")
        if known.exists():
            self.config = self._read_config(known)
            self._check_identity(identity, defaults or {})
            self._hold()  # before the checkpoints are looked at
        else:
            self.config = json.loads(to_json({**config, "identity": identity}))

    def begin(self) -> None:
        """Make the folder, lock it against other processes, and write config.json if there is none."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._hold()
        if not (self.path / "config.json").exists():
            write_text(self.path / "config.json", json.dumps(self.config, indent=2, ensure_ascii=False) + "\n")

    def _hold(self) -> None:
        self._lock = self._lock or lock(self.path)

    @staticmethod
    def _read_config(path: Path) -> dict[str, Any]:
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            return {**config, "identity": config["identity"]}
        except (ValueError, KeyError, TypeError) as e:
            raise DiverError(f"{path}: is not the config.json of a run ({e}); choose another run.folder") from None

    def _check_identity(self, identity: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        mine = json.loads(to_json(identity))
        theirs = {**json.loads(to_json(defaults)), **self.config["identity"]} if defaults else self.config["identity"]
        theirs = {k: v for k, v in theirs.items() if k in mine or k in self.config["identity"]}
        if mine == theirs:
            return
        keys = sorted(k for k in {*mine, *theirs} if mine.get(k) != theirs.get(k))
        told = "; ".join(f"{k} was {theirs.get(k)!r}, now {mine.get(k)!r}" for k in keys[:4])
        raise DiverError(f"{self.path}: holds a run of another recipe ({told}); choose another run.folder or delete it")

    def append(self, name: str, row: Mapping[str, Any]) -> None:
        fd = os.open(self.path / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            append_row(fd, row)
        finally:
            os.close(fd)

    def rows(self, name: str) -> list[dict[str, Any]]:
        return read_rows(self.path / name)

    def keep_until(self, step: int) -> None:
        """Drop what was written after `step`, the last checkpoint: these steps are made again, to the same end."""
        metrics = [row for row in self.rows("metrics.jsonl") if row["step"] <= step]
        if (self.path / "metrics.jsonl").exists():
            write_text(self.path / "metrics.jsonl", "".join(to_json(row) + "\n" for row in metrics))
        for folder, suffix in (("rollouts", ".jsonl"), ("eval", ".json")):
            for path in (self.path / folder).glob(f"step_*{suffix}"):
                if _step_of(path) > step:
                    path.unlink()

    def write_rollouts(self, step: int, rows: Iterable[Mapping[str, Any]]) -> None:
        write_text(self.path / "rollouts" / f"step_{step:04d}.jsonl", "".join(to_json(row) + "\n" for row in rows))

    def write_evaluation(self, step: int, result: Mapping[str, Any]) -> None:
        write_text(self.path / "eval" / f"step_{step:04d}.json", json.dumps(json.loads(to_json(result)), indent=1))

    def evaluation(self, step: int) -> dict[str, Any] | None:
        path = self.path / "eval" / f"step_{step:04d}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    @contextlib.contextmanager
    def new_checkpoint(self, step: int) -> Iterator[Path]:
        """A folder to fill; it becomes checkpoints/step_NNNN when the block ends well, and vanishes otherwise."""
        final = self.path / "checkpoints" / f"step_{step:04d}"
        aside = final.with_name(f".{final.name}.part")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            yield aside
            for file in aside.rglob("*"):
                if file.is_file():
                    with open(file, "rb") as f:
                        os.fsync(f.fileno())
            shutil.rmtree(final, ignore_errors=True)
            os.replace(aside, final)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def checkpoints(self) -> list[Path]:
        """Whole checkpoints, oldest first."""
        found = (p for p in (self.path / "checkpoints").glob("step_*") if p.name.removeprefix("step_").isdigit())
        return sorted(found, key=_step_of)

    def drop_checkpoints(self, keep: int) -> None:
        """All but the newest `keep`; renamed first, so that a kill leaves no half of one."""
        for path in self.checkpoints()[:-keep]:
            gone = path.with_name(f".{path.name}.part")
            shutil.rmtree(gone, ignore_errors=True)
            os.replace(path, gone)
            shutil.rmtree(gone)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()


def _step_of(path: Path) -> int:
    return int(path.stem.removeprefix("step_"))
