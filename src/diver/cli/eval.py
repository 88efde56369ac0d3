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
    from diver.evaluate.plan import Plan
    from diver.evaluate.run import evaluate

    with one_line_errors():
        plan = tyro.cli(Plan, prog="diver eval", args=args)
    if plan.compare:
        print(compare(plan.compare))
        return
    if plan.sampler == "embedded":
        need_torch("the embedded sampler")
    evaluate(plan, provenance())
