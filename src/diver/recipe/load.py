"""Load a recipe: the TOML file and the flags that override it."""

import dataclasses
import functools
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

import tyro

from diver.core.settings import Errors, choose, merge, nearest
from diver.core.types import DiverError
from diver.recipe.flags import HELP, parse
from diver.recipe.recipe import SECTIONS, Recipe, flatten, make_recipe, make_sections, override

SHORT = {
    "--model": "--model.path",
    "--data": "--data.path",
    "--method": "--method.name",
    "--engine": "--run.engine",
}
NAMES = ("method.name", "method.frame", "method.loss.name")  # each has keys or defaults of its own
REWARDED = re.compile(r"method\.(diversity[-_]rewards)\.(.+)\.[^.]+")


@dataclasses.dataclass(kw_only=True)
class RecipeArguments:
    """The flags of a command that takes a recipe: every key of the recipe, and the fields of a subclass."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")] = dataclasses.field(default_factory=Recipe)


class _Unchecked(Recipe):
    """A recipe whose sections are not validated together yet, because the flags may still change them."""

    def __post_init__(self) -> None:
        pass


M = TypeVar("M")
T = TypeVar("T", bound=RecipeArguments)


def load_recipe(path: Path, flags: Sequence[str] = ()) -> Recipe:
    """Read `path` and override it by flags such as `--train.steps 20`. DiverError names the file and the key."""
    return parse_arguments(RecipeArguments, [str(path), *flags], "diver train").recipe


def parse_arguments(
    kind: type[T], args: Sequence[str], command: str, common: Mapping[str, str] = MappingProxyType({})
) -> T:
    """`kind` from the words after `command`: RECIPE.toml and flags, in any order. --help prints the help, of `common`,
    and exits.

    The file is read first, since its keys are the defaults of the flags; tyro does the rest. A flag that names a method
    replaces the whole table [method] of the file. The recipe is valid without the flags and with them, or DiverError
    names the file or the command line, the key and its choices.
    """
    path, flags = _split(args)
    names, flags = _names(flags)
    if path is None and HELP.isdisjoint(flags):
        raise DiverError(f"name a recipe: {command} recipes/quickstart.toml")
    table = read_toml(path) if path else {}
    table = _without_replaced(table, flags, path)
    default = _Unchecked(**_checked("command line", make_sections, override(table, names)))
    _note_replaced(table, names, path)
    options: dict[str, Any] = {
        "return_unknown_args": True,
        "use_underscores": True,  # as keys of a recipe are written; dashes are accepted, too
        "config": (tyro.conf.AvoidSubcommands,),
    }
    name = f"{command} {path or 'RECIPE.toml'}"
    parsed: Any = parse(kind, name, flags, common, SHORT, default=kind(recipe=default), **options)
    arguments, unknown = parsed
    tables = dataclasses.asdict(arguments.recipe)
    errors = Errors()
    for word in [word for word in unknown if word.startswith("--")] or unknown[:1]:
        with errors.collected():
            _refuse(word, tables)
    errors.raise_found()
    recipe = _checked("command line" if names or flags else path, make_recipe, tables)
    return dataclasses.replace(arguments, recipe=recipe)


def read_toml(path: Path) -> dict[str, Any]:
    """The sections of a recipe file, as nested tables. One DiverError names every section and key that is wrong."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DiverError(f"{path}: there is no such recipe; `diver train --help` lists its keys") from None
    except (OSError, UnicodeDecodeError) as e:
        raise DiverError(f"{path}: cannot be read ({e})") from None
    except (ValueError, RecursionError) as e:  # a ValueError alone for a number of more than 4,300 digits
        raise DiverError(f"{path}: is not TOML: {e}") from None
    errors, sections = Errors(), {}
    for section, body in table.items():
        with errors.collected():
            choose(section, SECTIONS, f"{path}: section")
            if not isinstance(body, dict):
                raise DiverError(f"{path}: {section} must be a section, [{section}]")
            sections[section] = body
    with errors.collected():
        _checked(path, make_sections, sections)
    errors.raise_found()
    return merge({"run": {"folder": f"runs/{path.stem}"}}, table)


def _checked(source: object, make: Callable[[Mapping[str, Any]], M], table: Mapping[str, Any]) -> M:
    try:
        return make(table)
    except DiverError as e:
        raise DiverError(*(f"{source}: {message}" for message in e.args)) from None


def _split(args: Sequence[str]) -> tuple[Path | None, list[str]]:
    """(The recipe file, which is the first word or the first that ends in .toml; the other words)."""
    for i, word in enumerate(args):
        if (not i and word[:1] != "-") or word.endswith(".toml"):
            return Path(word), [*args[:i], *args[i + 1 :]]
    return None, list(args)


