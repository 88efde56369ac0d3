"""Testbeds, by name: tasks whose problems are generated, with an exact verifier and a starting policy.

A testbed is a module with the functions of `diver.data.testbeds.Testbed`, settings of its problems in `diver.config.data`,
and a line here.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """`module` has the functions; `settings` names its section of `data`."""

    module: str
    settings: str
    rules: int = 0
    """Versions of its verifier: raise it with every change that can change a grade. 0: see `diver.verify.graders`."""
    meta: tuple[str, ...] = ()
    """What its verifier reads of `Problem.meta`."""
    gradable: str = ""
    """A function of its module that raises ValueError for a problem that no response can solve; see `Grader.gradable`."""
    extra: str = ""
    """Of this package, without which it is not installed; such a testbed has tasks, named after a colon."""


TESTBEDS = {
    "countdown": Entry("diver.data.countdown", "countdown", rules=5, meta=("numbers", "target"), gradable="gradable"),
    "maze": Entry("diver.data.maze", "maze", rules=3, meta=("size", "start", "goal", "walls")),
    "reasoning-gym": Entry(
        "diver.data.reasoning_gym", "reasoning_gym", meta=("task", "sizes", "entry"), extra="reasoning-gym"
    ),
}

POLICIES = ("countdown", "maze", "graph-coloring")
"""Starting policies inside the package, made by `scripts/starting_policy.py`."""
