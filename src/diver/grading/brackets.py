"""Find matching brackets and the text outside them. For boxes, whose braces may be escaped, see `extraction`."""

import re


def closing(text: str, start: int, brackets: str) -> int:
    """Where the bracket at `start` closes; -1 if it does not. The pairs of `brackets`, "(){}", count as one kind."""
    opening, closes, depth = brackets[::2], brackets[1::2], 0
    for position in range(start, len(text)):
        depth += (text[position] in opening) - (text[position] in closes)
        if depth == 0:
            return position
    return -1


def outer_parts(text: str, mark: re.Pattern[str]) -> list[str]:
    """The parts of a text between separators outside of all brackets.

    `mark` matches every bracket and every separator; its group `separator` matches only the separators.
    """
    parts, depth, start = [], 0, 0
    for match in mark.finditer(text):
        depth += (match[0][-1] in "([{") - (match[0][-1] in ")]}")
        if depth == 0 and match["separator"]:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]
