"""Read a nested table, as from TOML, into a `@settings` dataclass. An error is one line that names the dotted key."""

import contextlib
import dataclasses
import difflib
import functools
import importlib
import inspect
import os
import re
import shlex
import sysconfig
import traceback
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, dataclass_transform

from diver.core.types import DiverError

T = TypeVar("T")
POSITIONAL = "positional"
LISTED = 24
"""If there are more choices than this, a message suggests the nearest one and does not list the others."""
Positional = Annotated[T, POSITIONAL]
"""A setting that is given without a name on the command line."""


class Bound(NamedTuple):
    """The range of a number, in the annotation of its setting. None is always allowed."""

    text: str
    holds: Callable[[float], bool]

    def checked(self, value: float | None, name: str = "") -> float | None:
        if value is not None and not self.holds(value):
            raise ValueError(f"{name} must be {self.text}, not {value}".lstrip())
        return value

    def __get_pydantic_core_schema__(self, kind: Any, handler: Callable[[Any], Any]) -> Any:
        """Check the bound in pydantic, so that `read` reports it with its key, beside all other errors."""
        from pydantic_core.core_schema import no_info_after_validator_function

        return no_info_after_validator_function(self.checked, handler(kind))


@dataclass_transform(frozen_default=True, kw_only_default=True)
def settings(cls: type) -> type:
    """Make a class a frozen, keyword-only dataclass, whose unknown keys `read` refuses.

    Its constructor raises ValueError, which names the setting, for a number outside of the `Bound` of its annotation.
    """
    cls.__pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # type: ignore[attr-defined]
    bounds = {
        name: bound
        for owner in reversed(cls.__mro__)  # a class that defines __post_init__ also checks inherited bounds
        for name, kind in inspect.get_annotations(owner, eval_str=True).items()
        for annotation in (kind, *typing.get_args(kind))  # `Positive | None` has its bound inside
        for bound in getattr(annotation, "__metadata__", ())
        if isinstance(bound, Bound)
    }
    inherited = getattr(cls, "__post_init__", None)

    def check(self: Any) -> None:
        for name, bound in bounds.items():
            bound.checked(getattr(self, name), name)
        if inherited:
            inherited(self)

    if bounds:
        cls.__post_init__ = check  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(cls)


Positive = Annotated[float, Bound("above 0", lambda x: x > 0)]
NonNegative = Annotated[float, Bound("at least 0", lambda x: x >= 0)]
ZeroToOne = Annotated[float, Bound("between 0 and 1", lambda x: 0 <= x <= 1)]
PositiveFraction = Annotated[float, Bound("above 0 and at most 1", lambda x: 0 < x <= 1)]
PositiveInt = Annotated[int, Bound("at least 1", lambda x: x >= 1)]
NonNegativeInt = Annotated[int, Bound("at least 0", lambda x: x >= 0)]


def read(cls: type[T], table: Any, where: str) -> T:
    """Build `cls` from `table` with strict types (an integer is accepted as a float, "0.1" is not).

    Args:
        cls: a settings class, or any annotation.
        table: a table, or a value of the annotation.
        where: the dotted key of the table, "" at the top. If it ends with a space, messages begin with it instead.

    Raises:
        DiverError: names every invalid key.
    """
    # Imported here, because the import takes 0.1 s and `import diver` does not need it.
    from pydantic import ValidationError
    from pydantic_core import to_json

    try:
        # In strict mode, pydantic accepts a table in place of a dataclass only from JSON.
        return _adapter(cls).validate_json(  # type: ignore[arg-type]  # a class is hashable
            to_json(table, inf_nan_mode="constants"), strict=True
        )
    except ValidationError as error:
        messages: dict[str, str] = {}
        for fault in error.errors(include_url=False):
            loc = fault["loc"] if fault["type"] == "missing" else _given(fault["loc"], table)
            inner = ".".join(map(str, loc))
            key = where + inner if where.endswith(" ") else ".".join(filter(None, [where, inner]))
            reason = fault["msg"].removeprefix("Value error, ").removeprefix("Input ").removeprefix("String ")
            reason = reason.replace("should be an object", "should be a table")
            if not isinstance(fault["input"], Mapping) and ", not " not in reason:
                reason += f", not {fault['input']!r}"
            if fault["type"] == "unexpected_keyword_argument":
                *table_loc, unknown = loc
                reason = f"unknown key{_hint(str(unknown), _keys(cls, table_loc))}"
            # pydantic reports one error per type of a union; the first is enough
            messages.setdefault(key, f"{key.rstrip(': ') or 'settings'}: {reason}")
        raise DiverError(*messages.values()) from None


