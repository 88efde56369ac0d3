"""`diver eval`."""

from __future__ import annotations

from collections.abc import Sequence

from diver.config.flags import parse
from diver.io.provenance import provenance


def command(args: Sequence[str]) -> None:
    """Sample many responses to each problem, grade them, estimate Avg@k and Pass@k; or compare such results."""
    from diver.evaluate.compare import compare
    from diver.evaluate.config import EvalConfig
    from diver.evaluate.run import run

    config = parse(EvalConfig, "diver eval", args)
    if config.compare:
        print(compare(config.compare))
    else:
        run(config, provenance())
