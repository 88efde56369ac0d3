"""`diver browse`."""

from collections.abc import Sequence

from diver.recipe.flags import parse


def command(args: Sequence[str]) -> None:
    """Write or serve one page of anyone's rollouts: groups to read, curves of Pass@k, diversity and entropy, alerts."""
    from diver.look.browse import Browse, run

    run(parse(Browse, "diver browse", args))
