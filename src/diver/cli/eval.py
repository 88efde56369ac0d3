"""`diver eval`."""

from collections.abc import Sequence

from diver.config.flags import parse


def command(args: Sequence[str]) -> None:
    """Evaluate a run or a model: sample many responses to each problem, grade them, estimate Pass@k; or compare results."""
    from diver.evaluate.compare import compare
    from diver.evaluate.config import EvalConfig
    from diver.evaluate.of_run import evaluate_run
    from diver.evaluate.run import run

    config = parse(EvalConfig, "diver eval", args)
    if config.compare:
        compare(config.compare, config, config.out)
    elif config.run:
        evaluate_run(config)
    else:
        run(config)
