"""The releases of engines with which this package works, in `versions.toml`."""

import re
import tomllib
from importlib.resources import files
from typing import Any

VERSIONS: dict[str, Any] = tomllib.loads((files("diver.integrations") / "versions.toml").read_text(encoding="utf-8"))
"""`allowed` and `allowed_by_train`: package -> specifiers; `environments`: `make` target -> what it runs, and pins;
`python`: release -> what was run with it."""


def oldest(package: str, table: str = "allowed") -> tuple[int, ...]:
    """The first number of its specifiers, such as (0, 22) of ">=0.22,<2"."""
    return tuple(int(part) for part in re.findall(r"\d+", VERSIONS[table][package].partition(",")[0]))
