"""Testbeds, by name: tasks whose problems are generated, with an exact verifier and a starting policy.

A testbed is a module with the functions of `diver.data.testbeds.Testbed`, settings of its problems in `diver.config.data`,
and a line here.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """`module` has the functions; `settings` names its section of `data`."""

    module: str
    settings: str
    rules: int
    """Versions of its verifier: raise it with every change that can change a grade."""


TESTBEDS = {
    "countdown": Entry("diver.data.countdown", "countdown", rules=3),
}

POLICIES = ("countdown",)
"""Starting policies inside the package, made by `scripts/starting_policy.py NAME`."""
