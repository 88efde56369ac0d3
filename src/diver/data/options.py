"""The options that a multiple-choice prompt lists."""

from __future__ import annotations

import re

LETTERS = "ABCDEFGHIJ"
NUMBERS = "123456789"

_LINE = re.compile(r"^[ \t]*\(?([A-J]|[1-9])[).:][ \t]+(\S.*)$", re.MULTILINE)


def listed_options(prompt: str) -> dict[str, str]:
    """Label -> text of the lines "A) ...", "(B) ...", "3. ..." of a prompt; empty if fewer than two follow in order.

    Where labels begin anew, the last list counts, not one inside the question.
    """
    lines = _LINE.findall(prompt)
    for labels in (LETTERS, NUMBERS):
        found: dict[str, str] = {}
        for label, text in lines:
            if label == labels[0]:
                found = {}
            if len(found) < len(labels) and label == labels[len(found)]:
                found[label] = text.strip()
        if len(found) > 1:
            return found
    return {}
