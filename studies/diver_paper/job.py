"""A run to be made, and its recipe: changes to the regime of a study, over the values of the paper."""

from __future__ import annotations

import dataclasses
import shlex
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from diver.core.settings import merge
from diver.methods import Method, method_named
from diver.methods.registry import DEFAULT
from diver.recipe.recipe import Recipe, make_recipe, override


class Job(NamedTuple):
    """A run to be made: `changes` to the regime, as nested tables, and a seed. Untrained: only evaluated."""

    changes: Mapping[str, Mapping[str, Any]]
    seed: int
    trained: bool = True

    @property
    def name(self) -> str:
        """What is changed, and the seed: the name of its record."""
        changes = flat(self.changes)
        words = (
            ["initial"]
            if not self.trained
            else [
                str(changes.pop("method.name", "")),
                *(f"{k.rpartition('.')[2]}-{v}" for k, v in sorted(changes.items())),
            ]
        )
        return "_".join([*filter(None, words), f"seed{self.seed}"])

    @property
    def flags(self) -> list[str]:
        """The changes and the seed as flags of `diver train`."""
        return flags({**with_paper_values(self.changes), "run": {"seed": self.seed}})

    @property
    def command(self) -> str:
        """The command that makes the run by hand; the untrained policy is only evaluated, by the study itself."""
        if not self.trained:
            return "diver reproduce"
        return shlex.join(["diver", "train", "studies/diver_paper/tiny.toml", *self.flags])

    def recipe(self, regime: Mapping[str, Any]) -> dict[str, Any]:
        """The whole recipe as given, as nested tables."""
        return merge(override(regime, self.changes), {"run": {"seed": self.seed}})


def study_recipe(settings: Mapping[str, Any]) -> Recipe:
    """The recipe of a run of any study: `settings` as given, over the values of the paper."""
    return make_recipe(with_paper_values(merge({"method": {"name": DEFAULT}}, settings)))


def with_paper_values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` over the table [method] of experiments.toml, of which a method takes the settings that it has.

    Where `settings` name no method, they change another recipe, and only settings that every method has are added. The
    library's defaults of these settings differ from the paper's. A record holds the settings as given.
    """
    method = settings.get("method", {})
    names = {field.name for field in dataclasses.fields(method_named(method["name"]) if "name" in method else Method)}
    beneath = {name: table for name, table in paper_values().items() if name in names}
    named = {"name": method["name"]} if "name" in method else {}  # the first flag of a command
    return {**settings, "method": merge({**named, **beneath}, method)}


@cache
def paper_values() -> Mapping[str, Any]:
    return tomllib.loads((files("diver_paper") / "experiments.toml").read_text(encoding="utf-8"))["method"]


def flags(changes: Mapping[str, Any]) -> list[str]:
    """Nested tables as flags of the command line."""
    return [
        part
        for key, value in flat(changes).items()
        for part in (f"--{key}", str(value).lower() if isinstance(value, bool) else str(value))
    ]


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with dotted keys."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found
