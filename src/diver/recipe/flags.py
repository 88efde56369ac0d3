"""The command line as a table: `--train.steps 20` assigns what `[train] steps = 20` does in a file."""

import contextlib
import copy
import dataclasses
import typing
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Any, TypeVar

from diver.core.settings import choose, is_positional, is_table, options, plain, read
from diver.core.settings import words as listed
from diver.core.types import DiverError
from diver.recipe.help import help_text

T = TypeVar("T")
HELP = {"-h", "--help"}
BOOLEANS = {"true": True, "false": False}


def parse(kind: type[T], command: str, args: Sequence[str], common: Mapping[str, str] = MappingProxyType({})) -> T:
    """The settings of `kind` from the words after `command`.

    --help prints `help_text` with the options in `common`, which people use most, and exits. --help all prints all.

    Raises:
        DiverError: names the wrong option and its choices.
    """
    if not HELP.isdisjoint(args):
        print(help_text(kind, command, common, everything="all" in args))
        raise SystemExit(0)
    kinds = {option.key: option.kind for option in options(kind)}
    table, words = assigned({}, args, kinds)
    for word in words:
        if word.startswith("--"):
            choose(word[2:].partition("=")[0], [key.replace("_", "-") for key in kinds], f"command line: {word}")
    for key in [option.key for option in options(kind) if is_positional(option)]:
        if typing.get_origin(plain(kinds[key])) is tuple:
            table[key], words = words, []
        elif words:
            table[key] = words.pop(0)
    if words:
        raise DiverError(f"command line: {words[0]!r}: is no value of an option; {command} --help lists them")
    return read(kind, table, "command line: ")


def checked(source: object, make: Callable[[], T]) -> T:
    """Call `make`, and let its DiverError begin with `source`, a file or the command line."""
    try:
        return make()
    except DiverError as e:
        raise DiverError(*(f"{source}: {message}" for message in e.args)) from None


def assigned(
    table: Mapping[str, Any],
    args: Sequence[str],
    kinds: Mapping[str, Any],
    short: Mapping[str, str] = MappingProxyType({}),
) -> tuple[dict[str, Any], list[str]]:
    """Assign the values of flags to a table, as a file would.

    Args:
        table: nested tables.
        args: `--key value` or `--key=value`, with - or _ in keys. A boolean needs no value. A tuple takes the words up
            to the next flag. A table with free keys takes pairs of words, or `--key.NAME value`. A second flag adds to
            the table.
        kinds: the annotation of each setting, by its dotted key.
        short: short forms of flags.

    Returns:
        A copy of `table` with the values, and the words that belong to no flag.
    """
    result, unassigned, words = copy.deepcopy({**table}), list[str](), deque(args)
    assigned_keys: set[tuple[str, ...]] = set()  # the keys of earlier flags, and of their tables
    while words:
        word = words.popleft()
        flag, equals, text = word.partition("=")
        keys, kind = _setting(short.get(flag, flag), kinds)
        if not keys:
            unassigned.append(word)
            continue
        single = not is_table(kind) and typing.get_origin(plain(kind)) is not tuple
        values = [text] if equals else []
        while not equals and words and not words[0].startswith("--") and not (single and values):
            if plain(kind) is bool and words[0].lower() not in BOOLEANS:
                break
            if values and (choices := _choices(kind)) and not choices.issuperset(listed(words[0])):
                break
            values.append(words.popleft())
        if single and not values and plain(kind) is not bool:
            raise DiverError(f"command line: {flag}: needs a value")
        *tables, name = keys
        inner = result
        for key in tables:
            inner = inner.setdefault(key, {})
        value = _value(values, kind)
        inner[name] = {**inner[name], **value} if is_table(kind) and (*keys,) in assigned_keys else value
        assigned_keys |= {(*keys,), (*tables,)}
    return result, unassigned


def _setting(flag: str, kinds: Mapping[str, Any]) -> tuple[list[str], Any]:
    """The keys and the annotation of the setting that a flag assigns; no keys if there is no such setting."""
    option = flag.removeprefix("--")
    key = option.replace("-", "_")
    if option != flag and key in kinds:
        return key.split("."), kinds[key]
    table = next((name for name, kind in kinds.items() if is_table(kind) and key.startswith(f"{name}.")), None)
    if option == flag or table is None:
        return [], None
    name, value_kind = option[len(table) + 1 :], typing.get_args(plain(kinds[table]))[1]
    if not dataclasses.is_dataclass(value_kind):
        return [*table.split("."), name], value_kind
    name, _, last = name.rpartition(".")  # a name may contain dots and dashes
    last = last.replace("-", "_")
    return [*table.split("."), name, last], next((o.kind for o in options(value_kind) if o.key == last), str)


def _value(texts: Sequence[str], kind: Any) -> Any:
    """Convert texts to a value of this annotation. A text that does not fit is returned unchanged and refused later."""
    core, kinds = plain(kind), typing.get_args(plain(kind))
    if is_table(kind):
        if len(texts) % 2:
            raise DiverError(f"command line: {' '.join(texts)}: must be pairs, NAME value NAME value")
        return {name: _value([text], kinds[1]) for name, text in zip(texts[::2], texts[1::2], strict=True)}
    if typing.get_origin(core) is tuple:
        if _choices(kind):  # a text with only commas is returned, and refused later as no choice
            texts = [word for text in texts if text for word in listed(text) or [text]]
        return [_value([text], kinds[0]) for text in texts]
    text = texts[0] if texts else "true"
    if bool in (core, *kinds) and text.lower() in BOOLEANS:
        return BOOLEANS[text.lower()]
    if NoneType in typing.get_args(kind) and text == "None":
        return None
    for number in (int, float):
        if number in (core, *kinds):
            with contextlib.suppress(ValueError):
                return number(text)
    return text


def _choices(kind: Any) -> set[str]:
    """The words that a tuple may have, if they are choices, as in `--figures pdf,png` and `--figures pdf png`."""
    kinds = typing.get_args(plain(kind))
    return {*typing.get_args(kinds[0])} if kinds and typing.get_origin(kinds[0]) is typing.Literal else set()
