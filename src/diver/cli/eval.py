"""`diver eval`."""

from collections.abc import Sequence

from diver.recipe.flags import parse

COMMON = {
    "what to evaluate": "run step all_steps alphas temperatures model benchmarks limit",
    "sampling": "samples k temperature max_tokens template seed generator url max_num_seqs",
    "grading and results": "grader out format figures",
}


def command(args: Sequence[str]) -> None:
    """Evaluate a run or a model: sample, grade, and estimate Pass@k."""
    from diver.evaluate.config import EvalConfig

    config = parse(EvalConfig, "diver eval", args, COMMON)
    if config.alphas:
        from diver.evaluate.of_run import front_of_run, read_run

        front_of_run(config)
        if config.run:
            from diver.pages.run_page import write_report

            print(f"page: {write_report(read_run(config.run).folder)}")
    elif config.run:
        from diver.cli.compare import write_evaluations
        from diver.evaluate.of_run import evaluate_run

        write_evaluations(evaluate_run(config), config, config.out)
    else:
        from diver.evaluate.run import run

        run(config)
