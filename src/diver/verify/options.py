"""The options that a multiple-choice prompt lists."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from diver.types import Problem

LETTERS = "ABCDEFGHIJ"
NUMBERS = "123456789"

_LABEL = re.compile(r"^[ \t]*(?P<open>\(?)(?P<label>[A-J]|[1-9])(?P<close>[).:])(?=\s)", re.MULTILINE)


class Listed(NamedTuple):
    """A prompt taken apart: the text before the options, label -> text, the text after them, and "(" and ")"."""

    before: str
    options: Mapping[str, str]
    after: str
    marks: tuple[str, str]

    def prompt(self) -> str:
        opening, closing = self.marks
        lines = "\n".join(f"{opening}{label}{closing} {text}" for label, text in self.options.items())
        return f"{self.before}{lines}{self.after}"


def listed(prompt: str) -> Listed | None:
    """The last list of at least two options in a prompt, labelled A, B, ... or 1, 2, ...; None without one.

    An option ends at the next label, the last one at an empty line. Where labels begin anew, the last list counts, not one
    inside the question.
    """
    for labels in (LETTERS, NUMBERS):
        matches: list[re.Match[str]] = []
        for match in _LABEL.finditer(prompt):
            if match["label"] == labels[0]:
                matches = [match]
            elif matches and len(matches) < len(labels) and match["label"] == labels[len(matches)]:
                matches.append(match)
        if len(matches) > 1:
            return _parse(prompt, matches)
    return None


def _parse(prompt: str, matches: Sequence[re.Match[str]]) -> Listed:
    ends = [match.start() for match in matches[1:]]
    texts = [prompt[match.end() : end].strip() for match, end in zip(matches, ends, strict=False)]
    tail = prompt[matches[-1].end() :]
    start = len(tail) - len(tail.lstrip())
    blank = re.compile(r"\s*\n[ \t]*\n|\s*$").search(tail, start)
    end = blank.start() if blank else len(tail)
    texts.append(tail[start:end])
    options = {match["label"]: text for match, text in zip(matches, texts, strict=True)}
    return Listed(prompt[: matches[0].start()], options, tail[end:], (matches[0]["open"], matches[0]["close"]))


def options_of(problem: Problem) -> dict[str, str]:
    """Label -> text: `meta["options"]` (a list, or a mapping), else what the prompt lists; empty where it lists none."""
    given = problem.meta.get("options")
    if isinstance(given, Mapping):
        return {str(label).upper(): str(text) for label, text in given.items()}
    if isinstance(given, Sequence) and not isinstance(given, str):
        return dict(zip(LETTERS, map(str, given), strict=False))
    prompt = problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1].get("content", "")
    parts = listed(prompt)
    return dict(parts.options) if parts else {}
