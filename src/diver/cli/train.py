"""`diver train`: a run, its report and its summary."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from diver.config.load import RecipeArguments, parse_arguments
from diver.config.recipe import Recipe, make_recipe
from diver.io.provenance import provenance


@dataclasses.dataclass(kw_only=True)
class TrainArguments(RecipeArguments):
    """Train a policy by a recipe, evaluate it, and write a report: diver train recipes/quickstart.toml

    The same command resumes a stopped run, and shows the summary of a finished one. RECIPE.toml sets keys by section; what
    it leaves out has the paper's value. Every key is a flag, too: --train.steps 20 --method diver-td. Short forms are
    --model PATH, --data PATH and --method NAME; the keys listed under method are those of the method that is named.
    """

    dry_run: bool = False
    """Check the recipe, print it with every default filled in, and stop."""


def command(args: Sequence[str]) -> None:
    """Train a policy by a recipe, evaluate it, and write a report."""
    arguments = parse_arguments(TrainArguments, args, "diver train")
    if arguments.dry_run:
        print(json.dumps(dataclasses.asdict(arguments.recipe), indent=2))
    else:
        train(arguments.recipe)


def train(recipe: Recipe) -> None:
    """Begin or resume the run of `recipe` in its folder, then write the report and print the summary."""
    from diver.io.run_folder import RunFolder
    from diver.report import summary_table, write_report
    from diver.train.trainer import Trainer

    folder = RunFolder(recipe.folder, _config(recipe), recipe.identity(), make_recipe({}).identity())
    try:
        saved = folder.checkpoints()
        if not saved or int(saved[-1].name.removeprefix("step_")) < recipe.train.steps:
            Trainer(recipe, folder).run()
        write_report(folder.path)
        print(summary_table(folder.path))
    finally:
        folder.close()


def _config(recipe: Recipe) -> dict[str, Any]:
    """What config.json says of a run besides its identity."""
    return {
        "recipe": dataclasses.asdict(recipe),
        "seed": recipe.run.seed,
        "schedule_steps": recipe.train.steps,
        "command": shlex.join(["diver", *sys.argv[1:]]),
        **provenance(),
    }
