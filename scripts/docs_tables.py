"""For mkdocs: tables of what the methods declare, in place of marks such as `<!-- table: diver methods -->`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))  # mkdocs imports this file by its path
import recipe_reference

from diver.core.tables import markdown
from diver.integrations.engines import catalogue, needs_of, refusals
from diver.integrations.seam import SEAMS
from diver.methods import METHODS, Method, method_named

MARK = re.compile(r"^<!-- table: (.+) -->$", re.MULTILINE)


def carried(engine: str, methods: Sequence[Method]) -> str:
    """Which of the methods `engine` carries: a row for those that need the same, and have or have not mean 0."""
    rows: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for method in methods:
        kind = needs_of(method), "yes" if method.zero_mean else "no"
        runs, refused = rows.setdefault(kind, ([], []))
        (refused if engine in refusals(method) else runs).append(method.name)
    cells = [[*kind, *(", ".join(names) or "-" for names in both)] for kind, both in rows.items()]
    return markdown(["needs", "zero mean", "carried", "refused"], cells, text=4)


def tables() -> dict[str, Callable[[], str]]:
    """The tables by the name in their mark."""
    methods = [method_named(name) for name in METHODS]
    engines = {f"carried by {engine}": partial(carried, engine, methods) for engine in SEAMS}
    return {"diver methods": catalogue, "keys of single methods": recipe_reference.method_table, **engines}


def on_page_markdown(markdown: str, **_: Any) -> str:
    if not MARK.search(markdown):
        return markdown
    known = tables()
    return MARK.sub(lambda mark: known[mark[1]](), markdown)
