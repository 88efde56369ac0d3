"""What an evaluation stores (docs/evaluation.md has a table of the files).

A row has a key of the settings that it belongs to, so rows of other settings stay in the file and are never mixed up.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from diver.core.folder import WorkFolder
from diver.core.jsonl import JsonlLog, read_json
from diver.core.types import DiverError


class MemoryLog:
    """A log that is not stored."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def rows(self) -> Iterator[dict[str, Any]]:
        return iter(self._rows)

    def append(self, row: Mapping[str, Any]) -> None:
        self._rows.append(dict(row))


Log = JsonlLog | MemoryLog


class ResultFolder(WorkFolder):
    """The folder of one model's evaluation, locked while it is open."""

    content = "an evaluation of another model"
    option = "--out"

    def __init__(self, path: Path, model: str, provenance: Mapping[str, Any]) -> None:
        super().__init__(path, {}, {"model": model})
        self.provenance = provenance

    def record_provenance(self) -> None:
        """Record once where what is about to be added comes from; results.json depends on the settings alone."""
        if self.provenance:
            with JsonlLog(self.path / "provenance.jsonl") as log:
                log.append(self.provenance)
        self.provenance = {}

    def log(self, kind: str, name: str) -> JsonlLog:
        """A log of the folder: `kind` is generations or grades."""
        return JsonlLog(self.path / kind / f"{name}.jsonl", self.record_provenance)


def is_evaluation(path: Path) -> bool:
    """Whether `read_results` reads it: a file, or a folder of `diver eval`."""
    return path.is_file() or (path / "results.json").is_file()


def read_results(path: Path) -> dict[str, Any]:
    """`model` and `benchmarks` of an evaluation: a folder of `diver eval`, its results.json, or eval/step_NNNN.json of
    a run."""
    path = path / "results.json" if path.is_dir() else path
    if not path.exists():
        raise DiverError(f"{path}: there is no results.json; name a folder of `diver eval`, or RUN/eval/step_NNNN.json")
    try:
        results = read_json(path)
        if "benchmark" in results:
            model = f"{results['model']} after {results['step']} steps"
            results = {"model": model, "benchmarks": {results["benchmark"]: results}}
        return {**results, "benchmarks": dict(results["benchmarks"]), "model": str(results["model"])}
    except (ValueError, KeyError, TypeError):
        raise DiverError(f"{path}: is not the results of an evaluation") from None
