"""The recipes of the runs of all studies, and the records of finished runs.

A run is a regime, which is a recipe as nested tables, with changes and a seed. A record has the recipe of its run as
given, without defaults. It is looked up by this recipe, so studies share runs, and a default that is added later does
not invalidate a record.
"""

from __future__ import annotations

import dataclasses
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from diver.core.files import to_json
from diver.core.settings import merge
from diver.methods import Method, method_named
from diver.methods.registry import DEFAULT
from diver.recipe.flags import parse
from diver.recipe.recipe import Recipe, flatten, make_recipe, override
from diver.sweep import records

Record = Mapping[str, Any]
Runs = Mapping[int, Record]
"""Seed -> record."""
DIGITS = 4  # significant digits of the metrics in a record

# ---- recipes


def given(regime: Mapping[str, Any], changes: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The recipe of a run as a record has it."""
    return merge(override(regime, changes), {"run": {"seed": seed}})


def study_recipe(settings: Mapping[str, Any]) -> Recipe:
    """The recipe of a run of any study: `settings` as given, over the values of the paper."""
    return make_recipe(with_paper_values(merge({"method": {"name": DEFAULT}}, settings)))


def with_paper_values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` over those in the table [method] of experiments.toml that the method has.

    Where `settings` name no method, they change another recipe, and only settings that every method has are added. The
    library's defaults of these settings differ from the paper's. A record holds the settings as given.
    """
    method = settings.get("method", {})
    names = {field.name for field in dataclasses.fields(method_named(method["name"]) if "name" in method else Method)}
    defaults = {name: table for name, table in paper_values().items() if name in names}
    named = {"name": method["name"]} if "name" in method else {}  # the first flag of a command
    return {**settings, "method": merge({**named, **defaults}, method)}


@cache
def paper_values() -> Mapping[str, Any]:
    return read_toml("diver_paper", "experiments.toml")["method"]


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Nested tables over the values of the paper, as flags of the command line."""
    return [
        word
        for key, value in flatten(with_paper_values(settings)).items()
        for word in (f"--{key}", str(value).lower() if isinstance(value, bool) else str(value))
    ]


def read_toml(package: str, name: str) -> dict[str, Any]:
    """A file of a study."""
    return tomllib.loads((files(package) / name).read_text(encoding="utf-8"))


# ---- records


def records_file(out: Path, study: str) -> Path:
    """The records of a study whose pages are in `out`."""
    return out / "records" / f"{study}.jsonl.gz"


def find(file: Path, recipe: Mapping[str, Any], prefix: str = "", trained: bool = True) -> Record | None:
    """The record of the run of a recipe, among those whose names begin with `prefix`; None if it is not finished.

    With `trained` False it is the record of the untrained policy, which may have the recipe of a run.
    """
    if not file.exists():
        return None
    about = file.stat()
    return _by_recipe(file, prefix, about.st_ino, about.st_mtime_ns).get((_key(recipe), trained))


@lru_cache(maxsize=16)
def _by_recipe(file: Path, prefix: str, *_: int) -> Mapping[tuple[str, bool], Record]:
    """The records of a file by recipe. They are cached for one version of the file: a page looks up hundreds."""
    matching = [record for name, record in records.read(file).items() if name.startswith(prefix)]
    return {(_key(record["recipe"]), bool(record["metrics"])): record for record in matching}


def _key(recipe: Mapping[str, Any]) -> str:
    return to_json(dict(sorted(flatten(recipe).items())))


def rounded(value: Any) -> Any:
    """Numbers with `DIGITS` significant digits: a record is read by people and kept in git."""
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


# ---- protocols


class Planned(NamedTuple):
    """A run of a protocol: its stage, testbed, label and recipe as given."""

    stage: str
    testbed: str
    label: str
    recipe: Mapping[str, Any]
    trained: bool = True

    @property
    def seed(self) -> int:
        return int(self.recipe["run"]["seed"])

    @property
    def rate(self) -> float:
        return float(self.recipe["train"]["learning_rate"])

    @property
    def alpha(self) -> float | None:
        """The weight of replay that the protocol gives."""
        return self.recipe["method"].get("replay", {}).get("alpha")


class Study:
    """The protocol of a study, study.toml, with the records in `out`."""

    package: ClassVar[str]
    name: ClassVar[str]
    """The name of the file of records, and of the page."""

    def __init__(self, out: Path, config: Mapping[str, Any] | None = None) -> None:
        self.out, self.config = out, config or read_toml(self.package, "study.toml")

    def planned(self) -> Iterator[Planned]:
        """The runs of the protocol; those that depend on others follow once these have records."""
        raise NotImplementedError

    def record(self, planned: Any) -> Record | None:
        return find(records_file(self.out, self.name), planned.recipe, trained=planned.trained)

    def finished(self) -> Sequence[tuple[Planned, Record]]:
        """The runs that have a record."""
        return [(planned, record) for planned in self.planned() if (record := self.record(planned)) is not None]


@dataclasses.dataclass
class PageArguments:
    """Write the page of a finished study from its records.

    `python -m diver_paper.again` makes its runs again.
    """

    out: Path = Path("docs/results")
    """The folder of the page, and of the records, records/."""


def written(command: str, write_page: Callable[[Path], Path]) -> None:
    """The command of a finished study: write its page and print the path."""
    print(write_page(parse(PageArguments, command, sys.argv[1:]).out))
