"""`diver verl`: the same recipe on a cluster."""

import dataclasses
import importlib.util
import os
import sys
from collections.abc import Sequence

from diver.config.load import RecipeArguments, parse_arguments
from diver.extras import missing
from diver.types import DiverError


@dataclasses.dataclass(kw_only=True)
class VerlArguments(RecipeArguments):
    """Run a recipe on a cluster, with the equivalent verl command.

    The problems are first written in verl's layout. Every key of the recipe is a flag, as for diver train, and its section
    [verl] sets what a cluster adds; verl's own options come after two dashes:
    diver verl recipes/paper/qwen2.5-math-7b.toml --method diver-td -- trainer.nnodes=2
    """

    dry_run: bool = False
    """Print the command and stop. Needs neither verl nor the model, and looks at neither data nor verifier, which --problems-only does."""
    problems_only: bool = False
    """Write the problems, print where they are, and stop."""


def command(args: Sequence[str]) -> None:
    """Run a recipe on a cluster, with the equivalent verl command."""
    from diver.integrations.keys import table
    from diver.integrations.verl.launch import command as verl_command
    from diver.integrations.verl.launch import shown
    from diver.io.run_folder import open_run

    end = args.index("--") if "--" in args else len(args)
    try:
        arguments = parse_arguments(VerlArguments, args[:end], "diver verl")
    except SystemExit:  # after --help
        print(f"the keys of a recipe in verl:\n{table('verl')}")
        raise
    words = verl_command(arguments.recipe, args[end + 1 :])
    folder = open_run(arguments.recipe, "verl")  # refuses another run's, whose checkpoints verl would go on from
    if arguments.dry_run:
        folder.close()
        print(shown(words))
        return
    if not arguments.problems_only and importlib.util.find_spec("verl") is None:
        raise DiverError(f"{missing('verl')}; --dry-run gives the command, --problems-only writes the problems")
    from diver.integrations.verl.parquet import write_problems
    from diver.train.prepare import prepare

    prepared = prepare(arguments.recipe)
    folder.begin()  # nothing is written before all of it is known to be right
    print("\n".join(write_problems(arguments.recipe, prepared)), flush=True)
    if not arguments.problems_only:
        # In place of this process, so that signals reach verl. The lock of the folder ends with it; verl's trainer takes it.
        os.execv(sys.executable, [sys.executable, *words])
    folder.close()
