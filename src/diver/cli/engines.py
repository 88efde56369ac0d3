"""`diver train` by another engine: the same recipe with TRL, or on a cluster with verl."""

import importlib.util
import json
import os
import sys
from collections.abc import Sequence

from diver.core.extras import missing
from diver.core.tables import clean
from diver.core.types import DiverError
from diver.integrations.keys import table
from diver.recipe.recipe import Recipe


def keys_of(args: Sequence[str]) -> str:
    """The table of the keys of a recipe in the engines that `args` name, which ends --help all."""
    words = {word for argument in args for word in argument.split("=")}
    return "".join(
        f"the keys of a recipe in {engine}:\n{table(engine)}\n" for engine in ("trl", "verl") if engine in words
    )


def by_trl(recipe: Recipe, args: Sequence[str], *, dry_run: bool) -> None:
    """Run a recipe with TRL's GRPOTrainer; `args` are the words after `diver train`."""
    from diver.integrations.trl.launch import adapters, arguments, command, identity
    from diver.pages.run_page import write_report
    from diver.pages.run_record import summary_table
    from diver.recipe.run import open_run

    fields = arguments(recipe)
    worker = "LOCAL_RANK" in os.environ
    if not worker:
        open_run(recipe, **identity(recipe)).close()  # refuses another run's folder before any process starts
    installed = importlib.util.find_spec("trl") is not None
    if dry_run:
        print(*notes_of(recipe), sep="\n", file=sys.stderr)
        if installed:
            from diver.integrations.trl.run import check_arguments

            check_arguments(recipe)
        print(json.dumps({"GRPOConfig": fields, "LoraConfig": adapters(recipe)}, indent=2))
        checked = "checked by the TRL installed here" if installed else "not checked: TRL is not installed here"
        print(f"\n{checked}\nnot in GRPOConfig:\n{table('trl', elsewhere=True)}")
        return
    if not installed:
        raise DiverError(f"{missing('trl')}; or --dry-run for its configuration")
    if recipe.trl.processes > 1 and not worker:
        words = command(args, recipe.trl.processes)
        os.execv(words[0], words)  # replaces this process, so that signals reach the trainer
    from diver.integrations.trl.run import run

    run(recipe)
    if os.environ.get("RANK", "0") == "0":
        write_report(recipe.folder)
        print(summary_table(recipe.folder))


def notes_of(recipe: Recipe) -> list[str]:
    """Notes on the data and the first prompt; nothing is written. DiverError for what would stop the run.

    If the hub cannot be reached, a note says so, and what depends on it is not checked.
    """
    from diver.tasks.hub import HubUnreachable
    from diver.train.prepare import prepare_and_rehearse

    try:
        train, _, tokenizer, notes = prepare_and_rehearse(recipe)
        ids, prompt = train.ids[train.problems[0].id], train.texts[0]
        if list(tokenizer(prompt, add_special_tokens=False)["input_ids"]) != list(ids):  # it adds tokens, such as <s>
            prompt = tokenizer.decode(ids)
        return [*notes, f"first prompt, {len(ids)} tokens, as the model reads it:\n{clean(prompt)}\n"]
    except HubUnreachable as error:
        return [f"not checked: {error}"]


def parameters_of(recipe: Recipe) -> int | None:
    """The number of parameters of the recipe's model; None if its configuration cannot be read here."""
    try:
        import torch
        from transformers import AutoModelForCausalLM

        from diver.sample.policy import load_configuration

        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(load_configuration(recipe.model).config)
    except (DiverError, ImportError):
        return None
    return sum(parameter.numel() for parameter in model.parameters())


def by_verl(recipe: Recipe, options: Sequence[str], *, dry_run: bool, problems_only: bool) -> None:
    """Write the problems in verl's layout and run the equivalent verl command; `options` are verl's own."""
    from diver.integrations.verl.launch import checkpoints, command, compose, shown
    from diver.recipe.run import open_run

    words = command(recipe, options)
    folder = open_run(recipe)  # refuses another run's folder: verl would resume from it
    if dry_run:
        folder.close()
        if importlib.util.find_spec("verl") is not None:
            compose(words)
        print(checkpoints(words, parameters_of(recipe)), file=sys.stderr)
        print(shown(words))
        return
    if not problems_only and importlib.util.find_spec("verl") is None:
        raise DiverError(f"{missing('verl')}; --dry-run gives the command, --problems-only writes the problems")
    lacks_flash = not any(map(importlib.util.find_spec, ("flash_attn", "kernels")))  # transformers takes either
    if not problems_only and lacks_flash and recipe.verl.attention.startswith("flash"):
        raise DiverError(f"verl.attention {recipe.verl.attention!r}: flash-attn is not installed; set it to 'sdpa'")
    from diver.integrations.verl.parquet import write_problems
    from diver.train.prepare import prepare

    prepared = prepare(recipe)
    folder.begin()  # everything is checked before anything is written
    print("\n".join(write_problems(recipe, prepared)), flush=True)
    if not problems_only:
        # In place of this process, so that signals reach verl. Its end unlocks the folder, and verl's trainer locks it.
        os.execv(sys.executable, [sys.executable, *words])
    folder.close()
