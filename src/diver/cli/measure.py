"""`diver measure`."""

from __future__ import annotations

from collections.abc import Sequence

import tyro

from diver.config.flags import one_line_errors


def command(args: Sequence[str]) -> None:
    """Measure how diverse the responses are in rollouts of any origin."""
    from diver.measure.run import Measure, run

    with one_line_errors():
        measure = tyro.cli(Measure, prog="diver measure", args=args)
    run(measure)
