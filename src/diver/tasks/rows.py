"""The rows of a source, each with its location: files, folders, data sets on the hub, custom functions."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from diver.core.extras import missing
from diver.core.formats import READERS, Rows, check_content
from diver.core.seeds import ROW_FILES
from diver.core.settings import no_file
from diver.core.types import DiverError
from diver.grading.custom import check_function
from diver.recipe.data import TESTBEDS, Source
from diver.tasks import hub

IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
Adapt = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def row_files(path: Path) -> tuple[list[Path], list[str]]:
    """A file of rows, or those of a folder in order, and a note on its .json files: they mostly describe the others.

    Raises:
        DiverError: another file is given, or a folder without a file of rows.
    """
    if path.is_file() and path.suffix not in READERS:
        raise DiverError(f"{path}: a file must be {' or '.join(READERS)}, not {path.suffix or 'without suffix'}")
    if path.is_file():
        return [path], []
    paths = sorted(p for p in path.iterdir() if p.name[0] != ".")
    files = [p for p in paths if p.suffix in ROW_FILES]
    skipped = ", ".join(p.name for p in paths if p.suffix == ".json")
    note = skipped and f"{skipped} not read: in a folder a .json file mostly describes the others; name it itself"
    if not files:
        raise DiverError(f"{path}: no {' or '.join(ROW_FILES)} file in this folder" + (note and f"; {note}"))
    return files, [f"{path}: {note}"] if note else []


def read_rows(source: Source, key: str) -> tuple[Rows, list[str]]:
    """The rows of a source, and notes for the log: the commit on the hub, or files of a folder that were not read."""
    path = Path(source.path).expanduser()
    keys = [name for name in ("config", "split", "revision") if getattr(source, name) != getattr(Source, name)]
    ignored = [f"{source.path}: every row is read; {', '.join(keys)} is for a data set on the hub"] if keys else []
    if path.exists():
        files, notes = row_files(path)
        for file in files:
            check_content(file)
        if keys and len(files) > 1:  # the key may be meant to select one of them
            raise DiverError(
                f"{key.removesuffix('path')}{keys[0]}: is for a data set on the hub, and every file of the folder "
                f"{source.path} is read: leave it out, or name the file to read as {key}"
            )
        return itertools.chain.from_iterable(READERS[file.suffix](file) for file in files), [*notes, *ignored]
    if IMPORT_PATH.fullmatch(source.path):
        return _called(source.path, key), ignored
    if path.suffix or not re.fullmatch(r"[\w.-]+/[\w.-]+", source.path):
        alternatives = "the id of a data set on the hub (owner/name) or a function (package.module:name)"
        raise DiverError(no_file(path, f", and not {alternatives}", TESTBEDS))
    return from_hub(source, key)


def _called(path: str, key: str) -> Rows:
    """The rows or problems that a custom function returns or yields."""
    rows = check_function(path, (), key)()
    if not isinstance(rows, Iterable):
        raise DiverError(f"{key}: {path!r} must return or yield problems, not {type(rows).__name__}")
    for number, row in enumerate(rows, start=1):
        yield f"{path}, problem {number}", row


def adapted(rows: Rows, adapt: Adapt, name: str) -> Rows:
    for where, row in rows:
        try:
            yield where, adapt(row)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DiverError(f"{where}: not a row of {name} ({type(error).__name__}: {error})") from error


def from_hub(source: Source, key: str) -> tuple[Rows, list[str]]:
    try:
        import datasets
    except ImportError as error:
        raise DiverError(f"{source.path}: a data set on the hub: {missing('datasets')}") from error
    revision = hub.newest_commit(source.path, "dataset", source.revision, key)
    try:
        commit = revision or source.revision
        table = datasets.load_dataset(source.path, source.config, split=source.split, revision=commit)
    except Exception as error:  # the hub and `datasets` raise some twenty kinds
        reason = "; ".join(hub.one_line(e) for e in (error, error.__cause__) if e)
        if revision is None and isinstance(error, ConnectionError):
            reason = "HF_HUB_OFFLINE is set, and it was not downloaded before"
        raise DiverError(
            f"{source.path} (config {source.config}, split {source.split!r}): {reason}; check config and split, or "
            "give a local .jsonl, .json, .csv or .parquet file"
        ) from error
    notes = [f"{source.path}: revision {revision}"] if revision else []
    return ((f"{source.path}, row {number}", row) for number, row in enumerate(table, start=1)), notes
