"""The command line of `diver sweep` as a plan."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from diver.core.files import read_json
from diver.core.run_folder import given_name
from diver.core.types import DiverError
from diver.evaluate.config import parse_ks, parse_numbers
from diver.recipe.load import RecipeArguments, parse_seeds
from diver.sweep.plan import Plan, Setting


@dataclasses.dataclass(kw_only=True)
class SweepArguments(RecipeArguments):
    """Compare settings over seeds, each at its best weights and temperature: what to turn on for each k.

        diver sweep recipes/quickstart.toml --methods clip-higher max-rl --seeds 0..2 --jobs 2

    A setting is a method with a learning rate and values of other keys: all combinations are run. Other keys of the
    recipe are options, too, and hold for all settings. The same command resumes a stopped sweep. Runs of TRL and verl
    join by their folders.
    """

    methods: tuple[str, ...] = ()
    """Methods to compare, names or module:Class. The first is the baseline. Default: that of the recipe."""
    rates: tuple[float, ...] = ()
    """Learning rates, each with every method."""
    set: tuple[str, ...] = ()
    """Values of other keys, each with every method: method.replay.alpha=0.1,0.3."""
    runs: tuple[str, ...] = ()
    """Finished runs as further settings, NAME=FOLDER, where FOLDER is a run or holds seed_N."""
    baseline: str | None = None
    """The setting that the others are compared with. Default: the first."""
    seeds: str = "0..2"
    """One run for each seed: 0..4 or 0,3,7."""
    equal: Literal["steps", "time"] = "steps"
    """Whether all settings have the same number of steps, or about the CPU time of the baseline. The ratio is measured
    in three steps of each. The page says the time that runs took."""
    alphas: str = "0,0.25,0.5,0.75,1"
    """Weights between the untrained (0) and the trained policy (1)."""
    temperatures: str = "0.3,0.6,1"
    """Sampling temperatures of the evaluation."""
    samples: int = 64
    """Responses to each problem at each pair."""
    k: str = "1,4,16,64"
    """Values of k of Pass@k."""
    selection: int | None = None
    """Number of evaluation problems that choose pairs; the others judge. Default: a quarter."""
    jobs: int = 1
    """Runs in parallel, one thread each."""
    out: Path | None = None
    """Folder of the runs, records.jsonl.gz and the page, sweep.html. Default: runs/sweep/ and the recipe's name."""
    dry_run: bool = False
    """Print the settings and the time that they take, and stop."""


def make_plan(arguments: SweepArguments, args: Sequence[str]) -> Plan:
    """The plan of the command line."""
    recipe_file = next(Path(word) for word in args if word.endswith(".toml"))
    own = {f"--{f.name.replace('_', '-')}" for f in dataclasses.fields(SweepArguments)} - {"--recipe"}
    seeds = tuple(parse_seeds(arguments.seeds))
    methods = [(name, ["--method.name", name]) for name in arguments.methods] or [(arguments.recipe.method.name, [])]
    rates = [(f"rate {rate:g}", ["--train.learning_rate", f"{rate:g}"]) for rate in arguments.rates]
    choices = [methods, *([rates] if rates else []), *map(values_of, arguments.set)]
    settings = [
        Setting(", ".join(label for label, _ in of), tuple(word for _, words in of for word in words), seeds)
        for of in itertools.product(*choices)
    ]
    for name, folder in map(given_name, arguments.runs):
        found = {int(p.name[5:]): str(p) for p in sorted(folder.glob("seed_*")) if p.name[5:].isdigit()}
        found = found or {read_json(folder / "config.json")["seed"]: str(folder)}
        settings.append(Setting(name or folder.name, (), tuple(found), folders=found))
    out = arguments.out or Path("runs/sweep") / recipe_file.stem
    return Plan(
        recipe=recipe_file,
        flags=tuple(recipe_flags(args, own, recipe_file)),
        settings=tuple(settings),
        seeds=seeds,
        baseline=arguments.baseline or settings[0].label,
        alphas=tuple(parse_numbers("--alphas", arguments.alphas)),
        temperatures=tuple(parse_numbers("--temperatures", arguments.temperatures)),
        ks=tuple(parse_ks(arguments.k)),
        samples=arguments.samples,
        selection=arguments.selection,
        out=out,
        records=out / "records.jsonl.gz",
    )


def values_of(text: str) -> list[tuple[str, list[str]]]:
    """The values of a key, KEY=A,B, each with its flags."""
    key, equals, values = text.partition("=")
    if not equals or "." not in key or not values:
        raise DiverError(f"--set {text}: must be KEY=VALUE,VALUE with a key of the recipe: method.replay.alpha=0.1,0.3")
    return [(f"{key.rpartition('.')[2]} {value}", [f"--{key}={value}"]) for value in values.split(",")]


def recipe_flags(args: Sequence[str], own: set[str], recipe_file: Path) -> list[str]:
    """The words of the command line that change the recipe: without those of the sweep and their values."""
    kept: list[str] = []
    mine = False
    for word in args:
        if word.startswith("--"):
            mine = word.partition("=")[0].replace("_", "-") in own
        if not mine and word != str(recipe_file):
            kept.append(word)
    return kept
