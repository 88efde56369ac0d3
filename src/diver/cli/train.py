"""`diver train`: a run by one of the engines; by the built-in trainer, its report and its summary."""

import contextlib
import dataclasses
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from diver.cli.engines import by_trl, by_verl, keys_of, notes_of
from diver.core.files import table
from diver.core.run_folder import RunFolder, set_aside
from diver.core.settings import Errors, PositiveInt
from diver.core.types import DiverError
from diver.recipe.load import RecipeArguments, parse_arguments, parse_seeds
from diver.recipe.recipe import Recipe, make_recipe
from diver.recipe.run import open_run


@dataclasses.dataclass(kw_only=True)
class TrainArguments(RecipeArguments):
    """Train a policy from a recipe, evaluate it, and write a report: diver train recipes/quickstart.toml

    The same command resumes a stopped run. Every key of the recipe is an option, too, and overrides it. Options of verl
    come after two dashes: diver train RECIPE.toml --engine verl -- trainer.nnodes=2

    --engine NAME --help all ends with the option of that engine for each key.
    """

    dry_run: bool = False
    """Check everything, print the keys that differ from their defaults, and stop. All errors are reported at once, and
    the first prompt is shown. With TRL, print its GRPOConfig and the keys that it does not take; its fields are checked
    where TRL is installed. With verl, print its command, which needs neither verl nor the model. Neither data nor
    verifier is checked then."""
    estimate: bool = False
    """With --dry-run, run two steps and a part of the evaluation, keep nothing, and estimate the duration. Built-in
    engine only."""
    restart: bool = False
    """Rename an existing run folder to FOLDER.1 and begin anew. Built-in engine only."""
    seeds: str | None = None
    """One run for each seed: 0..4 or 0,3,7. The folders are FOLDER/seed_N. Built-in engine only."""
    jobs: PositiveInt = 1
    """Runs of --seeds in parallel, one thread each."""
    problems_only: bool = False
    """Write the problems in verl's layout, and stop (verl only)."""


COMMON = {
    "the run": "run.engine run.folder run.seed seeds jobs dry_run estimate restart",
    "model, data and method": "model.path data.path data.verifier method.name method.shaping.coef",
    "sampling and training": "sample.group_size sample.temperature sample.max_tokens sample.max_num_seqs "
    "train.steps train.batch_size train.mini_batch_size train.learning_rate train.save_steps train.micro_batch_tokens",
    "evaluation and loggers": "evaluate.problems evaluate.every evaluate.num_samples evaluate.temperature log.to",
    "TRL and verl": "trl.lora_rank trl.vllm verl.nodes verl.gpus problems_only",
}


def command(args: Sequence[str]) -> None:
    """Train a policy from a recipe, evaluate it, and write a report; also with TRL or verl."""
    end = args.index("--") if "--" in args else len(args)
    try:
        arguments = parse_arguments(TrainArguments, args[:end], "diver train", COMMON)
    except SystemExit:  # after --help
        print(keys_of(args[:end]) if "all" in args else "", end="")
        raise
    recipe, options = arguments.recipe, args[end + 1 :]
    engine = recipe.run.engine
    check_flags(arguments, args[:end], options)
    if not (arguments.dry_run or arguments.problems_only or "LOCAL_RANK" in os.environ):  # only one process prints it
        print(heading(recipe, arguments.seeds), flush=True)
    if engine == "trl":
        by_trl(recipe, args, dry_run=arguments.dry_run)
    elif engine == "verl":
        by_verl(recipe, options, dry_run=arguments.dry_run, problems_only=arguments.problems_only)
    elif arguments.seeds is not None:
        train_seeds(arguments)
    elif arguments.dry_run:
        errors = Errors()
        if not arguments.restart:  # --restart would move another recipe's run away
            with errors.collected():
                open_run(recipe).close()
        with errors.collected():
            notes = notes_of(recipe)
        errors.raise_found()
        print(*notes, sep="\n", file=sys.stderr)
        print(duration_of(recipe) if arguments.estimate else "duration: --estimate measures it", file=sys.stderr)
        print(as_toml(recipe), end="")
    else:
        train(recipe, arguments.restart)


def heading(recipe: Recipe, seeds: str | None) -> str:
    """The method, the seed or seeds, and the engine of a run, in one line."""
    numbers = parse_seeds(seeds) if seeds is not None else [recipe.run.seed]
    word = "seed" if len(numbers) == 1 else "seeds"
    return f"method {recipe.method.name}, {word} {', '.join(map(str, numbers))}, engine {recipe.run.engine_name}"


def check_flags(arguments: TrainArguments, args: Sequence[str], options: Sequence[str]) -> None:
    """Raises DiverError for flags that do not go together; `options` are those behind two dashes."""
    engine, seeds, jobs = arguments.recipe.run.engine, arguments.seeds, arguments.jobs
    seed_given = any(word.partition("=")[0] == "--run.seed" for word in args)
    other, only = engine != "builtin", "only the built-in engine has it"
    for wrong, message in (
        (other and arguments.restart, f"command line: --restart: {only}; give another --run.folder"),
        (other and seeds, f"command line: --seeds: {only}; give --run.seed and --run.folder, once for each seed"),
        (engine != "verl" and arguments.problems_only, "command line: --problems-only: is for --engine verl"),
        (engine != "verl" and options, "command line: --: options of the engine follow, which is for --engine verl"),
        (seeds is not None and seed_given, f"--run.seed: the seeds are those of --seeds {seeds}; give one of the two"),
        (arguments.estimate and (other or seeds or not arguments.dry_run), "--estimate: is for --dry-run of one run"),
        (seeds is None and jobs > 1, f"--jobs {jobs}: is for the runs of --seeds, and this is one run"),
    ):
        if wrong:
            raise DiverError(message)


