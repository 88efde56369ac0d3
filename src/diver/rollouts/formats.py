"""Files of rows in the formats that trainers and evaluations write, each row with its place.

`.jsonl`, `.csv` and `.parquet` are read like files of problems. `.json` (rows, an inspect_ai log, a tinker-cookbook
logtree), `.eval` (a zip of inspect_ai) and `.pt` (torch.save of slime) are read without the packages that wrote them.
"""

import html
import json
import pickle
import struct
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any

from diver.core import formats
from diver.core.files import Rows, load_json, table
from diver.core.formats import numbered
from diver.core.types import DiverError
from diver.rollouts.values import content_text

# The errors of reading a damaged zip, which may ask for more memory than a machine has.
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, MemoryError)
UNPACKED = 2_000_000_000  # bytes of all files of a zip that are read
UNPACKED_MEMBER = 300_000_000  # bytes of one sample of inspect_ai, which is read into memory at once
ZSTD = 93  # a method of zip that zipfile of Python 3.11 to 3.13 does not have; inspect_ai's logs use it


def _json(path: Path) -> Rows:
    content = load_json(path)
    if isinstance(content, dict) and {"title", "root"} <= content.keys():
        return numbered(path, list(_logtree_attempts(content["root"])))
    if isinstance(content, dict) and isinstance(content.get("samples"), list) and "eval" in content:
        return numbered(path, [_of_log(row, content) for row in content["samples"]])
    return numbered(path, content)


def _of_log(sample: Any, header: Mapping[str, Any]) -> Any:
    """A sample of an inspect_ai log with its model and task. A sample that failed may lack its output and scores."""
    if not isinstance(sample, dict):
        return sample
    evaluation = table(header, "eval")
    return {"output": None, "scores": None, **sample, "model": evaluation.get("model"), "task": evaluation.get("task")}


def _logtree_attempts(root: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The attempts that `ProblemEnv` of tinker-cookbook logs: sections Prompt, Policy Response and Reward in order."""
    attempt: dict[str, Any] = {}
    sections = (node for node in _nodes(root) if table(node).get("tag") == "section")
    for section in sections:
        children = (node for node in section.get("children", ()) if isinstance(node, Mapping))
        title = _text(next((node for node in children if str(node.get("tag", "")).startswith("h")), None))
        messages = next((table(n, "data").get("messages") for n in _nodes(section) if table(n, "data")), None)
        if title == "Prompt":
            attempt = {"prompt": messages}
        elif title == "Policy Response" and attempt:
            attempt["response"] = "\n".join(content_text(m.get("content")) for m in messages or ())
        elif title == "Reward" and "response" in attempt:
            cells = [html.unescape(_text(node)) for node in _nodes(section) if table(node).get("tag") == "td"]
            yield {**attempt, **dict(zip(cells[::2], cells[1::2], strict=False))}
            attempt = {}


def _nodes(node: Any) -> Iterator[Any]:
    """A node and all nodes below it, in order: tables and texts."""
    yield node
    if isinstance(node, Mapping):
        for child in node.get("children") or ():
            yield from _nodes(child)


def _text(node: Any) -> str:
    return "".join(text for text in _nodes(node) if isinstance(text, str))


def _eval(path: Path) -> Rows:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
            header_name = next((name for name in ("header.json", "_journal/start.json") if name in names), "")
            sizes = [archive.getinfo(name).file_size for name in filter(None, [header_name, *samples])]
            _check_size(path, "it", sum(sizes), UNPACKED)
            _check_size(path, "one of its files", max(sizes, default=0), UNPACKED_MEMBER)
            header = json.loads(_member(archive, header_name)) if header_name else {}
            for name in samples:
                yield f"{path}, {name}", _of_log(json.loads(_member(archive, name)), header)
    except (*DAMAGED, TypeError) as error:
        raise DiverError(f"{path}: not a readable log of inspect_ai ({error})") from error


def _check_size(path: Path, what: str, size: int, limit: int) -> None:
    """Raise DiverError for a zip that unpacks to more than `limit` bytes."""
    if size > limit:
        raise DiverError(f"{path}: {what} unpacks to {size / 1e9:.3g} GB, and at most {limit / 1e9:g} GB are read")


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    info = archive.getinfo(name)
    if info.compress_type != ZSTD:
        return archive.read(name)
    from pyarrow import BufferReader, CompressedInputStream

    assert archive.fp is not None
    # The local header of a file in a zip has 30 bytes, the last four with the lengths of its name and extra field.
    archive.fp.seek(info.header_offset)
    name_length, extra_length = struct.unpack("<HH", archive.fp.read(30)[26:])
    archive.fp.seek(name_length + extra_length, 1)
    stream, content = CompressedInputStream(BufferReader(archive.fp.read(info.compress_size)), "zstd"), bytearray()
    while chunk := stream.read(1 << 20):
        content += chunk
        if len(content) > UNPACKED_MEMBER:
            raise zipfile.BadZipFile(f"{name} unpacks to more than it says")
    return bytes(content)


def _pt(path: Path) -> Rows:
    """The samples of slime's --save-debug-rollout-data; `step` is the id of the rollout."""
    try:
        with zipfile.ZipFile(path) as archive:
            pickled = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            _check_size(path, "it", archive.getinfo(pickled).file_size, UNPACKED)
            with archive.open(pickled) as file:
                content = _Plain(file).load()
        step = content.get("rollout_id")
        samples = [{**sample, "step": step} for sample in content["samples"]]
    except (*DAMAGED, pickle.UnpicklingError, StopIteration, LookupError, TypeError, AttributeError) as error:
        raise DiverError(f"{path}: not the rollout data of slime ({type(error).__name__}: {error})") from error
    for number, sample in enumerate(samples, start=1):
        yield f"{path}, sample {number}", sample


class _Plain(pickle.Unpickler):
    """Reads dicts, lists, texts and numbers, and never makes a tensor or an object of another class.

    A pickle can call any function; this reader calls none.
    """

    def find_class(self, module: str, name: str) -> Any:
        return OrderedDict if (module, name) == ("collections", "OrderedDict") else _Nothing

    def persistent_load(self, pid: Any) -> None:
        return None


class _Nothing:
    """Replaces an object that is not plain data: it accepts all operations of a pickle and does nothing."""

    def _ignore(self, *_: Any, **__: Any) -> None:
        pass

    __init__ = __setstate__ = __setitem__ = append = extend = add = _ignore


READERS: dict[str, Callable[[Path], Any]] = {
    **formats.READERS, ".csv": partial(formats.read_csv, keep_empty=True), ".json": _json, ".eval": _eval, ".pt": _pt,
}  # fmt: skip


def rows_within(path: Path, size: int) -> int | None:
    """The number of rows in about the first `size` bytes of a file, at least one; None if its format does not say."""
    if path.suffix == ".parquet":
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        try:
            return max(1, ParquetFile(path).metadata.num_rows * size // path.stat().st_size)
        except (ArrowException, OSError):  # reading the file raises the error with its reason
            return None
    if path.suffix != ".jsonl":
        return None
    with path.open("rb") as lines:
        sizes = (len(line) for line in lines if line.strip())
        return max(1, sum(1 for _ in takewhile(lambda total: total <= size, accumulate(sizes))))
