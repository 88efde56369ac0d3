"""`diver train`: a run, its report and its summary."""

import dataclasses
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from pydantic import PositiveInt

from diver.config.load import RecipeArguments, parse_arguments
from diver.config.recipe import Recipe, make_recipe
from diver.io.jsonl import table
from diver.io.run_folder import by_step, open_run, set_aside
from diver.types import DiverError


@dataclasses.dataclass(kw_only=True)
class TrainArguments(RecipeArguments):
    """Train a policy from a recipe, evaluate it, and write a report: diver train recipes/quickstart.toml

    The same command resumes a stopped run, and shows the summary of a finished one; --train.steps N, the step of its last
    checkpoint, ends a stopped run there. RECIPE.toml sets keys by section; what it leaves out has the paper's value. Every
    key is a flag, too: --train.steps 20 --method diver-td. Short forms are --model PATH, --data PATH and --method NAME; the
    keys listed under method are those of the method that is named.
    """

    dry_run: bool = False
    """Check all that the run would (data, tokenizer, template, verifier, context length, folder), print the recipe with
    every default filled in, and stop."""
    restart: bool = False
    """Set a run folder that is there aside, as FOLDER.1, and begin anew."""
    seeds: str | None = None
    """Several runs that differ in run.seed, such as 0..4 or 0,3,7; each in a folder of its own, FOLDER/seed_N."""
    jobs: PositiveInt = 1
    """With --seeds: how many runs at a time, a thread each."""


def command(args: Sequence[str]) -> None:
    """Train a policy from a recipe, evaluate it, and write a report."""
    arguments = parse_arguments(TrainArguments, args, "diver train")
    if arguments.seeds is not None:
        if any(word.partition("=")[0] == "--run.seed" for word in args):
            raise DiverError(f"--run.seed: the seeds are those of --seeds {arguments.seeds}; give one of the two")
        train_seeds(arguments)
    elif arguments.jobs > 1:
        raise DiverError(f"--jobs {arguments.jobs}: is for the runs of --seeds, and this is one run")
    elif arguments.dry_run:
        if not arguments.restart:  # which would set aside what another recipe has left in the folder
            open_run(arguments.recipe).close()
        check(arguments.recipe)
        print(json.dumps(dataclasses.asdict(arguments.recipe), indent=2))
    else:
        train(arguments.recipe, arguments.restart)


def check(recipe: Recipe) -> None:
    """Raises DiverError for what would stop the run, and prints its notes to standard error; nothing is written.

    Where the hub cannot be reached, this and what depends on it is not checked, which is a note.
    """
    from diver.data.hub import HubUnreachable
    from diver.train.prepare import check_trainable, prepare
    from diver.train.rehearsal import rehearse

    check_trainable(recipe)
    try:
        train, _, tokenizer, notes = prepare(recipe)
        notes += rehearse(recipe, train, tokenizer)
    except HubUnreachable as error:
        notes = [f"not checked: {error}"]
    print(*notes, sep="\n", end="\n" if notes else "", file=sys.stderr)


def train(recipe: Recipe, restart: bool = False) -> None:
    """Begin or resume the run of `recipe` in its folder, then write the report and print the summary.

    A run whose checkpoints were removed is never begun anew in its folder: a finished one has its summary.
    """
    from diver.report import summary_table, write_report
    from diver.train.trainer import Trainer

    if restart and (aside := set_aside(recipe.folder)):
        print(f"{recipe.folder}: now {aside}")
    folder = open_run(recipe)
    try:
        steps, completed = recipe.train.steps, max(folder.steps(), default=0)
        saved = max(by_step(folder.path / "checkpoints"), default=0)
        evaluated = not recipe.evaluate.problems or folder.evaluated(steps, recipe.evaluate.num_samples)
        finished = (
            saved > steps
            or (saved == steps and evaluated)
            or (not saved and completed >= steps and (folder.path / "report.html").exists())
        )
        before = table(folder.config, "recipe", "train")  # settings of the run so far: some may change when it goes on
        if finished:  # a kill may have come between the last save and the end of an older checkpoint
            limits = [recipe.train.save_total_limit, before.get("save_total_limit", 1)]
            folder.drop_checkpoints(max(limits))
        else:
            folder.check_saved(saved, recipe.train.save_steps)
            Trainer(recipe, folder).run()
        write_report(folder.path)
        print(summary_table(folder.path))
    finally:
        folder.close()


def train_seeds(arguments: TrainArguments) -> None:
    """A run for each seed, in parallel, then their mean and intervals over seeds and problems."""
    from diver.cli.compare import command as compare
    from diver.train.parallel import Run, run_all

    folder = arguments.recipe.folder
    recipes = {f"seed_{seed}": _with_seed(arguments.recipe, seed) for seed in parse_seeds(arguments.seeds or "")}
    if (folder / "config.json").exists():
        raise DiverError(f"{folder}: is the folder of one run; choose another run.folder for those of --seeds")
    for recipe in recipes.values():
        if arguments.restart and not arguments.dry_run and (aside := set_aside(recipe.folder)):
            print(f"{recipe.folder}: now {aside}")
        if not (arguments.restart and arguments.dry_run):
            open_run(recipe).close()  # another recipe's folder is refused here, and not an hour later
    check(next(iter(recipes.values())))
    if arguments.dry_run:
        print(*(recipe.folder for recipe in recipes.values()), sep="\n")
        return
    runs = [
        Run(
            name,
            "diver.cli.train:train_table",
            {"table": dataclasses.asdict(recipe)},
            recipe.folder,
            recipe.train.steps,
        )
        for name, recipe in recipes.items()
    ]
    run_all(runs, folder, arguments.jobs)
    hint = ""
    if arguments.recipe.evaluate.problems:
        compare([str(recipe.folder) for recipe in recipes.values()])
        hint = f"; beside those of another method: diver compare {folder} OTHER_FOLDER"
    print(f"Runs: {folder}/seed_N{hint}")


def _with_seed(recipe: Recipe, seed: int) -> Recipe:
    run = dataclasses.replace(recipe.run, seed=seed, folder=str(recipe.folder / f"seed_{seed}"))
    return dataclasses.replace(recipe, run=run)


def train_table(table: dict[str, Any]) -> None:
    """`train` of a recipe as nested tables, for a process of its own."""
    train(make_recipe(table))


def parse_seeds(text: str) -> list[int]:
    """0..4 as 0, 1, 2, 3, 4; 0,3,7 as they are. DiverError for anything else."""
    seeds: list[int] = []
    if re.fullmatch(r"\d+\.\.\d+|\d+(, *\d+)*", text, re.ASCII):
        first, dots, last = text.partition("..")
        seeds = [*range(int(first), int(last) + 1)] if dots else [int(part) for part in text.split(",")]
    if not seeds or len({*seeds}) < len(seeds):
        raise DiverError(f"--seeds {text}: must be FIRST..LAST or different numbers with commas, such as 0..4 or 0,3,7")
    return seeds
