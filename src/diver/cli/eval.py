"""`diver eval`."""

from __future__ import annotations

from collections.abc import Sequence

import tyro

from diver.cli.extras import need_torch
from diver.config.flags import one_line_errors
from diver.io.provenance import provenance


def command(args: Sequence[str]) -> None:
    """Sample many responses to each problem, grade them, estimate Avg@k and Pass@k; or compare such results."""
    from diver.evaluate.compare import compare
    from diver.evaluate.config import EvalConfig
    from diver.evaluate.run import run

    with one_line_errors():
        config = tyro.cli(EvalConfig, prog="diver eval", args=args)
    if config.compare:
        print(compare(config.compare))
        return
    if config.generator == "transformers":
        need_torch("--generator transformers")
    run(config, provenance())
