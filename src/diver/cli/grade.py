"""`diver grade`."""

from collections.abc import Sequence

from diver.recipe.flags import parse

COMMON = {
    "what to read": "rollouts steps by problem response answer outcome",
    "how to grade": "grader k threshold verify.timeout_s verify.workers",
    "what to write": "out format figures",
}


def command(args: Sequence[str]) -> None:
    """Grade stored responses against reference answers, and estimate Pass@k."""
    from diver.evaluate.of_run import problems_of_run
    from diver.rollouts.grade import GradeConfig, run

    run(parse(GradeConfig, "diver grade", args, COMMON), problems_of_run)
