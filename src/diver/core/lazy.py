"""Names of a package that are imported when they are first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(package: str, defined_in: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package, by the module of it that defines each name."""

    def get(name: str) -> Any:
        if name not in defined_in:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{defined_in[name]}"), name)

    return get
