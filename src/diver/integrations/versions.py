"""The releases of engines with which this package works, in `versions.toml`."""

import re
from typing import Any

from diver.core.files import packaged_table

VERSIONS: dict[str, Any] = packaged_table("diver.integrations", "versions.toml")
"""`allowed` and `allowed_by_train`: package -> specifiers; `environments`: `make` target -> what it runs, and pins;
`python`: release -> what was run with it."""


def oldest(package: str, table: str = "allowed") -> tuple[int, ...]:
    """The first version in its specifiers, such as (0, 22) of ">=0.22,<2"."""
    return tuple(int(number) for number in re.findall(r"\d+", VERSIONS[table][package].partition(",")[0]))
