"""Names whose objects are imported at first use, from the module that defines each.

So a package can add a name to another without an import, and export names that its modules define.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

GRADERS: dict[str, str] = {}
"""Name of a grader -> "module:class". `diver.grading.get_grader` imports the class at its first use."""


def on_first_use(package: str, defined_in: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package. `defined_in` has the module of the package that defines each name."""

    def get(name: str) -> Any:
        if name not in defined_in:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{defined_in[name]}"), name)

    return get