def _given(loc: tuple[int | str, ...], table: Any) -> tuple[int | str, ...]:
    """The part of a pydantic location that exists in `table`: pydantic appends the name of a type, or [key]."""
    for i, step in enumerate(loc):
        try:
            table = table[step]
        except (KeyError, IndexError, TypeError):
            return loc[:i]
    return loc


class Errors:
    """Collects the DiverErrors of independent checks, to report them together."""

    def __init__(self) -> None:
        self._found: list[DiverError] = []

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Store a DiverError of the block; the code after the block still runs."""
        try:
            yield
        except DiverError as error:
            self._found.append(error)

    def raise_found(self) -> None:
        """Raise the stored errors. A subclass, such as an unreachable hub, is raised only if there are no others."""
        plain = [error for error in self._found if type(error) is DiverError]
        if plain:
            raise DiverError(*(message for error in plain for message in error.args)) from plain[0]
        if self._found:
            raise self._found[0]


def words(value: Any) -> Any:
    """The words of a text such as "a, b", before pydantic reads it as a tuple. A single word needs no comma."""
    if isinstance(value, str):
        return tuple(value.replace(",", " ").split())
    return tuple(value) if isinstance(value, list) else value


def parse_ks(text: str) -> list[int]:
    """Read values of k such as 1,8,64. `...` doubles from the number before it up to the one after it: 1,...,1024."""
    k, comma = r"0*[1-9]\d*", r"\s*,[\s,]*"
    if not re.fullmatch(rf"[\s,]*({k}({comma}((\.{{3}}|…){comma})?{k})*[\s,]*)?", text, re.ASCII):
        numbers = "must be numbers of at least 1 separated by commas"
        raise DiverError(f"--k {text}: {numbers}, such as 1,8,64 or 1,...,1024")
    ks: list[int] = []
    for dots, number in re.findall(rf"(\.{{3}}|…)?[\s,]*({k})", text):
        while dots and 2 * ks[-1] < int(number):
            ks.append(2 * ks[-1])
        ks.append(int(number))
    return sorted(set(ks))


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the keys of `over`; tables are merged key by key."""
    tables = {k for k, v in over.items() if isinstance(v, Mapping) and isinstance(base.get(k), Mapping)}
    return {**base, **{k: merge(base[k], v) if k in tables else v for k, v in over.items()}}


def refuse_without_effect(instance: Any, names: Iterable[str], reason: str) -> None:
    """Raises ValueError if one of the settings `names` is not its default, because `reason` takes its effect away."""
    defaults = {field.name: field.default for field in dataclasses.fields(instance)}
    if changed := [name for name in names if getattr(instance, name) != defaults[name]]:
        raise ValueError(f"{', '.join(changed)} would have no effect: {reason}")


def choose(name: str, choices: Iterable[str], where: str) -> None:
    """Raises DiverError, with the choices, unless `name` is one of them."""
    names = list(choices)
    if name not in names:
        raise DiverError(f"{where}: unknown choice {name!r}{_hint(str(name), names)}")


def import_object(path: str, where: str) -> Any:
    """The object at "package.module:name". DiverError, which begins with `where`, if there is none."""
    module, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # a custom module may raise anything while it is imported
        absent = isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]
        hint = "; a file of your own is found in the folder in which diver is started" if absent else ""
        raise DiverError(f"{where}: {path!r} cannot be imported ({type(error).__name__}: {error}){hint}") from error


def check_callable(function: object, what: str, arguments: Iterable[Any], takes: str, origin: str = "") -> None:
    """Raises DiverError, which begins with `what`, unless the function can be called with `arguments`.

    `takes` names its parameters, and `origin` is added to "not a function".
    """
    if not callable(function):
        raise DiverError(f"{what} is a {type(function).__name__}, not a function{origin}")
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise DiverError(f"{what} must take {takes}: {error}") from None
    except ValueError:  # some functions written in C have no signature
        pass


def call_own(what: str, function: Callable[..., Any], *given: Any) -> Any:
    """Call a function of the user. Its error becomes a DiverError that begins with `what` and names the line."""
    try:
        return function(*given)
    except DiverError:
        raise
    except Exception as error:
        place = own_place(error)
        raise DiverError(f"{what}: {type(error).__name__}: {error}{place and f' ({place})'}") from error


