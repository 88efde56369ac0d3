"""`diver grade`."""

from collections.abc import Sequence

from diver.recipe.flags import parse


def command(args: Sequence[str]) -> None:
    """Grade responses that exist against reference answers: Pass@k, a row a response, and how far labels agree."""
    from diver.look.grade import GradeConfig, run

    run(parse(GradeConfig, "diver grade", args))
