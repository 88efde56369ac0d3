"""The command line of `diver sweep` as a plan."""

import dataclasses
import itertools
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from diver.core.run_folder import find_runs, given_name
from diver.core.settings import PositiveInt, parse_ks
from diver.core.types import DiverError
from diver.evaluate.config import parse_numbers
from diver.evaluate.of_run import check_contents, read_run
from diver.recipe.flags import assigned
from diver.recipe.load import RecipeArguments, parse_seeds, split
from diver.sweep.plan import Plan, Setting
from diver.sweep.run import about
from diver.tasks.testbeds import is_testbed

# Keys that a sweep sets itself.
GIVEN_BY = {"method.name": "--methods", "train.learning_rate": "--rates", "run.seed": "--seeds", "run.folder": "--out"}
# What decides the evaluation, so that all settings must have it.
SHARED = (
    "model.path", "model.revision", "model.chat_template", "data.", "verify.", "sample.max_tokens",
    "sample.max_prompt_tokens", "sample.stop_token_ids",
)  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class SweepArguments(RecipeArguments):
    """Compare settings over seeds, each at its best weights and temperature: what to turn on for each k.

        diver sweep recipes/quickstart.toml --methods clip-higher max-rl --seeds 0..2 --jobs 2

    A setting is a method with a learning rate and values of other keys: all combinations are run. Other keys of the
    recipe are options, too, and hold for all settings: --train.steps 100. The same command resumes a stopped sweep.
    Runs of TRL and verl join by their folders (--runs).
    """

    methods: tuple[str, ...] = ()
    """Methods to compare: names or module:Class. Default: the recipe's."""
    rates: tuple[float, ...] = ()
    """Learning rates, each with every method."""
    set: tuple[str, ...] = ()
    """Values of other keys, each with every method: method.replay.alpha=0.1,0.3."""
    runs: tuple[str, ...] = ()
    """Finished runs as further settings, NAME=FOLDER. FOLDER is a run, or has a run for each seed."""
    baseline: str | None = None
    """Name of the setting that the others are compared with, such as "clip-higher, rate 1e-05". Default: the first."""
    seeds: str = "0..2"
    """One run for each seed: 0..4 or 0,3,7."""
    equal: Literal["steps", "time"] = "steps"
    """Whether all settings have the steps of the recipe, or as many as take the CPU time of the baseline. Three steps
    of each are measured."""
    alphas: str = "0,0.25,0.5,0.75,1"
    """Weights between the untrained (0) and the trained policy (1), which are always included."""
    temperatures: str = "0.3,0.6,1"
    """Sampling temperatures of the evaluation."""
    samples: PositiveInt = 64
    """Responses to each problem at each pair."""
    k: str = "1,4,16,64"
    """Values of k of Pass@k."""
    selection: PositiveInt | None = None
    """Number of evaluation problems that choose pairs; the others judge. Default: a quarter."""
    jobs: PositiveInt = 1
    """Runs in parallel, one thread each."""
    out: Path | None = None
    """Folder of the runs, records.jsonl.gz and the page, sweep.html. Default: runs/sweep/ and the recipe's name."""
    dry_run: bool = False
    """Measure and print the time that the settings take, and stop."""


