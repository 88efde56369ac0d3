"""Multiple choice as a text: how options are listed, shuffled with a seed, and what guessing gives.

Which of these is a plant?      (an empty line, then a line an option)
A) salt
B) moss
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from diver.data.options import LETTERS, NUMBERS
from diver.io.seeds import stream_seed
from diver.types import Problem

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


def prompt_with_options(question: str, options: Mapping[str, str]) -> str:
    """A question and its options, label -> text; an option of several lines becomes one line."""
    lines = {label: re.sub(r"\s*\n\s*", " ", text.strip()) for label, text in options.items()}
    return Listed(f"{question.strip()}\n\n", lines, "", ("", ")")).prompt()


def listed(prompt: str) -> Listed | None:
    """The last list of at least two options in a prompt, labelled A, B, ... or 1, 2, ...; None without one.

    An option goes on to the next label; the last one ends at an empty line.
    """
    for labels in (LETTERS, NUMBERS):
        found: list[re.Match[str]] = []
        for match in _LABEL.finditer(prompt):
            if match["label"] == labels[0]:
                found = [match]
            elif found and len(found) < len(labels) and match["label"] == labels[len(found)]:
                found.append(match)
        if len(found) > 1:
            return _taken_apart(prompt, found)
    return None


def _taken_apart(prompt: str, found: Sequence[re.Match[str]]) -> Listed:
    ends = [match.start() for match in found[1:]]
    texts = [prompt[match.end() : end].strip() for match, end in zip(found, ends, strict=False)]
    tail = prompt[found[-1].end() :]
    start = len(tail) - len(tail.lstrip())
    blank = re.compile(r"\s*\n[ \t]*\n|\s*$").search(tail, start)
    end = blank.start() if blank else len(tail)
    texts.append(tail[start:end])
    options = {match["label"]: text for match, text in zip(found, texts, strict=True)}
    return Listed(prompt[: found[0].start()], options, tail[end:], (found[0]["open"], found[0]["close"]))


def shuffled(problem: Problem, seed: int) -> Problem | None:
    """The problem with its options in an order drawn from (seed, problem id), and its answer moved along.

    `meta["options"]` becomes label -> text as it is shown, `meta["shuffle"]` says the seed and, label by label, where
    each option stood before. None where the prompt lists no options or the answer is not one of their labels.
    """
    parts = listed(problem.prompt) if isinstance(problem.prompt, str) else None
    if parts is None or problem.answer not in parts.options:
        return None
    labels = list(parts.options)
    came_from = random.Random(stream_seed(seed, "options", problem.id)).sample(labels, len(labels))
    options = {new: parts.options[old] for new, old in zip(labels, came_from, strict=True)}
    return dataclasses.replace(
        problem,
        prompt=parts._replace(options=options).prompt(),
        answer=labels[came_from.index(problem.answer)],
        meta={
            **problem.meta,
            "options": options,
            "shuffle": {"seed": seed, "from": dict(zip(labels, came_from, strict=True))},
        },
    )


def chance(problems: Sequence[Problem]) -> float | None:
    """What guessing gives: the mean of 1/(number of options), over the problems that list some; None if none does."""
    counts = []
    for problem in problems:
        given = problem.meta.get("options")
        if not given and isinstance(problem.prompt, str) and (parts := listed(problem.prompt)):
            given = parts.options
        if given:
            counts.append(len(given))
    return sum(1 / n for n in counts) / len(counts) if counts else None
