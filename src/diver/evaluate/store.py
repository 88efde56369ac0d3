"""What an evaluation leaves behind, and how it survives being killed.

    config.json                             which model
    provenance.jsonl                        a row for each command that added to what follows: versions, commit, time
    prompts/<benchmark>.jsonl               how long prompts are, where those that are too long are left out
    generations/<benchmark>.jsonl           a row a response, only ever appended to
    grades/<benchmark>.<grader>.jsonl       a row a verdict, only ever appended to
    results.json, table.md, pass_at_k.png, pass_at_k.svg

A row counts when its newline is there: what a kill left of a row is skipped by readers and cut off before the next
append. A row names what it belongs to by a key, so rows of other settings stay in the file and are never mixed up.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from diver.run import append_row, lock, to_json, write_text
from diver.types import DiverError


def digest(*parts: Any) -> str:
    """16 hexadecimal digits that name these parts, which must be JSON."""
    return hashlib.blake2b(to_json(parts).encode(errors="backslashreplace"), digest_size=8).hexdigest()


class Journal:
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

    def __enter__(self) -> Journal:
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


class ResultFolder:
    """The folder of one model's evaluation, locked while it is open. Another model may not go on in it."""

    def __init__(self, path: Path, model: str, provenance: Mapping[str, Any]) -> None:
        self.path, self.provenance = path, provenance
        if path.exists() and not path.is_dir():
            raise DiverError(f"--out {path}: is a file; name a folder")
        self.model = model
        self._lock: IO[str] | None = None
        self._check()

    def _check(self) -> bool:
        """Whether there is a config.json, which then must be that of this model; DiverError for any other folder."""
        file = self.path / "config.json"
        if not file.exists():
            if self.path.exists() and any(not p.name.startswith(".") for p in self.path.iterdir()):
                raise DiverError(f"--out {self.path}: has files but holds no evaluation; name another folder")
            return False
        try:
            known = json.loads(file.read_text(encoding="utf-8"))["model"]
        except (ValueError, KeyError, TypeError):
            raise DiverError(f"{file}: is not the config.json of an evaluation; name another folder by --out") from None
        if known != self.model:
            raise DiverError(f"--out {self.path}: holds results of {known}, not of {self.model}; name another folder")
        return True

    def __enter__(self) -> ResultFolder:
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = lock(self.path)
        if not self._check():
            config = json.dumps({"model": self.model}, indent=1, ensure_ascii=False)
            write_text(self.path / "config.json", config + "\n")
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def sign(self) -> None:
        """Record where what is about to be added comes from, once; results.json depends on settings alone."""
        if self.provenance:
            with Journal(self.path / "provenance.jsonl") as signed:
                signed.append(self.provenance)
        self.provenance = {}

    def prompts(self, benchmark: str) -> Journal:
        return Journal(self.path / "prompts" / f"{benchmark}.jsonl")

    def generations(self, benchmark: str) -> Journal:
        return Journal(self.path / "generations" / f"{benchmark}.jsonl")

    def grades(self, benchmark: str, grader: str) -> Journal:
        return Journal(self.path / "grades" / f"{benchmark}.{grader}.jsonl")

    def results(self) -> dict[str, Any]:
        """The benchmarks of results.json, empty where there is none."""
        path = self.path / "results.json"
        return read_results(path)["benchmarks"] if path.exists() else {}


def read_results(path: Path) -> dict[str, Any]:
    """A results.json, named itself or by its folder."""
    path = path / "results.json" if path.is_dir() else path
    if not path.exists():
        raise DiverError(f"{path}: there is no results.json; name a folder that `diver eval` made")
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        return {**results, "benchmarks": dict(results["benchmarks"]), "model": str(results["model"])}
    except (ValueError, KeyError, TypeError):
        raise DiverError(f"{path}: is not the results.json of an evaluation") from None
