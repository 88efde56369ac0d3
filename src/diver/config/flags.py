"""tyro parses the flags and prints the help; its errors, which it prints in a box, become one-line errors."""

import contextlib
import io
import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import tyro

from diver.types import DiverError

T = TypeVar("T")


def parse(kind: Callable[..., T], command: str, args: Sequence[str], **options: Any) -> T:
    """`tyro.cli`, with a DiverError where tyro would print an error and exit. Help exits as before."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            return tyro.cli(kind, prog=command, args=args, **options)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise DiverError(f"command line: {_message(printed.getvalue())}") from None


def _message(box: str) -> str:
    """The first block of the box, which has rules between its blocks, and the first flag that tyro suggests."""
    rows = [line.strip("│╭╮╰╯ ") for line in box.splitlines()[1:]]  # after the title; plain ASCII where need be
    blocks = [list(block) for rule, block in itertools.groupby(rows, lambda row: not row.strip("─-")) if not rule]
    message = " ".join(blocks[0]).removeprefix("Error parsing ").removeprefix("recipe.")  # a field, not a section
    near = [row.split()[0] for row in blocks[1] if row.startswith("--")] if blocks[1][0] == "Perhaps you meant:" else []
    return message + (f"; did you mean {near[0]}?" if near else "")
