"""`diver trl`: the same recipe with TRL."""

import dataclasses
import importlib.util
import json
import os
from collections.abc import Sequence

from diver.config.load import RecipeArguments, parse_arguments
from diver.extras import missing
from diver.types import DiverError


@dataclasses.dataclass(kw_only=True)
class TrlArguments(RecipeArguments):
    """Run a recipe with TRL's GRPOTrainer: LoRA and vLLM on one GPU.

    Every key of the recipe is a flag, as for diver train, and its section [trl] sets what TRL adds:
    diver trl recipes/quickstart.toml --trl.lora_rank 16
    """

    dry_run: bool = False
    """Print TRL's GRPOConfig and the keys that it does not take, and stop. Its fields are checked where TRL is installed."""


def command(args: Sequence[str]) -> None:
    """Run a recipe with TRL: LoRA and vLLM on one GPU."""
    from diver.cli.train import check as check_recipe
    from diver.integrations.keys import table
    from diver.integrations.trl.launch import adapters, arguments, identity
    from diver.integrations.trl.launch import command as several
    from diver.io.run_folder import open_run
    from diver.report import summary_table, write_report

    try:
        recipe = (parsed := parse_arguments(TrlArguments, args, "diver trl")).recipe
    except SystemExit:  # after --help
        print(f"the keys of a recipe in TRL:\n{table('trl')}")
        raise
    fields = arguments(recipe)
    worker = "LOCAL_RANK" in os.environ
    if not worker:
        open_run(recipe, "trl", **identity(recipe)).close()  # refuses another run's folder before any process starts
    installed = importlib.util.find_spec("trl") is not None
    if parsed.dry_run:
        checked = "checked by the TRL installed here" if installed else "not checked: TRL is not installed here"
        check_recipe(recipe)
        if installed:
            from diver.integrations.trl.run import check

            check(recipe)
        print(json.dumps({"GRPOConfig": fields, "LoraConfig": adapters(recipe)}, indent=2))
        print(f"\n{checked}\nnot in GRPOConfig:\n{table('trl', elsewhere=True)}")
        return
    if not installed:
        raise DiverError(f"{missing('trl')}; or --dry-run for its configuration")
    if recipe.trl.processes > 1 and not worker:
        words = several(args, recipe.trl.processes)
        os.execv(words[0], words)  # in place of this process, so that signals reach the others
    from diver.integrations.trl.run import run

    run(recipe)
    if os.environ.get("RANK", "0") == "0":
        write_report(recipe.folder)
        print(summary_table(recipe.folder))
