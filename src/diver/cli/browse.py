"""`diver browse`."""

from collections.abc import Sequence

from diver.recipe.flags import parse

COMMON = {
    "what to read": "rollouts steps by all groups threshold",
    "what to write": "out watch port format figures",
}


def command(args: Sequence[str]) -> None:
    """Make one page of runs or of anyone's rollouts: curves, alerts, and groups to read."""
    from diver.pages.browse import Browse, run

    run(parse(Browse, "diver browse", args, COMMON))
