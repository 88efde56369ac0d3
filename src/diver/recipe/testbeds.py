"""Testbeds, by name: tasks whose problems are generated, with an exact verifier and a starting policy.

A testbed is a function in `diver.tasks.testbeds.PROBLEMS`, a grader in `diver.tasks.verify.graders`,
settings of its problems in `diver.recipe.data`, and a line here.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    settings: str
    """The section of `data` with the settings of its problems."""
    extra: str = ""
    """The extra of this package that the testbed needs. A testbed with an extra has tasks, named after a colon."""


TESTBEDS = {
    "countdown": Entry("countdown"),
    "maze": Entry("maze"),
    "reasoning-gym": Entry("reasoning_gym", extra="reasoning-gym"),
}

POLICIES = ("countdown", "maze", "graph-coloring")
"""Starting policies, made by `scripts/starting_policy.py`: the first is in this package, the others in `studies/`."""
