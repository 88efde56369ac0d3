"""`diver methods`."""

import dataclasses
import shutil
import sys
from collections.abc import Sequence

from tyro.conf import Positional

from diver.config.flags import parse


@dataclasses.dataclass
class Methods:
    names: Positional[tuple[str, ...]] = ()
    """Which, by default all; my_module:MyMethod is one of your own. If an engine cannot run one of them, its message follows."""


def command(args: Sequence[str]) -> None:
    """List the methods: what each rewards, its loss, what it needs, and which engines can run it."""
    from diver.integrations.engines import ALL, listed, refusals, table
    from diver.methods import METHODS, method_named

    names = parse(Methods, "diver methods", args, description=command.__doc__).names
    methods = [method_named(name) for name in names or METHODS]
    terminal = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(listed(methods, terminal) if terminal else table(methods))
    print(ALL)
    for reason in dict.fromkeys(reason for method in methods if names for reason in refusals(method).values()):
        print(reason)
