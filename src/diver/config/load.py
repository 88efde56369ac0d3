"""From a recipe file and the flags that change it to a `Recipe`, and the help that lists its keys."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diver.config.recipe import SECTIONS, Recipe, make_recipe
from diver.settings import choose, merge
from diver.types import DiverError

MAIN_KEYS = {"model": "path", "data": "path", "method": "name"}


def split_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(Words that are not of the recipe, flags of the recipe with their values), each in their order."""
    rest: list[str] = []
    flags: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        key, equals, _ = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not ("." in key or key in MAIN_KEYS):
            rest.append(word)
            continue
        values = 0 if equals else 1
        flags += [word, *left[:values]]
        del left[:values]
    return rest, flags


def parse_flags(flags: Sequence[str]) -> dict[str, Any]:
    """--section.field value, or --section.field=value, as nested tables. A value is TOML, or else a string.

    A section by itself stands for its main key: --model PATH, --data PATH, --method NAME.
    """
    table: dict[str, Any] = {}
    words = list(flags)
    while words:
        word = words.pop(0)
        key, equals, value = word.removeprefix("--").partition("=")
        key = f"{key}.{MAIN_KEYS[key]}" if key in MAIN_KEYS else key
        if not word.startswith("--") or "." not in key:
            raise DiverError(f"{word!r}: a flag that changes the recipe has the form --section.field value")
        if not equals:
            if not words:
                raise DiverError(f"{word}: needs a value")
            value = words.pop(0)
        section, *fields = key.split(".")
        # --train.mini-batch is mini_batch_size, but a metric keeps its name: --method.diversity_rewards.hidden-state.weight
        fields = [
            f if of == "diversity_rewards" else f.replace("-", "_") for of, f in itertools.pairwise([section, *fields])
        ]
        choose(section, SECTIONS, f"--{section}")
        at = table.setdefault(section, {})
        for field in fields[:-1]:
            at = at.setdefault(field, {})
        at[fields[-1]] = _value(value)
    return table


def describe() -> str:
    """Every section and key with its default and meaning, for `diver train --help`."""
    lines = []
    for section, cls in SECTIONS.items():
        lines += ["", f"[{section}]  {(cls.__doc__ or '').splitlines()[0]}", *_describe(cls, "")]
    return "\n".join(lines)


def _describe(cls: Any, prefix: str) -> list[str]:
    lines = []
    told = _field_docs(cls)
    for field in dataclasses.fields(cls):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if dataclasses.is_dataclass(default):
            lines += _describe(type(default), f"{prefix}{field.name}.")
        else:
            shown = "" if default is None or default is dataclasses.MISSING else f" = {_shown(default)}"
            lines.append(f"  {prefix}{field.name}{shown}\n      {told.get(field.name, '')}")
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(value) + "}"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def _field_docs(cls: Any) -> dict[str, str]:
    """The doc string below each field, of the class and its bases."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        body = ast.parse(inspect.getsource(base)).body[0].body  # type: ignore[attr-defined]
        for field, text in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                docs[field.target.id] = " ".join(str(text.value.value).split())  # type: ignore[union-attr]
    return docs


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def load_recipe(path: Path, flags: Sequence[str] = ()) -> Recipe:
    """Read `path` and change it by flags such as `--train.steps 20`. DiverError names the file and the key."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DiverError(f"{path}: there is no such recipe; `diver train --help` lists what one may say") from None
    except (OSError, UnicodeDecodeError) as e:
        raise DiverError(f"{path}: cannot be read ({e})") from None
    except tomllib.TOMLDecodeError as e:
        raise DiverError(f"{path}: is not TOML: {e}") from None
    changes = parse_flags(flags)
    for source, part in ((str(path), table), ("command line", changes)):
        for section, body in part.items():
            if section not in SECTIONS:
                raise DiverError(f"{source}: there is no section [{section}]; sections are {', '.join(SECTIONS)}")
            if not isinstance(body, dict):
                raise DiverError(f"{source}: {section} must be a section, [{section}]")
    try:
        recipe = make_recipe(merge(table, changes))
    except DiverError as e:
        raise DiverError(f"{path}: {e}") from None
    if recipe.run.folder is None:
        recipe = dataclasses.replace(recipe, run=dataclasses.replace(recipe.run, folder=f"runs/{path.stem}"))
    return recipe
