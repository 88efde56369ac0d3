"""The option of another trainer for each key of a recipe: one table for its settings and the help."""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from diver.core.files import packaged_table
from diver.core.types import DiverError
from diver.recipe.help import rows
from diver.recipe.recipe import Recipe

TITLES = {"trl": "TRL", "verl": "verl"}
CLIP_HIGH = {"trl": "epsilon_high", "verl": "actor_rollout_ref.actor.clip_ratio_high"}
"""The option of the loss that advice names; the tables leave those of the method to each integration."""


class Key(NamedTuple):
    """A key of a recipe; with a dot at its end, all keys of that section."""

    to: tuple[str, ...] = ()
    """The trainer's options that take its value."""
    only: tuple[Any, ...] | None = None
    """The values besides the default that the trainer can run; others are refused."""
    note: str = ""
    """What happens to the key instead, or why it has no option."""


def read_keys(engine: str) -> dict[str, Key]:
    """The table of an engine, keys.toml in its package."""
    return {name: Key(**row) for name, row in packaged_table("diver.integrations", f"{engine}/keys.toml").items()}


def mapped(recipe: Recipe, engine: str) -> Iterator[tuple[str, Any]]:
    """The engine's options with the values of the recipe that they take unchanged. Raises DiverError for a value that
    the engine cannot run."""
    for name, key in read_keys(engine).items():
        value_of = attrgetter(name.removesuffix("."))
        if key.only is not None and value_of(recipe) not in (value_of(Recipe()), *key.only):
            raise DiverError(f"{name} = {value_of(recipe)!r} cannot be run with {engine}: {key.note}")
        for option in key.to:
            yield option, value_of(recipe)


def table(engine: str, *, elsewhere: bool = False) -> str:
    """Each key with its option, for the help; `elsewhere` describes keys without an option."""
    keys = {name: key for name, key in read_keys(engine).items() if not (elsewhere and key.to)}
    texts = ("; ".join(filter(None, [", ".join(key.to), key.note])) for key in keys.values())
    names = [name + "*" * name.endswith(".") for name in keys]
    return "\n".join(rows(zip(names, texts, strict=True), max(map(len, names)) + 4))


def also_named(engine: str) -> Callable[[str], str]:
    """How advice names a key of a recipe in a run of `engine`: with the engine's option, if it has one.

    A run by `diver train` takes the key, and a run by the engine's command takes the option:
    "train.learning_rate (verl: actor_rollout_ref.actor.optim.lr)".
    """
    if engine not in TITLES:  # the built-in trainer, or a run that does not say
        return str
    keys = read_keys(engine)

    def named(key: str) -> str:
        options = keys[key].to if key in keys else ()
        if key == "method.loss.clip_high":
            options = (CLIP_HIGH[engine],)
        elif engine == "verl" and key.startswith(("method.", "verify.")):  # sections that the plugin reads
            options = (f"algorithm.diver.{key}",)
        return f"{key} ({TITLES[engine]}: {options[0]})" if options else key

    return named
