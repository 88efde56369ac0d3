"""What an evaluation stores, and how it survives being killed.

    config.json                             the model
    provenance.jsonl                        a row for each command that added to what follows: versions, commit, time
    prompts/<benchmark>.jsonl               lengths of prompts, with --skip-long-prompts
    generations/<benchmark>.jsonl           a row a response, append-only
    grades/<benchmark>.<grader>.jsonl       a row a grade, append-only
    results.json, table.md, pass_at_k.png, pass_at_k.svg

A row counts when its newline is there: what a kill left of a row is skipped by readers and cut off before the next
append. A row has a key of the settings that it belongs to, so rows of other settings stay in the file and are never
mixed up.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol

from diver.io.files import lock, write_text
from diver.io.jsonl import JsonlLog
from diver.types import DiverError


class Log(Protocol):
    """Rows that can be read and appended to."""

    def rows(self) -> Iterator[dict[str, Any]]: ...

    def append(self, row: Mapping[str, Any]) -> None: ...


class MemoryLog:
    """A log that is not stored."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def rows(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def append(self, row: Mapping[str, Any]) -> None:
        self._rows.append(dict(row))


class ResultFolder:
    """The folder of one model's evaluation, locked while it is open; another model's evaluation is refused."""

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
                raise DiverError(f"--out {self.path}: has files but no evaluation; name another folder")
            return False
        try:
            known = json.loads(file.read_text(encoding="utf-8"))["model"]
        except (ValueError, KeyError, TypeError):
            raise DiverError(f"{file}: is not the config.json of an evaluation; name another folder by --out") from None
        if known != self.model:
            raise DiverError(f"--out {self.path}: has results of {known}, not of {self.model}; name another folder")
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
        """Record once where what is about to be added comes from; results.json depends on the settings alone."""
        if self.provenance:
            with JsonlLog(self.path / "provenance.jsonl") as log:
                log.append(self.provenance)
        self.provenance = {}

    def log(self, kind: str, name: str) -> JsonlLog:
        """A log of the folder: `kind` is prompts, generations or grades."""
        return JsonlLog(self.path / kind / f"{name}.jsonl", self.record_provenance)


def read_results(path: Path) -> dict[str, Any]:
    """`model` and `benchmarks` of an evaluation.

    `path` is a results.json or an eval/step_NNNN.json of a run, a folder of `diver eval`, or a run folder, which stands
    for its last evaluation.
    """
    if path.is_dir() and not (path / "results.json").exists():
        steps = {int(p.stem[5:]): p for p in (path / "eval").glob("step_*.json") if p.stem[5:].isdigit()}
        path = steps[max(steps)] if steps else path / "results.json"
    elif path.is_dir():
        path = path / "results.json"
    if not path.exists():
        raise DiverError(f"{path}: there is no results.json; name a folder of `diver eval` or of an evaluated run")
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        if "benchmark" in results:
            model = f"{results['model']} after {results['step']} steps"
            results = {"model": model, "benchmarks": {results["benchmark"]: results}}
        return {**results, "benchmarks": dict(results["benchmarks"]), "model": str(results["model"])}
    except (ValueError, KeyError, TypeError):
        raise DiverError(f"{path}: is not the results of an evaluation") from None
