"""The result of a run as one small JSON file: its recipe and seed, a column a metric, its evaluations.

A run is found again by its recipe as given (regime and changes, without defaults), so experiments share runs, a study can be
run in parts, and a default that is added later does not invalidate older runs.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from diver.config.recipe import override
from diver.io.files import write_text
from diver.io.jsonl import to_json
from diver.settings import merge
from diver.types import DiverError

DIGITS = 4  # significant ones that a metric keeps


class Job(NamedTuple):
    """A run to be made: `changes` to the regime, as nested tables, and a seed. Untrained: only evaluated."""

    changes: Mapping[str, Mapping[str, Any]]
    seed: int
    trained: bool = True

    @property
    def name(self) -> str:
        """What is changed, and the seed: the name of its file."""
        flat = _flat(self.changes)
        words = (
            ["initial"]
            if not self.trained
            else [str(flat.pop("method.name", "")), *(f"{k.rpartition('.')[2]}-{v}" for k, v in sorted(flat.items()))]
        )
        return "_".join([*filter(None, words), f"seed{self.seed}"])

    @property
    def flags(self) -> list[str]:
        """The changes and the seed as flags of `diver train`."""
        return flags({**self.changes, "run": {"seed": self.seed}})

    @property
    def command(self) -> str:
        """The command that makes the run by hand; the untrained policy is only evaluated, by the study itself."""
        if not self.trained:
            return "diver reproduce"
        return shlex.join(["diver", "train", "studies/diver_paper/tiny.toml", *self.flags])

    def recipe(self, regime: Mapping[str, Any]) -> dict[str, Any]:
        """The whole recipe as given, as nested tables."""
        return merge(override(regime, self.changes), {"run": {"seed": self.seed}})


def find(
    folder: Path, job: Job, regime: Mapping[str, Any], also: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """The record of a finished run, None where there is none. `also`: what else of the record must be as given.

    DiverError where the file of that name is a run of another recipe, or another in what is in `also`.
    """
    also = also or {}
    path = folder / f"{job.name}.json"
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        theirs = _flat({**record["recipe"], **{key: record.get(key) for key in also}})
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise DiverError(f"{path}: is not the record of a run ({e}); delete it to make the run again") from None
    mine = json.loads(to_json(_flat({**job.recipe(regime), **also})))
    if mine == theirs:
        return record
    keys = sorted(k for k in {*mine, *theirs} if mine.get(k) != theirs.get(k))
    changed = "; ".join(f"{k} was {theirs.get(k)!r}, now {mine.get(k)!r}" for k in keys[:4])
    raise DiverError(f"{path}: holds a run of another recipe ({changed}); give another --out, or delete it")


def save(folder: Path, job: Job, record: Mapping[str, Any]) -> None:
    """Write the record: a line a key, a line a metric, for readable diffs."""
    lines = []
    for key, value in record.items():
        if isinstance(value, Mapping) and key in ("metrics", "evaluations", "at"):
            inner = ",\n".join(f"  {json.dumps(str(k))}: {to_json(v)}" for k, v in value.items())
            lines.append(f"{json.dumps(key)}: {{\n{inner}\n }}")
        else:
            lines.append(f"{json.dumps(key)}: {to_json(value)}")
    write_text(folder / f"{job.name}.json", "{\n " + ",\n ".join(lines) + "\n}\n")


def rounded(value: Any) -> Any:
    """Numbers with `DIGITS` significant digits: a record is read by people and kept in git."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def flags(changes: Mapping[str, Any]) -> list[str]:
    """Nested tables as flags of the command line."""
    return [
        part
        for key, value in _flat(changes).items()
        for part in (f"--{key}", str(value).lower() if isinstance(value, bool) else str(value))
    ]


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
