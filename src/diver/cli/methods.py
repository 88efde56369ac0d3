"""`diver methods`."""

import dataclasses
import shutil
import sys
from collections.abc import Sequence

from tyro.conf import Positional

from diver.recipe.flags import parse


@dataclasses.dataclass
class Methods:
    names: Positional[tuple[str, ...]] = ()
    """Which, by default all; my_module:MyMethod is one of your own. If an engine cannot run one of them, its message
    follows."""


def command(args: Sequence[str]) -> None:
    """List the methods: what each rewards, its loss, what it needs, and which engines can run it."""
    from diver.integrations.engines import ALL, catalogue, refusals
    from diver.methods import METHODS, method_named

    names = parse(Methods, "diver methods", args, description=command.__doc__).names
    methods = [method_named(name) for name in names or METHODS]
    print(catalogue(methods, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    print(ALL)
    for reason in dict.fromkeys(reason for method in methods if names for reason in refusals(method).values()):
        print(reason)
