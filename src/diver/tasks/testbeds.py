"""Problems of testbeds, which are generated, and their starting policies."""

from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from diver.core.extras import EXTRAS, added, check_studies, require
from diver.core.types import DiverError, Problem
from diver.grading import get_grader
from diver.recipe.data import POLICIES, TESTBEDS, Data, Source
from diver.tasks import countdown, maze, reasoning_gym

PROBLEMS: dict[str, Callable[..., list[Problem]]] = {
    "countdown": countdown.problems,
    "maze": maze.problems,
    "reasoning-gym": reasoning_gym.problems,
}
"""Testbed -> a function (settings, count, held_out=..., and task=... if it has tasks): its first `count` problems.

All of them are held out or none; no problem is ever both. Installed packages add others: entry points `diver.testbeds`.
"""


def is_testbed(path: str) -> bool:
    """Whether the path of a source names a testbed, whose problems are generated, not a function "maze:problems"."""
    name, _, task = path.partition(":")
    return name in TESTBEDS and (not task or TESTBEDS[name])


def generate(source: Source, data: Data, count: int | None, *, held_out: bool, key: str = "data") -> list[Problem]:
    """`count` problems of the testbed that `source` names, with its verifier; `key` is its key in the recipe.

    Without a count, the settings of the testbed in `data` give the number.
    """
    if source.verifier != "auto":
        get_grader(source.verifier, f"{key}.verifier")
    row_keys = ("columns", "skip_invalid_rows", "config", "split", "revision")
    if keys := [name for name in row_keys if getattr(source, name) != getattr(Source(), name)]:
        raise DiverError(f"{key}.{keys[0]}: is for problems that are read from rows; {source.path} generates its own")
    name, _, task = source.path.partition(":")
    require(*EXTRAS.get(name, ()))
    settings, arguments = getattr(data, name.replace("-", "_")), {"task": task} if task else {}
    if not (draw := PROBLEMS.get(name)):
        draw = _installed("testbeds", name, f"{key}.path = {name!r}")
    problems = draw(settings, count or settings.problems, held_out=held_out, **arguments)[: source.limit]
    return problems if source.verifier == "auto" else [replace(p, verifier=source.verifier) for p in problems]


def policy_folder(name: str = "countdown") -> Path | None:
    """The starting policy of that name, a small Llama-architecture checkpoint; None if no policy has that name.

    Raises:
        DiverError: The policy comes with diver-studies, which is not installed.
    """
    if name == "countdown":
        return Path(str(files("diver.tasks") / "countdown_policy"))
    if name not in POLICIES:
        return None
    return _installed("policies", name, f"the policy {name!r}")


def _installed(kind: str, name: str, what: str) -> Any:
    """The object that an installed package adds to a kind of entry points."""
    if not (entry := added(kind).get(name)):
        check_studies(kind, name, what)
        raise DiverError(f"{what} is not installed")
    return entry.load()
