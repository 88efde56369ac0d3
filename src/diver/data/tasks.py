"""Tasks that generate their problems and separate those for evaluation from those for training.

A new task is a module and a line here, with a grader in `diver.verify.graders` if none there fits.
"""

from __future__ import annotations

from collections.abc import Callable

from diver.config.data import Data, Source
from diver.data import countdown
from diver.data.sources import with_verifier
from diver.types import Problem
from diver.verify import get_grader

TASKS: dict[str, Callable[[Data, int | None, bool], list[Problem]]] = {"countdown": countdown.load}
"""`data.path` -> (settings, count, held_out) -> problems; without a count as many as the settings say."""


def generate(source: Source, data: Data, count: int | None, held_out: bool, key: str) -> list[Problem]:
    """`count` problems of the task that `source` names, with its verifier; `key` is the source's in the recipe."""
    if source.verifier != "auto":
        get_grader(source.verifier, f"{key}.verifier")
    return [with_verifier(problem, source.verifier) for problem in TASKS[source.path](data, count, held_out)]
