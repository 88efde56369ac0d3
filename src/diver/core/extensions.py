"""Names whose objects are imported at their first use: by the place where each is defined.

A room adds to another without an import, and a package names what its modules define.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

GRADERS: dict[str, str] = {}
"""Name of a grader -> "module:class". `diver.grading.get_grader` imports the class at its first use."""


def on_first_use(package: str, defined_in: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package, by the module of it that defines each name."""

    def get(name: str) -> Any:
        if name not in defined_in:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{defined_in[name]}"), name)

    return get
