"""Tables of text."""

from collections.abc import Sequence


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], text: int = 1) -> str:
    """A table whose first `text` columns are text, the others numbers, padded so that it can be read as it is."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    signs = ["<" if i < text else ">" for i in range(len(widths))]
    lines = [
        [f"{cell:{sign}{width}}" for cell, sign, width in zip(row, signs, widths, strict=True)]
        for row in (header, *rows)
    ]
    lines.insert(1, ["-" * width if i < text else "-" * (width - 1) + ":" for i, width in enumerate(widths)])
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
