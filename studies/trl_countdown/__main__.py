"""`python -m trl_countdown`: make the runs of study.toml that have no record, and write the page. It needs TRL."""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from pathlib import Path

from diver.cli.train import command
from diver.core.run_folder import by_step
from diver.recipe.flags import parse
from diver.sweep.plan import Plan, Setting, slug
from diver.sweep.run import record, sweep
from diver.train.parallel import ParallelRun, run_all
from trl_countdown.page import write_page
from trl_countdown.study import load, plan


@dataclasses.dataclass
class Arguments:
    """Does `diver train --engine trl` give the policy that `diver train` gives?

    A run with a record in OUT/records is not made again; the same command resumes a stopped study.
    """

    jobs: int = 1
    """Runs in parallel, one thread each."""
    methods: tuple[str, ...] = tuple(load()["settings"])
    """Only these methods."""
    seeds: tuple[int, ...] = ()
    """Only these seeds."""
    out: Path = Path("docs/results")
    """The folder of the page, and of the records, records/trl-countdown.jsonl.gz."""
    work: Path = Path("runs/trl-countdown")
    """Where runs are made; it may be deleted when they are finished."""


def main() -> None:
    arguments = parse(Arguments, "python -m trl_countdown", sys.argv[1:])
    sweep_plan = plan(arguments.out, arguments.work)
    settings = [s for s in sweep_plan.settings if s.label.rpartition(", ")[0] in arguments.methods]
    sweep_plan = dataclasses.replace(
        sweep_plan,
        settings=tuple(dataclasses.replace(s, seeds=arguments.seeds or s.seeds) for s in settings),
        seeds=arguments.seeds or sweep_plan.seeds,  # nothing is chosen, so a seed need not wait for the others
        baseline=settings[0].label,
    )
    try:
        make(sweep_plan, arguments.jobs)
    finally:
        print(write_page(arguments.out))


def make(of: Plan, jobs: int) -> None:
    """Train the runs without a record, a seed of all engines before the next, then evaluate them."""
    seeds = sorted({seed for setting in of.settings for seed in setting.seeds})
    runs = [
        training(of, s, seed)
        for seed in seeds
        for s in of.settings
        if not record(of, s.label, seed) and not is_trained(of, s, seed)
    ]
    run_all(runs, of.out / "logs", jobs)
    # A sweep would train by the built-in engine, so it is given the folders. They may be gone where a record exists.
    made = [
        dataclasses.replace(s, folders={seed: str(path) for seed in s.seeds if (path := of.folder(s, seed)).exists()})
        for s in of.settings
    ]
    sweep(dataclasses.replace(of, settings=tuple(made)), jobs)


def is_trained(of: Plan, setting: Setting, seed: int) -> bool:
    """Whether a run is finished. `diver train` may have made it by itself."""
    return of.trained(setting, seed).train.steps in by_step(of.folder(setting, seed) / "checkpoints")


def training(of: Plan, setting: Setting, seed: int) -> ParallelRun:
    """`diver train` with the engine of a setting."""
    folder = of.folder(setting, seed)
    words = [str(of.recipe), *setting.flags, f"--run.seed={seed}", f"--run.folder={folder}", "--evaluate.problems=0"]
    return ParallelRun(
        f"{slug(setting.label)}-{seed}-train", partial(command, words), folder, of.trained(setting, seed).train.steps
    )


if __name__ == "__main__":
    main()