def own_place(error: Exception) -> str:
    """`file:line` of the last traceback entry in the user's files; "" if there is none.

    Files of this package, of the standard library and of installed packages are not the user's.
    """
    library_paths = (str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"), "<frozen ")
    place = ""
    for frame in traceback.extract_tb(error.__traceback__):
        installed = {"site-packages", "dist-packages"}.intersection(Path(frame.filename).parts)
        if not installed and not frame.filename.startswith(library_paths):
            place = f"{frame.filename}:{frame.lineno}"
    return place


@functools.cache  # building an adapter takes longer than reading a recipe
def _adapter(cls: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


def nearest(name: str, choices: Iterable[str]) -> str:
    """The choice that `name` most likely stands for, ignoring case; "" if none is close.

    A name that begins several choices means the first of them.
    """
    # Reversed, so that the first of several choices that differ only in case remains.
    lower, name = {choice.lower(): choice for choice in reversed([*choices])}, name.lower()
    # One or two letters begin too many names.
    completions = [choice for choice in reversed(lower) if len(name) > 2 and choice.startswith(name)]
    close = difflib.get_close_matches(name, lower, n=3)
    close.sort(key=lambda choice: sorted(choice) != sorted(name))  # `gpro` is `grpo` with two letters exchanged
    return lower[[*completions, *close][0]] if completions or close else ""


def no_file(path: Path, also: str = "", others: Iterable[str] = ()) -> str:
    """The message for a missing path: the folder that was searched, and the name there or in `others` that is close."""
    folder = next(parent for parent in path.absolute().parents if parent.is_dir())
    missing = path.absolute().relative_to(folder).parts[0]
    names = sorted(name for name in os.listdir(folder) if name[0] != ".") if os.access(folder, os.R_OK) else []
    near = nearest(missing, [*names, *others])
    guess = near if near in others else str(path.with_name(near) if near and path.name == missing else folder / near)
    return f"{path}: no such file or folder in {folder}{also}" + (f"; did you mean {guess!r}?" if near else "")


def _hint(name: str, choices: list[str]) -> str:
    close = nearest(name, choices)
    listed = ", ".join(map(shlex.quote, choices))  # quoted as in a shell: a choice may contain commas and spaces
    meant = f", did you mean {close!r}?" if close else ";"
    return meant if close and len(choices) > LISTED else f"{meant} choices: {listed}"


def _keys(cls: type, loc: list[int | str]) -> list[str]:
    """The keys that the table at `loc` inside `cls` may have."""
    kind: Any = cls
    for step in loc:
        inner = typing.get_type_hints(kind)[str(step)] if dataclasses.is_dataclass(kind) else typing.get_args(kind)[-1]
        kind = plain(inner)
    return [f.name for f in dataclasses.fields(kind)]


def plain(kind: Any) -> Any:
    """An annotation without its metadata and without `| None`."""
    if typing.get_origin(kind) is typing.Annotated:
        return plain(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        first, *others = (member for member in typing.get_args(kind) if member is not types.NoneType)
        return kind if others else plain(first)
    return kind


class Option(NamedTuple):
    """One setting: its dotted key, the class that has it, its annotation and its default."""

    key: str
    owner: type
    kind: Any
    default: Any


def options(settings: Any, prefix: str = "") -> Iterator[Option]:
    """The settings of a class, or of an instance, whose values are then the defaults.

    A table is replaced by its settings. A table whose default is None is listed too, before its settings.
    """
    cls = settings if isinstance(settings, type) else type(settings)
    kinds = typing.get_type_hints(cls, include_extras=True)
    for field in dataclasses.fields(cls):
        value = None if field.default is dataclasses.MISSING else field.default
        if settings is not cls:
            value = getattr(settings, field.name)
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        key = prefix if field.name == "recipe" else f"{prefix}{field.name}"  # sections of a recipe have no prefix
        table = plain(kinds[field.name]) if value is None else value
        if table is not value or not dataclasses.is_dataclass(table):
            yield Option(key, cls, kinds[field.name], value)
        if dataclasses.is_dataclass(table):
            yield from options(table, f"{key}." if key else "")


def is_positional(option: Option) -> bool:
    """Whether the option is given without a name."""
    return POSITIONAL in getattr(option.kind, "__metadata__", ())


def is_table(kind: Any) -> bool:
    """Whether the annotation is a table with arbitrary keys."""
    origin = typing.get_origin(plain(kind))
    return isinstance(origin, type) and issubclass(origin, Mapping)
