"""tyro parses the flags; its errors, which it prints in a box, become one-line errors."""

import contextlib
import dataclasses
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import tyro

from diver.core.tables import FIGURES
from diver.core.types import DiverError
from diver.recipe.help import help_text

T = TypeVar("T")
HELP = {"-h", "--help"}


def parse(
    kind: type[T],
    command: str,
    args: Sequence[str],
    common: Mapping[str, str] = MappingProxyType({}),
    short: Mapping[str, str] = MappingProxyType({}),
    **options: Any,
) -> T:
    """`tyro.cli`, with a DiverError where tyro would print an error and exit.

    --help prints `help_text`, in which `common` has the options that people use, and exits; --help all prints all.
    """
    if not HELP.isdisjoint(args):
        settings, underscores = options.get("default", kind), options.get("use_underscores", False)
        shown = {"everything": "all" in args, "underscores": underscores, "short": short}
        print(help_text(settings, command, common, **shown))
        raise SystemExit(0)
    printed = io.StringIO()
    args = plain_switches(with_commas(args), options.get("default", kind))
    try:
        with contextlib.redirect_stderr(printed):
            return tyro.cli(kind, prog=command, args=args, **options)
    except SystemExit:
        raise DiverError(f"command line: {_message(printed.getvalue())}") from None


def with_commas(args: Sequence[str]) -> list[str]:
    """`--figures pdf png` as `--figures pdf,png`: the kinds that follow the flag, which no path is called."""
    result: list[str] = []
    for word in args:
        if len(result) > 1 and result[-2] == "--figures" and {word, *result[-1].split(",")} <= {*FIGURES}:
            result[-1] += f",{word}"
        else:
            result.append(word)
    return result


def plain_switches(args: Sequence[str], settings: object) -> list[str]:
    """`--x.y true` and `--x.y=false` of the settings that are true or false as the flags `--x.y` and `--x.no_y`."""
    known, words, result = {*_switches(settings)}, [*args], list[str]()
    while words:
        word = words.pop(0)
        flag, equals, value = word.partition("=")
        key = flag.removeprefix("--").replace("-", "_")
        if flag.startswith("--") and key in known:
            following = value if equals else next(iter(words), "")
            if following.lower() in ("true", "false"):
                words = words if equals else words[1:]
                table, dot, name = key.rpartition(".")
                word = f"--{table}{dot}{'' if following.lower() == 'true' else 'no_'}{name}"
            elif equals:
                raise DiverError(f"command line: {flag}: must be true or false, not {value!r}")
        result.append(word)
    return result


def _switches(settings: Any, table: str = "") -> Iterator[str]:
    """The dotted keys of what is true or false in a settings object, or in a class by its defaults."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name, None)
        if isinstance(value, bool):
            yield table + field.name
        elif dataclasses.is_dataclass(value):
            yield from _switches(value, table if field.name == "recipe" else f"{table}{field.name}.")


def _message(box: str) -> str:
    """The first block of the box, which has rules between its blocks, and the first flag that tyro suggests."""
    rows = [line.strip("│╭╮╰╯ ") for line in box.splitlines()[1:]]  # after the title; plain ASCII where need be
    blocks = [list(block) for rule, block in itertools.groupby(rows, lambda row: not row.strip("─-")) if not rule]
    message = " ".join(blocks[0]).removeprefix("Error parsing ").removeprefix("recipe.")  # a field, not a section
    near = [row.split()[0] for row in blocks[1] if row.startswith("--")] if blocks[1][0] == "Perhaps you meant:" else []
    return message + (f"; did you mean {near[0]}?" if near else "")
