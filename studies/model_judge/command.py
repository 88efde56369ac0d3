"""`diver judge`."""

from collections.abc import Sequence

from diver.recipe.flags import parse

COMMON = {
    "what to compare": "models benchmarks answer limit out",
    "the judge": "url judge extra structured_output rounds temperature max_tokens concurrency price seed",
}


def command(args: Sequence[str]) -> None:
    """Let a language model rank the answers of several models to the same problems."""
    from model_judge.run import Judge, run

    run(parse(Judge, "diver judge", args, COMMON))
