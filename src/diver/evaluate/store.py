"""What an evaluation leaves behind, and how it survives being killed.

    config.json                             which model
    provenance.jsonl                        a row for each command that added to what follows: versions, commit, time
    prompts/<benchmark>.jsonl               how long prompts are, where those that are too long are left out
    generations/<benchmark>.jsonl           a row a response, only ever appended to
    grades/<benchmark>.<grader>.jsonl       a row a grade, only ever appended to
    results.json, table.md, pass_at_k.png, pass_at_k.svg

A row counts when its newline is there: what a kill left of a row is skipped by readers and cut off before the next
append. A row names what it belongs to by a key, so rows of other settings stay in the file and are never mixed up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from diver.io.files import lock, write_text
from diver.io.jsonl import JsonlLog
from diver.types import DiverError


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

    def record_provenance(self) -> None:
        """Record where what is about to be added comes from, once; results.json depends on settings alone."""
        if self.provenance:
            with JsonlLog(self.path / "provenance.jsonl") as signed:
                signed.append(self.provenance)
        self.provenance = {}

    def prompts(self, benchmark: str) -> JsonlLog:
        return JsonlLog(self.path / "prompts" / f"{benchmark}.jsonl")

    def generations(self, benchmark: str) -> JsonlLog:
        return JsonlLog(self.path / "generations" / f"{benchmark}.jsonl")

    def grades(self, benchmark: str, grader: str) -> JsonlLog:
        return JsonlLog(self.path / "grades" / f"{benchmark}.{grader}.jsonl")

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
