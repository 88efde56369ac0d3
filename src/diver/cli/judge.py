"""`diver judge`."""

from collections.abc import Sequence

from diver.recipe.flags import parse


def command(args: Sequence[str]) -> None:
    """Let a language model rank the answers of several models to the same problems."""
    from diver.look.judge.run import Judge, run

    run(parse(Judge, "diver judge", args))
