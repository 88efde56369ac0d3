"""What every testbed has: generated problems, an exact verifier, canonical solutions, and a starting policy."""

from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, cast

from diver.config.data import Data
from diver.config.testbeds import POLICIES, TESTBEDS
from diver.extras import install
from diver.types import DiverError, Grade, Problem


class Testbed(Protocol):
    """The functions of a testbed's module. Its problems name the testbed as their verifier."""

    def problems(self, settings: Any, count: int, *, held_out: bool, **task: str) -> list[Problem]:
        """The first `count` problems of the settings, all held out or none; no problem is ever both. `task` if it has some."""
        ...

    def grade(self, response: str, problem: Problem) -> Grade: ...

    def canonical(self, response: str, problem: Problem) -> str:
        """The same for two responses that are the same solution, and for no others; empty if the response is wrong."""
        ...

    def value(self, response: str, problem: Problem) -> str | None:
        """What a wrong response came to; None without an answer."""
        ...


def is_testbed(path: str) -> bool:
    """Whether the path of a source names a testbed, whose problems are generated; `maze:problems` is a function of one's own."""
    name, _, task = path.partition(":")
    return name in TESTBEDS and (not task or bool(TESTBEDS[name].extra))


def generate(path: str, data: Data, count: int | None, *, held_out: bool) -> list[Problem]:
    """`count` problems of the testbed that `path` names; as many as its settings say without a count."""
    name, _, task = path.partition(":")
    entry = TESTBEDS[name]
    settings = getattr(data, entry.settings)
    try:
        testbed = cast(Testbed, import_module(entry.module))
    except ModuleNotFoundError as error:
        raise DiverError(f"{path}: needs an extra: {install(entry.extra)}") from error
    return testbed.problems(settings, count or settings.problems, held_out=held_out, **({"task": task} if task else {}))


def policy_folder(name: str = "countdown") -> Path | None:
    """The bundled policy of that name, a small Llama-architecture checkpoint; None if there is none."""
    return Path(str(files("diver.data") / f"{name.replace('-', '_')}_policy")) if name in POLICIES else None
