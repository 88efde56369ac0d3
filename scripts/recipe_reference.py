"""docs/recipe-keys.md: every key of a recipe with its type, default and meaning, from the settings classes.

`python scripts/recipe_reference.py` writes the page; a test compares it with the classes.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

from diver.core.settings import options, plain
from diver.methods import METHODS, Method, method_named
from diver.recipe.help import SENTENCE, doc
from diver.recipe.recipe import SECTIONS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "recipe-keys.md"
INTRODUCTION = """# Recipe keys

Every key of a recipe is also a flag of `diver train`, such as `--train.steps 20`. `diver train --help all` prints the
complete explanation of each. The second column has the type and the default; a choice begins with its default, and a
key without a default is not set. Defaults are the paper's values where the paper has one, except for
[two](diver.md#text-after-the-answer). `python scripts/recipe_reference.py` generates this page.
"""
SINGLE_METHODS = """### Keys of single methods

`diver methods NAME` shows the keys of a method and their defaults. The site of `make docs` has a table of them here.

<!-- table: keys of single methods -->
"""


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    parts, keys_by_row = [INTRODUCTION], rows_of_page()
    for name, cls in SECTIONS.items():
        parts += [f"## [{name}]\n", f"{first_line(Method if name == 'method' else cls)}\n"]
        parts += [table([(keys, *row[2:]) for row, keys in keys_by_row.items() if row[0] == name])]
        if name == "method":
            parts += [SINGLE_METHODS]
    return "\n".join(parts)


def rows_of_page() -> dict[tuple[str, ...], list[str]]:
    """(section, last part of the key, type and default, meaning) -> its keys: those that mean the same share a row, in
    the section of the first."""
    rows: dict[tuple[str, ...], list[str]] = {}
    sections: dict[tuple[str, ...], str] = {}
    for name, cls in SECTIONS.items():
        for key, kind, text in keys(Method if name == "method" else cls, name):
            row = (key.rpartition(".")[2], kind, brief(text))
            rows.setdefault((sections.setdefault(row, name), *row), []).append(key)
    return rows


def brief(text: str) -> str:
    """The first sentence of a docstring, and the one that says its default."""
    first, *others = SENTENCE.split(text)
    return " ".join([first, *(sentence for sentence in others if sentence.startswith("Default"))])


def method_table() -> str:
    """The keys that a method has beside those of all methods."""
    shared = {key for key, *_ in keys(Method, "method")}
    rows: dict[tuple[str, str, str], list[str]] = {}
    for name in METHODS:
        for row in keys(method_named(name), "method"):
            if row[0] not in shared:
                rows.setdefault(row, []).append(f"`{name}`")
    return table([([key], f"{kind}; {', '.join(of)}", text) for (key, kind, text), of in rows.items()])


def keys(settings: Any, prefix: str) -> Iterator[tuple[str, str, str]]:
    """(dotted key, type and default, meaning) of each setting of a class or an instance, those of nested settings
    behind their table."""
    for option in options(settings, f"{prefix}."):
        yield option.key, value_of(option.kind, option.default), doc(option)


def value_of(annotation: Any, default: Any) -> str:
    """A type in words and the default as a recipe writes it."""
    kind = plain(annotation)
    if default is None or default in ("", (), {}):
        return kind_of(kind)
    if kind is bool:
        return f"`{as_toml(default)}`"
    if typing.get_origin(kind) is typing.Literal:
        choices = [default, *(value for value in typing.get_args(kind) if value != default)]
        return " or ".join(f"`{as_toml(value)}`" for value in choices)
    return f"{kind_of(kind)}, `{as_toml(default)}`"


def kind_of(annotation: Any) -> str:
    """A type in words."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return kind_of(arguments[0])
    if origin is typing.Literal:
        return " or ".join(f'`"{value}"`' for value in arguments)
    if origin in (typing.Union, UnionType):
        return " or ".join(kind_of(part) for part in arguments if part is not NoneType)
    if origin is tuple:
        return f"list of {kind_of(arguments[0])}"
    return {int: "integer", float: "number", bool: "true or false", str: "text"}.get(annotation, "table")


def as_toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {as_toml(part)}" for key, part in value.items() if part is not None) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def table(rows: Iterable[tuple[list[str], str, str]]) -> str:
    lines = ["| key | type, default | meaning |", "|---|---|---|"]
    for keys, kind, text in rows:
        names = ", ".join(f"`{key}`" for key in keys)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in (names, kind, text)) + " |")
    return "\n".join(lines) + "\n"


def first_line(cls: type) -> str:
    return (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    main()
