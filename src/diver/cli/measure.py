"""`diver measure`."""

from collections.abc import Sequence

from diver.recipe.flags import parse


def command(args: Sequence[str]) -> None:
    """Measure how diverse the responses are in rollouts of any origin."""
    from diver.look.measure import Measure, run

    run(parse(Measure, "diver measure", args))
