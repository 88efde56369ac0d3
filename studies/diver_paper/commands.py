"""The commands that this study adds to `diver`; nothing heavy is imported before one of them runs."""

from __future__ import annotations

from collections.abc import Sequence

from diver.recipe.flags import parse


def reproduce(args: Sequence[str]) -> None:
    """Reproduce a table or figure of the paper by name, or compare all methods."""
    if args[:1] == ["methods"]:
        from method_comparison import command

        command.reproduce(parse(command.Arguments, "diver reproduce methods", args[1:]))
        return
    from diver_paper.reproduce import Arguments
    from diver_paper.reproduce import reproduce as run

    run(parse(Arguments, "diver reproduce", args))


def validity(args: Sequence[str]) -> None:
    """Measure rollouts by several metrics of diversity, and how they correlate over problems."""
    from diver_paper.validity_command import MetricValidity, run

    run(parse(MetricValidity, "diver validity", args))
