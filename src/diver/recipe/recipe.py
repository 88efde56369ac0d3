"""A recipe: all settings of a run, read from a TOML file and overridden by flags.

    [model]
    path = "Qwen/Qwen2.5-Math-7B"
    [train]
    steps = 350

Each section has the settings of one package. The default of a setting is the paper's value where the paper has one, but
for `method.diversity.until` and `method.shaping.condition` (docs/diver.md, "Text after the answer").
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diver.core.settings import Errors, choose, merge, read, settings
from diver.core.types import DiverError
from diver.grading.settings import Verification
from diver.methods import Method
from diver.methods.diver import DiverMix
from diver.methods.registry import DEFAULT, method_named
from diver.recipe.data import Data
from diver.recipe.sections import Cluster, Evaluation, Log, Model, Run, Sampling, Train, Trl


@settings
class Recipe:
    """All settings of a run, with defaults filled in."""

    run: Run = Run()
    model: Model = Model()
    data: Data = Data()
    sample: Sampling = Sampling()
    method: Method = DiverMix()
    train: Train = Train()
    evaluate: Evaluation = Evaluation()
    verify: Verification = Verification()
    log: Log = Log()
    verl: Cluster = Cluster()
    trl: Trl = Trl()

    @property
    def folder(self) -> Path:
        return Path(self.run.folder or "runs/recipe")

    def identity(self) -> dict[str, Any]:
        """The settings that a resumed run must not change, by dotted key.

        These are all settings but steps, folder, engine, loggers, [verl], [trl] and MACHINE. Only the last component of
        a path is compared, so the folder of a model or data set may move. `diver.recipe.run` compares its content and
        the engine.
        """
        return identity(dataclasses.asdict(self))


# These settings depend on the machine: a run may resume with less memory or on another device.
MACHINE = frozenset(
    "model.device model.threads model.gradient_checkpointing model.attention sample.max_num_seqs "
    "train.micro_batch_tokens train.save_steps train.save_minutes train.save_total_limit verify.workers "
    "verify.memory_mb method.diversity.embedding.device method.diversity.embedding.batch "
    "method.diversity.hidden_state.device".split()
)


def identity(sections: Mapping[str, Any]) -> dict[str, Any]:
    """`Recipe.identity` of some sections of a recipe, given as tables."""
    skipped = ("train.steps", "run.folder", "run.engine", "log.", "verl.", "trl.")
    compared = {k: v for k, v in flatten(sections).items() if not k.startswith(skipped) and k not in MACHINE}
    paths = {k: Path(v).name for k, v in compared.items() if k.endswith((".path", ".model")) and isinstance(v, str)}
    return {**compared, **paths}


SECTIONS: dict[str, Any] = {field.name: type(field.default) for field in dataclasses.fields(Recipe)}


def make_recipe(table: Mapping[str, Mapping[str, Any]]) -> Recipe:
    """A recipe from nested tables. method.name selects the defaults of [method]; its other keys override them."""
    recipe = Recipe(**make_sections(table))
    check_recipe(recipe)
    return recipe


def check_recipe(recipe: Recipe) -> None:
    """Raises DiverError for a wrong type or value, which a recipe made in Python may have, and for settings that do not
    fit together."""
    for name in SECTIONS.keys() - {"method"}:
        section = getattr(recipe, name)
        read(type(section), dataclasses.asdict(section), name)
    if recipe.method.threshold > 1:
        raise DiverError(
            f"method.threshold: {recipe.method.threshold:g} is above 1, the outcome of a correct response, so no "
            "response would count as correct; give at most 1"
        )
    recipe.method.check_group_size(recipe.sample.group_size, "sample.group_size")
    recipe.method.limited(recipe.sample.max_tokens)


def override(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe `table` with the keys of `changes`.

    A method in `changes` replaces the complete table [method], so a baseline does not inherit the settings of the
    recipe's method. A loss replaces [method.loss], so GSPO does not inherit the clip of GRPO. Another task does not
    inherit the sizes of the recipe's task.
    """
    method = changes.get("method", {})
    if "name" in method:
        table = {**table, "method": {}}
    elif "name" in method.get("loss", {}):
        table = {**table, "method": {**table.get("method", {}), "loss": {}}}
    data = table.get("data", {})
    path = data.get("path")
    if path is not None and changes.get("data", {}).get("path", path) != path:
        gym = {key: value for key, value in data.get("reasoning_gym", {}).items() if key != "sizes"}
        table = {**table, "data": {**data, "reasoning_gym": gym}}
    return merge(table, changes)


def make_sections(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Validate each section alone; `Recipe` validates them together. DiverError names the errors of all sections."""
    sections: dict[str, Any] = {}
    errors = Errors()
    for name in sorted({**SECTIONS, **table}, key=SECTIONS.__contains__):  # errors of unknown sections come first
        body = table.get(name, {})
        with errors.collected():
            choose(name, SECTIONS, "section")
            if name == "method" and isinstance(body, Mapping):
                sections[name] = method_named(**{"name": DEFAULT, **body})
            else:
                sections[name] = read(SECTIONS[name], body, name)
    errors.raise_found()
    return sections


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one flat table with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