def _names(flags: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """(The settings that decide which flags exist, as tables; the other flags, the short ones written out).

    tyro derives the flags from the default, so the default needs the named method and loss and every rewarded metric.
    It also needs a source of held-out problems if one is given or the help lists its keys.
    """
    table: dict[str, Any] = {}
    rest: list[str] = []
    words = iter(flags)
    for word in words:
        flag, equals, value = word.partition("=")
        key = SHORT.get(flag, flag).removeprefix("--")
        if key in NAMES:
            table = merge(table, _nested(key.split("."), value if equals else next(words, "")))
            continue
        if flag.startswith("--") and (metric := REWARDED.fullmatch(key)):
            table = merge(table, _nested(["method", metric[1].replace("-", "_"), metric[2]], {}))
        elif flag.startswith("--evaluate.source.") or flag in HELP:
            table = merge(table, {"evaluate": {"source": {}}})
        rest.append(f"{SHORT.get(flag, flag)}{equals}{value}")
    return table, rest


def _note_replaced(table: Mapping[str, Any], names: Mapping[str, Any], path: Path | None) -> None:
    """Say which settings of the recipe a named method or loss leaves out (`override`)."""
    new, old = names.get("method", {}), table.get("method", {})
    for flag, where in (("--method", "method"), ("--method.loss.name", "method.loss")):
        if "name" in new and (dropped := sorted({*old} - {"name"})):
            words = f"{flag} {new['name']} replaces [{where}] of {path}: {', '.join(dropped)} of it not used"
            print(words, file=sys.stderr)
            return
        new, old = new.get("loss", {}), old.get("loss", {})


def _without_replaced(table: Mapping[str, Any], flags: Sequence[str], path: Path | None) -> dict[str, Any]:
    """The recipe without the tables that flags replace; a note on standard error names the keys that are not used.

    A flag that names a table, such as `--data.reasoning_gym.sizes num_colors 3`, replaces it, since tyro has no such
    flag where a default is given. A flag that names another task replaces the sizes of the recipe's task.
    """
    kept, source = dict(table), table.get("data", {}).get("path")
    for word, following in zip(flags, [*flags[1:], ""], strict=False):
        flag, equals, value = word.partition("=")
        key = flag.removeprefix("--").replace("-", "_")
        if key == "data.path" and source not in (None, value if equals else following):
            key = "data.reasoning_gym.sizes"
        if flag.startswith("--"):
            kept = _without_table(kept, key.split("."))
    if unused := [key for key in flatten(table) if key not in flatten(kept)]:
        print(f"{path}: {', '.join(unused)} not used: the command line gives others", file=sys.stderr)
    return kept


def _without_table(table: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """`table` without the table at `keys`, if there is one."""
    first, *rest = keys
    inner = table.get(first)
    if not isinstance(inner, Mapping):
        return dict(table)
    others = {key: value for key, value in table.items() if key != first}
    return {**others, first: _without_table(inner, rest)} if rest else others


def _meant(flag: str, recipe: Mapping[str, Any]) -> list[str]:
    """The dotted keys that an unknown flag most likely stands for: of an outer table, or of another section."""
    *tables, name = flag.lower().split(".")
    if tables and tables[0] not in SECTIONS:  # `choose` lists the sections
        return []
    keys = {key: key.rpartition(".")[2] for key in flatten(recipe)}
    for depth in range(len(tables) - 1, 0, -1):  # data.countdown.seed, for data.countdown.mix.seed
        if (outer := ".".join([*tables[:depth], name])) in keys:
            return [outer]
    if not tables:  # `choose` lists the keys of a known section
        name = nearest(name, keys.values())
    same = [key for key, last in keys.items() if last == name]
    level = len(tables) or min((key.count(".") for key in same), default=0)
    return [key for key in same if key.count(".") == level][:2]


def _nested(keys: Sequence[str], value: Any) -> dict[str, Any]:
    return functools.reduce(lambda inner, key: {key: inner}, reversed(keys), value)


def _refuse(word: str, recipe: Mapping[str, Any]) -> None:
    """Raises DiverError for an unknown flag; if it names a section, the message has the keys of that section."""
    key = word.removeprefix("--").partition("=")[0].replace("-", "_")
    section, *keys = key.split(".")
    if word.startswith("--") and (meant := _meant(key, recipe)):
        raise DiverError(f"command line: {word!r}: did you mean {' or '.join(f'--{known}' for known in meant)}?")
    if word.startswith("--") and keys:
        choose(section, SECTIONS, f"command line: --{section}")
        _checked("command line", make_sections, merge(recipe, _nested([section, *keys], "")))
    *table, name = key.split(".")
    form = f"--{'.'.join(table)} {name} value" if len(table) > 1 else "--section.key value"  # the table takes any key
    raise DiverError(f"command line: {word!r}: a flag that changes the recipe has the form {form}")
