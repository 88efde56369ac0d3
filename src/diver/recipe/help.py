"""The help of a command, from its settings class: one screen of the most used options, or all of them."""

import ast
import dataclasses
import inspect
import re
import shutil
import textwrap
import typing
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any

from diver.core.settings import Option, is_positional, is_table, options, plain

WIDEST = 100
COLUMN = 34  # column at which descriptions begin
SENTENCE = re.compile(r"(?<=[.?!]) +(?=[A-Z`'\"-])")


@cache
def field_docs(cls: type) -> dict[str, str]:
    """The docstring of each field of `cls`, inherited ones included, as one paragraph."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        for field, after in pairwise(body.body if isinstance(body, ast.ClassDef) else []):
            match field, after:
                case ast.AnnAssign(target=target), ast.Expr(value=ast.Constant(value=str(text))):
                    docs[ast.unparse(target)] = " ".join(text.split())
    return docs


def doc(option: Option) -> str:
    """The docstring of a setting as one paragraph."""
    return field_docs(option.owner).get(option.key.rpartition(".")[2], "")


def help_text(
    settings: Any,
    command: str,
    common: Mapping[str, str],
    *,
    everything: bool = False,
    underscores: bool = False,
    short: Mapping[str, str] | None = None,
) -> str:
    """Usage, description and options.

    Args:
        settings: A settings class, or an instance whose values are the defaults.
        command: What the usage begins with, such as `diver eval`.
        common: The most used options: title of a group -> keys with spaces between. If empty, all options are shown.
        everything: Show all options, by table.
        underscores: Write - in the names of options as _.
        short: Short forms of options, `--model` -> `--model.path`, which the screen of common options shows.
    """
    by_key = {option.key: option for option in options(settings)}
    positional = [argument(option, usage=True) for option in by_key.values() if is_positional(option)]
    lines = [f"usage: {' '.join([command, *positional, '[OPTIONS]'])}", ""]
    lines += described(inspect.getdoc(settings) or "")
    brief = bool(common) and not everything
    groups = {f"{title}:": [by_key[key] for key in keys.split()] for title, keys in common.items()}
    names = {key.removeprefix("--"): flag for flag, key in (short or {}).items() if brief}
    lines += listed(groups if brief else tables(by_key.values()), names, brief=brief, underscores=underscores)
    end = [f"{' '.join(command.split()[:2])} --help all shows all options."] if brief else []
    return "\n".join([*lines, *end]).rstrip()


def described(doc: str) -> list[str]:
    """The paragraphs of a docstring, with an empty line after each. Indented ones are examples and are not wrapped."""
    lines: list[str] = []
    for paragraph in doc.split("\n\n"):
        is_example = paragraph.startswith("    ")
        lines += [*(paragraph.splitlines() if is_example else wrapped(" ".join(paragraph.split()))), ""]
    return lines


def listed(
    groups: Mapping[str, Sequence[Option]],
    names: Mapping[str, str] = MappingProxyType({}),
    *,
    brief: bool = False,
    underscores: bool = True,
) -> list[str]:
    """The options of each group beside their meanings, with an empty line after each group."""
    lines: list[str] = []
    for title, members in groups.items():
        pairs = [(_flag(option, names, underscores), meaning(option, brief)) for option in members]
        lines += [*wrapped(title), *rows(pairs, COLUMN), ""] if members else []
    return lines


def tables(members: Iterable[Option]) -> dict[str, list[Option]]:
    """The options by table, under its name and the first sentence of its class; options without a table come first."""
    by_table: dict[str, list[Option]] = {"options:": []}
    for option in members:
        table, dot, _ = option.key.rpartition(".")
        summary = SENTENCE.split(" ".join((inspect.getdoc(option.owner) or "").split()))[0]
        by_table.setdefault(f"{table}: {summary}" if dot else "options:", []).append(option)
    return by_table


def _flag(option: Option, names: Mapping[str, str], underscores: bool) -> str:
    if is_positional(option):
        return argument(option)
    name = names.get(option.key) or f"--{option.key if underscores else option.key.replace('_', '-')}"
    if option.default is False:
        return name
    return f"{name}{'' if (value := _value(option.kind)).startswith('.') else ' '}{value}"


def argument(option: Option, usage: bool = False) -> str:
    """The name of a positional argument."""
    name = option.key.upper()
    kind = typing.get_args(option.kind)[0]
    repeated = f"{name} ..." if typing.get_origin(kind) is tuple else name
    optional = option.default is not None or NoneType in typing.get_args(kind)
    return f"[{repeated}]" if usage and optional else repeated


def _value(kind: Any) -> str:
    """The placeholder of a value, from its type."""
    kind = plain(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return "|".join(map(str, arguments))
    if origin is tuple:
        return f"{_value(arguments[0])} ..."
    if kind is bool:
        return "true|false"
    if dataclasses.is_dataclass(kind):
        return ".KEY VALUE"
    if is_table(kind):
        return ".NAME.KEY VALUE" if dataclasses.is_dataclass(arguments[1]) else "KEY VALUE ..."
    return {int: "INT", float: "FLOAT", Path: "PATH"}.get(arguments[0] if arguments else kind, "STR")


def meaning(option: Option, brief: bool = False) -> str:
    """What an option does, and its default in words; `brief`: its first sentence."""
    first, *others = SENTENCE.split(doc(option))
    default = default_in_words(option.default)
    if brief:
        others = [sentence for sentence in others if not default and sentence.startswith("Default")]
    text = " ".join([first, *others])
    return f"{text} Default: {default}." if default else text


def default_in_words(value: Any) -> str:
    """A default in the notation of the command line; empty if off or not set."""
    if value is None or value is False or value in ("", (), {}):
        return ""
    if isinstance(value, tuple):
        return " ".join(map(default_in_words, value))
    if isinstance(value, Mapping):
        return ", ".join(str(key) for key in value)
    return "true" if value is True else f"{value:g}" if isinstance(value, float) else str(value)


def rows(pairs: Iterable[tuple[str, str]], column: int) -> list[str]:
    """Names with their descriptions, which begin at `column`, or on the next line after a long name."""
    lines: list[str] = []
    column = min(column, width() // 2)
    for name, text in pairs:
        name = f"  {name}"
        if len(name) + 2 > column:
            lines.append(name)
            name = ""
        lines += wrapped(text, name.ljust(column), " " * column) or [name]
    return lines


def wrapped(text: str, first: str = "", indent: str = "") -> list[str]:
    """Lines of at most `width()` characters; a longer word stands alone in its line."""
    return textwrap.wrap(
        text, width(), initial_indent=first, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def width() -> int:
    """The width of the terminal, from 20 to WIDEST characters; WIDEST where the output is no terminal."""
    return max(20, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))
