"""Problems of testbeds, which are generated, and their starting policies."""

from collections.abc import Callable
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from diver.core.extras import EXTRAS, install
from diver.core.types import DiverError, Problem
from diver.recipe.data import Data
from diver.recipe.testbeds import POLICIES, TESTBEDS
from diver.tasks.verify import countdown, maze, reasoning_gym

PROBLEMS: dict[str, Callable[..., list[Problem]]] = {
    "countdown": countdown.problems,
    "maze": maze.problems,
    "reasoning-gym": reasoning_gym.problems,
}
"""Testbed -> a function (settings, count, held_out=..., and task=... if it has tasks): its first `count` problems.

All of them are held out or none; no problem is ever both.
"""


def is_testbed(path: str) -> bool:
    """Whether the path of a source names a testbed, whose problems are generated, and no function "maze:problems"."""
    name, _, task = path.partition(":")
    return name in TESTBEDS and (not task or bool(TESTBEDS[name].extra))


def generate(path: str, data: Data, count: int | None, *, held_out: bool) -> list[Problem]:
    """`count` problems of the testbed that `path` names; as many as its settings say without a count."""
    name, _, task = path.partition(":")
    section, extra = TESTBEDS[name]
    if extra and find_spec(EXTRAS[extra][0]) is None:
        raise DiverError(f"{path}: needs an extra: {install(extra)}")
    settings = getattr(data, section)
    return PROBLEMS[name](settings, count or settings.problems, held_out=held_out, **({"task": task} if task else {}))


def policy_folder(name: str = "countdown") -> Path | None:
    """The starting policy of that name, a small Llama-architecture checkpoint; None if there is none.

    Raises:
        DiverError: The policy comes with diver-studies, which is not installed.
    """
    if name == "countdown":
        return Path(str(files("diver.tasks") / "countdown_policy"))
    if name not in POLICIES:
        return None
    installed = entry_points(group="diver.policies", name=name)
    if not installed:
        raise DiverError(f"the policy {name!r} comes with the studies: pip install ./studies in a clone of DIVER")
    return installed[name].load()
