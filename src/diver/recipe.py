"""A recipe: one TOML file that says everything about a run, and the flags that change it.

    [model]
    path = "Qwen/Qwen2.5-Math-7B"
    [train]
    steps = 350

Sections are the settings of the rooms. What is left out has the paper's value where the paper has one.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diver.backends.cluster import Cluster
from diver.engine.evaluation import Evaluation
from diver.engine.loggers import Log
from diver.engine.policy import Model
from diver.engine.problems import Data
from diver.engine.trainer import Train
from diver.methods import Method
from diver.sample import Sampling
from diver.settings import choose, merge, read
from diver.types import DiverError, settings
from diver.verify import Verification


@settings
class Run:
    """Where a run lives, and its seed."""

    folder: str | None = None
    """The run folder; nothing means runs/ and the recipe's name."""
    seed: int = 0
    """Of every random stream of the run."""

    def __post_init__(self) -> None:
        if self.folder == "":
            raise ValueError("folder must not be empty")


@settings
class Recipe:
    """Everything about a run, resolved."""

    run: Run = Run()
    model: Model = Model()
    data: Data = Data()
    sample: Sampling = Sampling()
    method: Method = Method()
    train: Train = Train()
    evaluate: Evaluation = Evaluation()
    verify: Verification = Verification()
    log: Log = Log()
    verl: Cluster = Cluster()

    def __post_init__(self) -> None:
        self.method.check_group(self.sample.group, "sample.group")

    @property
    def folder(self) -> Path:
        return Path(self.run.folder or "runs/recipe")

    def identity(self) -> dict[str, Any]:
        """What makes two runs the same run, under dotted keys: every setting but steps, paths, loggers, [verl] and MACHINE.

        Of a path the last part counts, so a folder may move but not turn into another model's or data set's.
        """
        flat = _flatten(dataclasses.asdict(self))
        skipped = ("train.steps", "run.folder", "log.", "verl.")
        kept = {key: value for key, value in flat.items() if not key.startswith(skipped) and key not in MACHINE}
        return {
            k: Path(v).name if k.endswith((".path", ".model")) and isinstance(v, str) else v for k, v in kept.items()
        }


# How a machine does the work, not what the work is: a run may go on with less memory or on another device.
MACHINE = frozenset(
    "model.device model.threads model.gradient_checkpointing model.attention sample.rows train.micro_batch_tokens "
    "train.checkpoint_every train.keep_checkpoints verify.workers verify.memory_mb "
    "method.diversity.embedding.device method.diversity.embedding.batch "
    "method.diversity.hidden_state.device method.diversity.hidden_state.batch_tokens".split()
)
MAIN_KEYS = {"model": "path", "data": "path", "method": "name"}
SECTIONS: dict[str, Any] = {field.name: type(field.default) for field in dataclasses.fields(Recipe)}


def load_recipe(path: Path, flags: Sequence[str] = ()) -> Recipe:
    """Read `path` and change it by flags such as `--train.steps 20`. DiverError names the file and the key."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise DiverError(f"{path}: there is no such recipe; `diver train --help` lists what one may say") from None
    except (OSError, UnicodeDecodeError) as e:
        raise DiverError(f"{path}: cannot be read ({e})") from None
    except tomllib.TOMLDecodeError as e:
        raise DiverError(f"{path}: is not TOML: {e}") from None
    changes = parse_flags(flags)
    for source, part in ((str(path), table), ("command line", changes)):
        for section, body in part.items():
            if section not in SECTIONS:
                raise DiverError(f"{source}: there is no section [{section}]; sections are {', '.join(SECTIONS)}")
            if not isinstance(body, dict):
                raise DiverError(f"{source}: {section} must be a section, [{section}]")
    try:
        recipe = make_recipe(merge(table, changes))
    except DiverError as e:
        raise DiverError(f"{path}: {e}") from None
    if recipe.run.folder is None:
        recipe = dataclasses.replace(recipe, run=dataclasses.replace(recipe.run, folder=f"runs/{path.stem}"))
    return recipe


def make_recipe(table: Mapping[str, Mapping[str, Any]]) -> Recipe:
    """A recipe from nested tables. The method's name gives its settings; other keys of [method] change them."""
    sections: dict[str, Any] = {}
    for name, cls in SECTIONS.items():
        body = dict(table.get(name, {}))
        if name == "method":
            sections[name] = Method.named(body.pop("name", "diver-mix"), **body)
        else:
            sections[name] = read(cls, body, name)
    return Recipe(**sections)


def split_flags(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(Words that are not of the recipe, flags of the recipe with their values), each in their order."""
    rest: list[str] = []
    flags: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        key, equals, _ = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not ("." in key or key in MAIN_KEYS):
            rest.append(word)
            continue
        values = 0 if equals else 1
        flags += [word, *left[:values]]
        del left[:values]
    return rest, flags


def parse_flags(flags: Sequence[str]) -> dict[str, Any]:
    """--section.field value, or --section.field=value, as nested tables. A value is TOML, or else a string.

    A section by itself stands for its main key: --model PATH, --data PATH, --method NAME.
    """
    table: dict[str, Any] = {}
    words = list(flags)
    while words:
        word = words.pop(0)
        key, equals, value = word.removeprefix("--").partition("=")
        key = f"{key}.{MAIN_KEYS[key]}" if key in MAIN_KEYS else key
        if not word.startswith("--") or "." not in key:
            raise DiverError(f"{word!r}: a flag that changes the recipe has the form --section.field value")
        if not equals:
            if not words:
                raise DiverError(f"{word}: needs a value")
            value = words.pop(0)
        section, *fields = key.split(".")
        # --train.mini-batch is mini_batch, but a metric that is paid has its name: --method.pays.hidden-state.weight
        fields = [f if of == "pays" else f.replace("-", "_") for of, f in itertools.pairwise([section, *fields])]
        choose(section, SECTIONS, f"--{section}")
        at = table.setdefault(section, {})
        for field in fields[:-1]:
            at = at.setdefault(field, {})
        at[fields[-1]] = _value(value)
    return table


def describe() -> str:
    """Every section and key with its default and meaning, for `diver train --help`."""
    lines = []
    for section, cls in SECTIONS.items():
        lines += ["", f"[{section}]  {(cls.__doc__ or '').splitlines()[0]}", *_describe(cls, "")]
    return "\n".join(lines)


def _describe(cls: Any, prefix: str) -> list[str]:
    lines = []
    told = _field_docs(cls)
    for field in dataclasses.fields(cls):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if dataclasses.is_dataclass(default):
            lines += _describe(type(default), f"{prefix}{field.name}.")
        else:
            shown = "" if default is None or default is dataclasses.MISSING else f" = {_shown(default)}"
            lines.append(f"  {prefix}{field.name}{shown}\n      {told.get(field.name, '')}")
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(value) + "}"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


def _field_docs(cls: Any) -> dict[str, str]:
    """The doc string below each field, of the class and its bases."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        body = ast.parse(inspect.getsource(base)).body[0].body  # type: ignore[attr-defined]
        for field, text in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                docs[field.target.id] = " ".join(str(text.value.value).split())  # type: ignore[union-attr]
    return docs


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
