"""`diver train`: a run, its report and its summary."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence

from diver.config.load import RecipeArguments, parse_arguments
from diver.config.recipe import Recipe
from diver.io.run_folder import open_run


@dataclasses.dataclass(kw_only=True)
class TrainArguments(RecipeArguments):
    """Train a policy by a recipe, evaluate it, and write a report: diver train recipes/quickstart.toml

    The same command resumes a stopped run, and shows the summary of a finished one. RECIPE.toml sets keys by section; what
    it leaves out has the paper's value. Every key is a flag, too: --train.steps 20 --method diver-td. Short forms are
    --model PATH, --data PATH and --method NAME; the keys listed under method are those of the method that is named.
    """

    dry_run: bool = False
    """Check all that the run would (data, tokenizer, template, verifier, context length, folder), print the recipe with
    every default filled in, and stop."""


def command(args: Sequence[str]) -> None:
    """Train a policy by a recipe, evaluate it, and write a report."""
    arguments = parse_arguments(TrainArguments, args, "diver train")
    if arguments.dry_run:
        open_run(arguments.recipe, "built-in").close()
        check(arguments.recipe)
        print(json.dumps(dataclasses.asdict(arguments.recipe), indent=2))
    else:
        train(arguments.recipe)


def check(recipe: Recipe) -> None:
    """Raises DiverError for what would stop the run, and prints its notes to standard error; nothing is written.

    Where the hub cannot be reached, this and what depends on it is not checked, which is a note.
    """
    from diver.data.hub import HubUnreachable
    from diver.train.prepare import prepare

    try:
        notes = prepare(recipe).notes
    except HubUnreachable as error:
        notes = [f"not checked: {error}"]
    print(*notes, sep="\n", end="\n" if notes else "", file=sys.stderr)


def train(recipe: Recipe) -> None:
    """Begin or resume the run of `recipe` in its folder, then write the report and print the summary."""
    from diver.report import summary_table, write_report
    from diver.train.trainer import Trainer

    folder = open_run(recipe, "built-in")
    try:
        saved = folder.checkpoints()
        if not saved or int(saved[-1].name.removeprefix("step_")) < recipe.train.steps:
            Trainer(recipe, folder).run()
        write_report(folder.path)
        print(summary_table(folder.path))
    finally:
        folder.close()
