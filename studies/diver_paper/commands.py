"""The commands that this study adds to `diver`; nothing heavy is imported before one of them runs."""

from __future__ import annotations

from collections.abc import Sequence

from diver.config.flags import parse
from diver.io.provenance import provenance


def reproduce(args: Sequence[str]) -> None:
    """Reproduce a table or figure of the paper by name (--list shows them), or compare all methods (methods)."""
    origin = {key: value for key, value in provenance().items() if key != "started"}
    if args[:1] == ["methods"]:
        from method_comparison import command

        command.reproduce(parse(command.Arguments, "diver reproduce methods", args[1:]), origin)
        return
    from diver_paper.reproduce import Arguments
    from diver_paper.reproduce import reproduce as run

    arguments = parse(Arguments, "diver reproduce", args)
    run(arguments, origin)


def judge(args: Sequence[str]) -> None:
    """Let a language model rank the answers of several models to the same problems."""
    from diver_paper.judge.command import Judge, run

    run(parse(Judge, "diver judge", args))


def validity(args: Sequence[str]) -> None:
    """Measure rollouts by several metrics of diversity, and how the metrics correlate over problems."""
    from diver_paper.validity_command import MetricValidity, run

    run(parse(MetricValidity, "diver validity", args))
