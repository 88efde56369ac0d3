"""The commands that this study adds to `diver`; nothing heavy is imported before one of them runs."""

from __future__ import annotations

from collections.abc import Sequence

import tyro

from diver.config.flags import one_line_errors
from diver.io.provenance import provenance


def reproduce(args: Sequence[str]) -> None:
    """Reproduce a table or figure of the paper by name: train, evaluate, compare; --list shows them."""
    from diver_paper.reproduce import Arguments
    from diver_paper.reproduce import reproduce as run

    with one_line_errors():
        arguments = tyro.cli(Arguments, prog="diver reproduce", args=args)
    run(arguments, {key: value for key, value in provenance().items() if key != "started"})


def judge(args: Sequence[str]) -> None:
    """Let a language model rank the answers of several models to the same problems."""
    from diver_paper.judge.command import Judge, run

    with one_line_errors():
        arguments = tyro.cli(Judge, prog="diver judge", args=args)
    run(arguments)


def validity(args: Sequence[str]) -> None:
    """Measure rollouts by several metrics of diversity, and how the metrics correlate over problems."""
    from diver_paper.validity_command import MetricValidity, run

    with one_line_errors():
        arguments = tyro.cli(MetricValidity, prog="diver validity", args=args)
    run(arguments)
