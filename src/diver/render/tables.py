"""Tables of text."""

from __future__ import annotations

from collections.abc import Sequence


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text, the others numbers, padded so that it can be read as it is."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    line = "| " + " | ".join(["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]) + " |"
    padded = [
        "| "
        + " | ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        + " |"
        for row in (header, *rows)
    ]
    return "\n".join([padded[0], line, *padded[1:]]) + "\n"
