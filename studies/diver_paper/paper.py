"""The paper's result tables (arXiv 2509.26209) as printed, their errata, and the public models of its main
table: paper.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Row:
    """One row of a table: percentages by benchmark, or by another column such as "pass@128";
    "in" and "out" are averages.

    `group` is the heading above the row, `std` the standard deviation over runs, `notes` the footnotes by column.
    """

    model: str
    scores: Mapping[str, float]
    std: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    group: str = ""


class Erratum(NamedTuple):
    """A note on a printed number that looks wrong; `column` is a benchmark, or "in" or "out"."""

    table: str
    group: str
    model: str
    column: str
    text: str


class PublicModel(NamedTuple):
    """A model with public weights: its row in the main table, its hub id, its template in `diver.tasks.templates`."""

    row: str
    path: str
    template: str
    source: str


def _rows(name: str, table: Mapping[str, Any]) -> tuple[Row, ...]:
    return tuple(
        Row(
            model=row["model"],
            scores=dict(zip(table["columns"], row["scores"], strict=True)),
            std=dict(zip(table["columns"], row.get("std", ()), strict=False)),
            notes={e.column: e.text for e in ERRATA if e[:3] == (name, row.get("group", ""), row["model"])},
            group=row.get("group", ""),
        )
        for row in table["rows"]
    )


_PAPER = tomllib.loads((files("diver_paper") / "paper.toml").read_text(encoding="utf-8"))
AVERAGES: Mapping[str, tuple[str, ...]] = {name: tuple(parts) for name, parts in _PAPER["averages"].items()}
IN_DOMAIN, OUT_OF_DOMAIN = AVERAGES["in"], AVERAGES["out"]
NAMES: Mapping[str, str] = _PAPER["names"]
"""Our methods -> their rows in the main table."""
MODELS = tuple(PublicModel(**entry) for entry in _PAPER["models"])
ERRATA = tuple(
    Erratum(entry["table"], *cell, entry["text"])
    for entry in _PAPER["errata"]
    for cell in product(entry["groups"], entry["models"], entry["columns"])
)
TABLES: Mapping[str, tuple[Row, ...]] = {name: _rows(name, table) for name, table in _PAPER["tables"].items()}