def make_plan(arguments: SweepArguments, args: Sequence[str]) -> Plan:
    """The plan of the command line.

    Raises:
        DiverError: the sweep would stop, or its settings would not be comparable.
    """
    recipe_file, words = split(args)
    assert recipe_file is not None  # it is loaded already
    flags, seeds = recipe_flags(words), tuple(parse_seeds(arguments.seeds))
    for key in (word[2:].partition("=")[0] for word in flags):
        if key.startswith("run.") and key in GIVEN_BY:
            raise DiverError(f"--{key}: a sweep has many runs; give {GIVEN_BY[key]}")
    methods = [(name, ["--method.name", name]) for name in arguments.methods] or [(arguments.recipe.method.name, [])]
    rates = [(f"rate {rate}", ["--train.learning_rate", f"{rate}"]) for rate in arguments.rates]
    choices = [methods, *([rates] if rates else []), *map(values_of, arguments.set)]
    settings = [
        Setting(", ".join(label for label, _ in choice), tuple(word for _, words in choice for word in words), seeds)
        for choice in itertools.product(*choices)
    ]
    for name, folder in map(given_name, arguments.runs):
        folders: dict[int, str] = {}
        for run in map(read_run, find_runs(folder)):
            check_contents(run, of_data=True)
            if (seed := run.recipe.run.seed) in folders:
                raise DiverError(f"--runs {folder}: has two runs of seed {seed}; name a folder with one of each seed")
            folders[seed] = str(run.folder)
        if lacking := {*seeds} - {*folders}:
            raise DiverError(f"--runs {folder}: has no run of seed {min(lacking)}, which is one of --seeds")
        settings.append(Setting(name or folder.resolve().name, (), seeds, folders=folders))
    out = arguments.out or Path("runs/sweep") / recipe_file.stem
    alphas = parse_numbers("--alphas", arguments.alphas, most=1)
    temperatures, ks = parse_numbers("--temperatures", arguments.temperatures), parse_ks(arguments.k)
    if not min(temperatures, default=0) or not ks:
        raise DiverError("--temperatures and --k: must be numbers above 0, such as 0.3,0.6 and 1,16")
    plan = Plan(
        recipe=recipe_file,
        flags=tuple(flags),
        settings=tuple(settings),
        seeds=seeds,
        baseline=arguments.baseline or settings[0].label,
        alphas=tuple(sorted({0.0, *alphas, 1.0})),
        temperatures=tuple(temperatures),
        ks=tuple(ks),
        samples=arguments.samples,
        selection=arguments.selection,
        out=out,
        records=out / "records.jsonl.gz",
    )
    check_settings(plan, arguments.equal == "time")
    return plan


def check_settings(plan: Plan, equal_time: bool) -> None:
    """DiverError unless at least two settings differ, and share what decides the evaluation."""
    base = plan.setting(plan.baseline)
    recipe = plan.base_recipe
    if len(plan.settings) < 2:
        raise DiverError(f"command line: {base.label} is the only setting; name others by --methods, --rates or --set")
    if recipe.run.engine != "builtin":
        raise DiverError("run.engine: a sweep trains with the built-in engine; runs of others join by --runs")
    if equal_time and (base.folders or any("--train.steps" in word for s in plan.settings for word in s.flags)):
        raise DiverError("--equal time: decides the steps of the settings; its --baseline must be trained by the sweep")
    apart = recipe.evaluate.source or is_testbed(recipe.data.path)
    shared = SHARED if apart else (*SHARED, "evaluate.problems", "evaluate.source")  # they are left out of the training
    expected, by_label = about(plan, base, plan.seeds[0]), dict[str, Any]()
    for setting in plan.settings:
        for seed in setting.seeds if setting.folders else plan.seeds[:1]:
            mine = about(plan, setting, seed)
            for k in sorted(k for k in {*mine, *expected} if k.startswith(shared) and mine.get(k) != expected.get(k)):
                differ = f"{setting.label}: {k} is {mine.get(k)!r}, and {expected.get(k)!r} in {base.label}"
                raise DiverError(f"{differ}; settings must share model, data and evaluation")
        if same := [label for label, theirs in by_label.items() if theirs == mine and not setting.folders]:
            raise DiverError(f"{same[0]} and {setting.label} are the same setting; give each method and value once")
        by_label[setting.label] = mine


def values_of(text: str) -> list[tuple[str, list[str]]]:
    """The values of a key, KEY=A,B, each with its flags."""
    key, equals, values = text.partition("=")
    if key in GIVEN_BY:
        raise DiverError(f"--set {text}: give {GIVEN_BY[key]}")
    if not equals or "." not in key or not values:
        raise DiverError(f"--set {text}: must be KEY=VALUE,VALUE with a key of the recipe: method.replay.alpha=0.1,0.3")
    name = key.removeprefix("method.")  # not its last part alone, since alpha is also the weight of a front
    return [(f"{name} {value}", [f"--{key}={value}"]) for value in values.split(",")]


def recipe_flags(words: Sequence[str]) -> list[str]:
    """The words of the command line that change the recipe, without the options of the sweep and their values."""
    kinds = {name: kind for name, kind in typing.get_type_hints(SweepArguments).items() if name != "recipe"}
    return assigned({}, words, kinds)[1]
