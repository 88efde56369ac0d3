"""Rows from any source: the only table of the names of their columns, and the values of columns."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from diver.core.files import InvalidRow, packaged_table

COLUMNS: dict[str, Any] = {
    kind: names if kind == "certain" else [*names, *(name[0].upper() + name[1:] for name in names if name[0].isalpha())]
    for kind, names in packaged_table("diver.core", "columns.toml").items()
}
"""Dotted paths of columns for each kind of value. The first path with a value counts. `certain` is a table.

Each name may begin with a capital, as in the `Question,Answer` of a spreadsheet.
"""


def needed(row: Mapping[str, Any], name: str, paths: Sequence[str], where: str, option: str = "") -> Any:
    """`first_value` of a row that must have one.

    Args:
        row: a row.
        name: what the value is, for the message.
        paths: the dotted paths of columns.
        where: the place of the row, for the message.
        option: the option that names another column, for the message.

    Raises:
        InvalidRow: no path has a value.
    """
    value = first_value(row, paths)
    if value is not None:
        return value
    columns, reason = ", ".join(row) or "nothing", f"no {name}"
    if empty := [path for path in paths if path in row]:
        details = f": {empty[0]} is empty"
    elif len(paths) == 1:  # a path that the user named
        reason, details = f"no column {paths[0]!r}", f" for the {name}: found {columns}"
    else:
        hint = f" ({option} names another)" if option else ""
        details = f": found {columns}; accepted {', '.join(path for path in paths if path[0].islower())}{hint}"
    raise InvalidRow(where, reason, details)


def first_value(row: Mapping[str, Any], paths: Iterable[str]) -> Any:
    """The value at the first of the dotted paths that the row has; None if it has none of them."""
    return next((value for path in present(row, paths) if (value := value_at(row, path)) is not None), None)


def present(row: Mapping[str, Any], paths: Iterable[str]) -> tuple[str, ...]:
    """The paths at which the row may have a value, by its columns: about five of some forty paths."""
    return _present(tuple(row), tuple(paths))


@lru_cache(maxsize=10_000)  # the rows of a file have the same columns
def _present(columns: tuple[str, ...], paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in paths if path in columns or path.partition(".")[0] in columns)


def value_at(row: Mapping[str, Any], path: str) -> Any:
    """The value of a column, or of a field inside one: `reward.outcome`. None if there is none."""
    if path in row:
        return row[path]
    value: Any = row
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
