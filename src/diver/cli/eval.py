"""`diver eval`."""

from collections.abc import Sequence

from diver.recipe.flags import parse


def command(args: Sequence[str]) -> None:
    """Evaluate a run or a model: sample many responses to each problem, grade them, estimate Pass@k."""
    from diver.evaluate.config import EvalConfig

    config = parse(EvalConfig, "diver eval", args)
    if config.run:
        from diver.evaluate.of_run import evaluate_run

        evaluate_run(config)
    else:
        from diver.evaluate.run import run

        run(config)
