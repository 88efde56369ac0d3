"""What a sweep compares: settings, seeds, the grid of pairs, and the problems that choose and that judge."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diver.core.settings import choose
from diver.core.types import DiverError
from diver.evaluate.config import EvalConfig
from diver.evaluate.front import Pair
from diver.evaluate.of_run import held_out, with_settings_of
from diver.grading import EnvironmentGrader, get_grader
from diver.recipe.load import load_recipe
from diver.recipe.recipe import Recipe
from diver.sample.blend import model_folder
from diver.tasks.benchmarks import Loaded
from diver.tasks.testbeds import is_testbed

if TYPE_CHECKING:
    from diver.train.trainer import Trainer

SELECTION, HELD_OUT = "selection", "held-out"
UNTRAINED = "untrained"
# The prefix tree is faster for a policy that repeats itself: a small one with short responses.
TREE_BYTES, TREE_TOKENS = 200_000_000, 256


@dataclass(frozen=True)
class Setting:
    """A method with its changes of the recipe, as flags.

    Attributes:
        label: its name on the page.
        flags: changes of the recipe, as on the command line.
        seeds: one run each.
        run: the label of a longer run of the same recipe, whose checkpoint at `step` this setting is.
        folders: seed -> the folder of a run that another command made; it is evaluated, and not trained.
    """

    label: str
    flags: tuple[str, ...]
    seeds: tuple[int, ...]
    run: str = ""
    step: int | None = None
    folders: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A sweep.

    Attributes:
        recipe: the file; `flags` change it for all settings.
        seeds: those that choose pairs; a setting may have more, which are only judged.
        selection: how many of the evaluation problems choose; the others judge.
        out: the folder of the runs; `records` is the file of the records, and `prefix` begins their names.
        measure: a function that replaces the front in the record of a policy. It gets the recipe and the folder of the
            run, None for the untrained policy. It is at the top of a module, or a `functools.partial` of such a one.
        trainer: a class in place of the trainer.
    """

    recipe: Path
    flags: tuple[str, ...] = ()
    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    baseline: str
    alphas: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    temperatures: tuple[float, ...] = (0.3, 0.6, 1.0)
    ks: tuple[int, ...] = (1, 4, 16, 64)
    samples: int = 64
    selection: int | None = None
    out: Path
    records: Path
    prefix: str = ""
    measure: Callable[[Recipe, Path | None], Mapping[str, Any]] | None = None
    trainer: "type[Trainer] | None" = None

    def __post_init__(self) -> None:
        labels = [setting.label for setting in self.settings]
        names = [slug(label) for label in (UNTRAINED, *labels)]
        choose(self.baseline, labels, "--baseline")
        if repeated := [label for label in labels if names.count(slug(label)) > 1]:
            raise DiverError(f"two settings have the same name, {repeated[0]}; give each method and value once")
        if max(self.ks) > self.samples:
            raise DiverError(f"--k: {max(self.ks)} needs as many samples; raise --samples above {self.samples}")

    @property
    def grid(self) -> list[Pair]:
        """The pairs of a trained policy: alpha 0 is the untrained one, which is sampled once. None with `measure`."""
        return [] if self.measure else [Pair(alpha, t) for alpha in self.alphas if alpha for t in self.temperatures]

    @property
    def untrained(self) -> list[Pair]:
        """The pairs of the untrained policy."""
        return [] if self.measure else [Pair(0.0, t) for t in self.temperatures]

    def setting(self, label: str) -> Setting:
        return next(setting for setting in self.settings if setting.label == label)

    def folder(self, setting: Setting, seed: int) -> Path:
        """The folder of a run."""
        if seed in setting.folders:
            return Path(setting.folders[seed])
        return self.out / slug(setting.run or setting.label) / f"seed_{seed}"

    def recipe_of(self, setting: Setting, seed: int) -> Recipe:
        """The recipe of a run, with the evaluation problems of the sweep."""
        words = ["--run.seed", str(seed), "--run.folder", str(self.folder(setting, seed))]
        return load_recipe(self.recipe, [*self.flags, *setting.flags, *words])

    @property
    def base_recipe(self) -> Recipe:
        """The recipe of the first run of the baseline."""
        return self.recipe_of(self.setting(self.baseline), self.seeds[0])

    def trained(self, setting: Setting, seed: int) -> Recipe:
        """The recipe with which a run trains. It evaluates no problems if these are separate from the training data.
        Else the evaluation problems are part of the data, and the recipe leaves them out of training."""
        recipe = self.recipe_of(self.setting(setting.run) if setting.run else setting, seed)
        if recipe.evaluate.source is None and not is_testbed(recipe.data.path):
            return recipe
        return dataclasses.replace(recipe, evaluate=dataclasses.replace(recipe.evaluate, problems=0))

    def problems(self, recipe: Recipe) -> dict[str, Loaded]:
        """The selection problems, by default a quarter of all, and the held-out problems."""
        loaded = held_out(recipe)
        count = len(loaded.problems)
        size = self.selection or max(1, count // 4)
        if size >= count:
            raise DiverError(
                f"--selection {size}: some of the evaluation problems choose and the others judge, and there are "
                f"{count}; raise --evaluate.problems"
            )
        parts = {SELECTION: loaded.problems[:size], HELD_OUT: loaded.problems[size:]}
        return {
            name: loaded._replace(
                benchmark=dataclasses.replace(loaded.benchmark, name=name, title=name), problems=problems
            )
            for name, problems in parts.items()
        }

    def evaluation(self, recipe: Recipe, problems: Loaded) -> EvalConfig:
        """The settings of sampling: those of the recipe, with the prefix tree if the policy is small."""
        weights = sum(file.stat().st_size for file in model_folder(recipe.model).glob("*.safetensors"))
        on_gpu = recipe.model.device.startswith("cuda")
        played = any(isinstance(get_grader(p.verifier), EnvironmentGrader) for p in problems.problems)
        tree = weights <= TREE_BYTES and recipe.sample.max_tokens <= TREE_TOKENS and not (on_gpu or played)
        ks = ",".join(map(str, self.ks))
        config = EvalConfig(samples=self.samples, k=ks, generator="tree" if tree else "transformers", figures=())
        return with_settings_of(recipe, config, problems)


def slug(label: str) -> str:
    """The folder name of a setting."""
    return re.sub(r"[^\w.]+", "-", label)