def as_toml(recipe: Recipe) -> str:
    """The keys that differ from the defaults of the method and of the loss, as a file that gives the same recipe."""
    import tomli_w

    def differing(table: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
        default = default if table.get("name") == default.get("name") else {}  # another loss has other defaults
        changed = {key: value for key, value in table.items() if value is not None and value != default.get(key)}
        return {k: differing(v, default.get(k) or {}) if isinstance(v, Mapping) else v for k, v in changed.items()}

    name = recipe.method.name
    tables = differing(*map(dataclasses.asdict, (recipe, make_recipe({"method": {"name": name}}))))
    tables["method"] = {"name": name, **tables.get("method", {})}
    return tomli_w.dumps(tables) + "\n# The other keys have their defaults, which --help all shows.\n"


def duration_of(recipe: Recipe) -> str:
    """Estimate the duration of a run from two steps and a part of the first evaluation, in a temporary folder."""
    from diver.evaluate.evaluate import duration
    from diver.train.trainer import Trainer

    with tempfile.TemporaryDirectory() as aside:
        recipe = dataclasses.replace(recipe, run=dataclasses.replace(recipe.run, folder=f"{aside}/run"))
        with contextlib.closing(open_run(recipe)) as folder:
            step, response = Trainer(recipe, folder).measured()
    steps, held_out = recipe.train.steps, recipe.evaluate
    between = (steps - 1) // held_out.every if held_out.every else 0
    evaluations = response * (2 * held_out.num_samples + between * held_out.num_samples_in_training)
    parts = f"{steps} steps take {duration(steps * step)} and evaluations {duration(evaluations)}"
    return f"duration: about {duration(steps * step + evaluations)}, of which {parts}, by two steps on this machine now"


def train(recipe: Recipe, restart: bool = False) -> None:
    """Begin or resume the run of `recipe` in its folder, then write the report and print the summary.

    A run whose checkpoints were removed is never begun anew in its folder. If it is finished, its summary is printed.
    """
    from diver.pages.run_page import write_report
    from diver.pages.run_record import summary_table
    from diver.train.trainer import Trainer

    if restart:
        set_aside(recipe.folder)
    with contextlib.closing(open_run(recipe)) as folder:
        if is_finished(recipe, folder):  # a kill may have come between the last save and the end of an older checkpoint
            before = table(folder.config, "recipe", "train").get("save_total_limit", 1)  # may change on resume
            folder.drop_checkpoints(max(recipe.train.save_total_limit, before))
        else:
            folder.check_saved(folder.saved_step(), recipe.train.save_steps)
            Trainer(recipe, folder).run()
        write_report(folder.path)
        print(summary_table(folder.path))


def is_finished(recipe: Recipe, folder: RunFolder) -> bool:
    """Whether a run is complete: trained and evaluated or, if its checkpoints were removed, trained and reported."""
    steps, completed = recipe.train.steps, max(folder.steps(), default=0)
    saved = folder.saved_step()
    evaluated = not recipe.evaluate.problems or folder.evaluated(steps, recipe.evaluate.num_samples)
    return (
        saved > steps
        or (saved == steps and evaluated)
        or (not saved and completed >= steps and (folder.path / "report.html").exists())
    )


def train_seeds(arguments: TrainArguments) -> None:
    """Make a run for each seed, in parallel, then print their means and intervals over seeds and problems."""
    from diver.cli.compare import command as compare
    from diver.train.parallel import ParallelRun, run_all

    folder, template = arguments.recipe.folder, arguments.recipe.run
    seeds = {seed: str(folder / f"seed_{seed}") for seed in parse_seeds(arguments.seeds or "")}
    runs = [dataclasses.replace(template, seed=seed, folder=path) for seed, path in seeds.items()]
    recipes = [dataclasses.replace(arguments.recipe, run=run) for run in runs]
    if (folder / "config.json").exists():
        raise DiverError(f"{folder}: is the folder of one run; choose another run.folder for those of --seeds")
    for recipe in recipes:
        if arguments.restart and not arguments.dry_run:
            set_aside(recipe.folder)
        if not (arguments.restart and arguments.dry_run):
            with contextlib.closing(open_run(recipe)) as run:  # refuses another recipe's folder before training
                if not is_finished(recipe, run) and (note := run.done_again(run.saved_step())):
                    print(note, file=sys.stderr)  # the run itself prints it to its log
    print(*notes_of(recipes[0]), sep="\n", file=sys.stderr)
    if arguments.dry_run:
        print(as_toml(arguments.recipe))
        print("# Each run has a seed and a folder of its own:", *(f"#   {r.folder}" for r in recipes), sep="\n")
        return
    run_all(
        [ParallelRun(r.folder.name, partial(train, r), r.folder, r.train.steps, console(r.folder)) for r in recipes],
        folder,
        arguments.jobs,
    )
    hint = ""
    if arguments.recipe.evaluate.problems:
        compare([str(recipe.folder) for recipe in recipes])
        hint = f"; beside those of another method: diver compare {folder} OTHER_FOLDER"
    print(f"Runs: {folder}/seed_N{hint}")


def console(folder: Path) -> Callable[[bool], None]:
    """A `watch` of a run that prints its alerts while it trains, and its result at the end, also if it failed."""
    from diver.pages.run_record import result_lines
    from diver.train.alerts import LiveAlerts

    alerts = LiveAlerts(folder)

    def watch(ended: bool) -> None:
        alerts.look()
        if ended and (folder / "metrics.jsonl").exists():
            tqdm.write("\n".join(result_lines(folder)))

    return watch
