"""Load a recipe: the TOML file and the flags that override it."""

import dataclasses
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from diver.core.settings import Errors, merge, nearest, no_file, options, read
from diver.core.types import DiverError
from diver.recipe.flags import HELP, assigned, checked
from diver.recipe.help import help_text
from diver.recipe.recipe import SECTIONS, Recipe, flatten, make_recipe, make_sections, override

SHORT = {
    "--model": "--model.path",
    "--data": "--data.path",
    "--method": "--method.name",
    "--engine": "--run.engine",
}
NAMES = ("method.name", "method.frame", "method.loss.name", "data.path")  # each decides which other keys there are


@dataclasses.dataclass(kw_only=True)
class RecipeArguments:
    """The flags of a command that takes a recipe: every key of the recipe, and the fields of a subclass."""

    recipe: Recipe = dataclasses.field(default_factory=Recipe)


T = TypeVar("T", bound=RecipeArguments)


def load_recipe(path: Path, flags: Sequence[str] = ()) -> Recipe:
    """Read `path` and override it by flags such as `--train.steps 20`. DiverError names the file and the key."""
    return parse_arguments(RecipeArguments, [str(path), *flags], "diver train").recipe


def parse_arguments(
    kind: type[T], args: Sequence[str], command: str, common: Mapping[str, str] = MappingProxyType({})
) -> T:
    """`kind` from the words after `command`: RECIPE.toml and flags, in any order.

    --help prints the help, with the options in `common`, and exits. A flag that names a method replaces the complete
    table [method] of the file.

    Raises:
        DiverError: the recipe is invalid, without the flags or with them; names the file or the command line, the key
            and its choices.
    """
    path, flags = split(args)
    if path is None and HELP.isdisjoint(flags):
        raise DiverError(f"name a recipe: {command} recipes/quickstart.toml")
    table = read_toml(path) if path else {}
    names, _ = assigned({}, flags, dict.fromkeys(NAMES, str), SHORT)
    with_names = override(table, names)
    default: Any = kind(recipe=checked("command line", lambda: Recipe(**make_sections(with_names))))
    if not HELP.isdisjoint(flags):
        everything, usage = "all" in flags, f"{command} {path or 'RECIPE.toml'}"
        print(help_text(default, usage, common, everything=everything, underscores=True, short=SHORT))
        raise SystemExit(0)
    kinds = {option.key: option.kind for option in options(default)}
    values, unknown = assigned(with_names, flags, kinds, SHORT)
    errors = Errors()
    for word in [word for word in unknown if word.startswith("--")] or unknown[:1]:
        with errors.collected():
            _refuse(word, kinds, names)
    errors.raise_found()
    if unused := [key for key in flatten(table) if key not in flatten(values)]:
        print(f"{path}: {', '.join(unused)} not used: the command line gives others", file=sys.stderr)
    sections = {name: values.pop(name) for name in SECTIONS if name in values}
    recipe = checked("command line" if flags else path, lambda: make_recipe(sections))
    return dataclasses.replace(read(kind, values, "command line: "), recipe=recipe)


def read_toml(path: Path) -> dict[str, Any]:
    """The sections of a recipe file, as nested tables. One DiverError names every section and key that is wrong."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DiverError(no_file(path)) from None
    except OSError as e:
        raise DiverError(f"{path}: cannot be read ({e})") from None
    except (ValueError, RecursionError) as e:  # ValueError: other bytes than UTF-8, or a number of over 4,300 digits
        raise DiverError(f"{path}: is not TOML: {e}") from None
    checked(path, lambda: make_sections(table))
    return merge({"run": {"folder": f"runs/{path.stem}"}}, table)


def split(args: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The recipe file, which is the first word or the first that ends in .toml, and the other words."""
    for i, word in enumerate(args):
        if (not i and word[:1] != "-") or word.endswith(".toml"):
            return Path(word), [*args[:i], *args[i + 1 :]]
    return None, list(args)


def _refuse(word: str, kinds: Mapping[str, Any], names: Mapping[str, Any]) -> None:
    """Raises DiverError for an unknown flag; if it names a section, the message has the keys of that section."""
    key = word.removeprefix("--").partition("=")[0].replace("-", "_")
    if word.startswith("--") and (meant := _meant(key, kinds)):
        raise DiverError(f"command line: {word!r}: did you mean {' or '.join(f'--{choice}' for choice in meant)}?")
    if word.startswith("--") and "." in key:
        table, _ = assigned(names, [f"--{key}="], {key: str})
        checked("command line", lambda: make_sections(table))
    raise DiverError(f"command line: {word!r}: a flag that changes the recipe has the form --section.key value")


def _meant(flag: str, kinds: Iterable[str]) -> list[str]:
    """The dotted keys closest to an unknown flag, whatever their section."""
    *tables, name = flag.lower().split(".")
    keys = {key: key.rpartition(".")[2] for key in kinds if "." in key}
    if not tables:  # the refusal of a section lists its keys
        # A single word does not mean a setting of a metric's model, such as its batch.
        keys = {key: last for key, last in keys.items() if key.count(".") < 3}
        flag_names = [short[2:] for short in SHORT] + [key for key in kinds if "." not in key]
        initials = {
            "".join(word[0] for word in last.split("_")): last for last in reversed(keys.values()) if "_" in last
        }
        words = {word: last for last in reversed(keys.values()) for word in last.split("_")}
        name = initials.get(name) or nearest(name, [*keys.values(), *flag_names]) or words.get(name, "")
        if name in flag_names:
            return [name]
    matches = [key for key, last in keys.items() if last == name]
    level = len(tables) or min((key.count(".") for key in matches), default=0)
    return [key for key in matches if key.count(".") == level][:2]


def parse_seeds(text: str) -> list[int]:
    """Seeds of the form 0..4 (0, 1, 2, 3, 4) or 0,3,7. DiverError for anything else."""
    seeds: list[int] = []
    if re.fullmatch(r"\d+\.\.\d+|\d+(, *\d+)*", text, re.ASCII):
        first, dots, last = text.partition("..")
        seeds = [*range(int(first), int(last) + 1)] if dots else [int(number) for number in text.split(",")]
    if not seeds or len({*seeds}) < len(seeds):
        raise DiverError(f"--seeds {text}: must be FIRST..LAST or different numbers with commas, such as 0..4 or 0,3,7")
    return seeds
