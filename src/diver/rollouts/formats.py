"""Files of rows in the formats that trainers and evaluations write, each row with its place.

`.jsonl`, `.csv` and `.parquet` are those of problems; `.json` (rows, an inspect_ai log, a tinker-cookbook logtree), `.eval` (a
zip of inspect_ai) and `.pt` (slime's torch.save) are read here without the packages that wrote them.
"""

import json
import pickle
import struct
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any

from diver.data import formats
from diver.data.formats import load_json, numbered
from diver.rollouts.unpack import logtree_attempts
from diver.types import DiverError

Row = Mapping[str, Any]
Rows = Iterable[tuple[str, Row]]
# What reading a zip raises where it is damaged.
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError)
ZSTD = 93  # a method of zip that zipfile of Python 3.11 to 3.13 does not have; inspect_ai's logs use it


def _json(path: Path) -> Rows:
    content = load_json(path)
    if isinstance(content, dict) and {"title", "root"} <= content.keys():
        return numbered(path, list(logtree_attempts(content["root"])))
    if isinstance(content, dict) and isinstance(content.get("samples"), list):
        return numbered(path, [{**row, **_log_names(content)} for row in content["samples"] if isinstance(row, dict)])
    return numbered(path, content)


def _log_names(header: Mapping[str, Any]) -> dict[str, Any]:
    """Whose samples an inspect_ai log has."""
    about = header.get("eval")
    return {name: about.get(name) for name in ("model", "task")} if isinstance(about, Mapping) else {}


def _eval(path: Path) -> Rows:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            about = next((name for name in ("header.json", "_journal/start.json") if name in names), "")
            header = _log_names(json.loads(_member(archive, about))) if about else {}
            for name in names:
                if name.startswith("samples/") and name.endswith(".json"):
                    yield f"{path}, {name}", {**json.loads(_member(archive, name)), **header}
    except (*DAMAGED, TypeError) as error:
        raise DiverError(f"{path}: not a readable log of inspect_ai ({error})") from error


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    info = archive.getinfo(name)
    if info.compress_type != ZSTD:
        return archive.read(name)
    from pyarrow import BufferReader, CompressedInputStream

    assert archive.fp is not None
    archive.fp.seek(info.header_offset)
    name_length, extra_length = struct.unpack("<HH", archive.fp.read(30)[26:])
    archive.fp.seek(name_length + extra_length, 1)
    return CompressedInputStream(BufferReader(archive.fp.read(info.compress_size)), "zstd").read()


def _pt(path: Path) -> Rows:
    """The samples of slime's --save-debug-rollout-data; `step` is the id of the rollout."""
    try:
        with zipfile.ZipFile(path) as archive:
            pickled = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            with archive.open(pickled) as file:
                content = _Plain(file).load()
        step = content.get("rollout_id")
        samples = [{**sample, "step": step} for sample in content["samples"]]
    except (*DAMAGED, pickle.UnpicklingError, StopIteration, LookupError, TypeError, AttributeError) as error:
        raise DiverError(f"{path}: not the rollout data of slime ({type(error).__name__}: {error})") from error
    for number, sample in enumerate(samples, start=1):
        yield f"{path}, sample {number}", sample


class _Plain(pickle.Unpickler):
    """Reads dicts, lists, texts and numbers; a tensor or an object of another class is never made.

    A pickle can call any function: this one calls none of them.
    """

    def find_class(self, module: str, name: str) -> Any:
        return OrderedDict if (module, name) == ("collections", "OrderedDict") else _Nothing

    def persistent_load(self, pid: Any) -> None:
        return None


class _Nothing:
    """Stands for whatever is not plain data: takes all that a pickle does to an object, and does nothing."""

    def _ignore(self, *_: Any, **__: Any) -> None:
        pass

    __init__ = __setstate__ = __setitem__ = append = extend = add = _ignore


READERS: dict[str, Callable[[Path], Any]] = {
    **formats.READERS, ".csv": partial(formats.read_csv, keep_empty=True), ".json": _json, ".eval": _eval, ".pt": _pt,
}  # fmt: skip


def rows_within(path: Path, size: int) -> int | None:
    """How many rows are in about the first `size` bytes of a file, at least one; None where its format does not say."""
    if path.suffix == ".parquet":
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        try:
            return max(1, ParquetFile(path).metadata.num_rows * size // path.stat().st_size)
        except (ArrowException, OSError):  # whoever reads it says so
            return None
    if path.suffix != ".jsonl":
        return None
    with path.open("rb") as lines:
        read = (len(line) for line in lines if line.strip())
        return max(1, sum(1 for _ in takewhile(lambda total: total <= size, accumulate(read))))
