"""What a file or folder holds, in a few digits: a run must not go on with other data or another model of the same name."""

import contextlib
import dataclasses
import hashlib
import importlib.util
import re
from pathlib import Path

from diver.config.recipe import Recipe, flatten
from diver.config.testbeds import POLICIES, TESTBEDS

BLOCK, BLOCKS = 1 << 16, 64  # bytes hashed, evenly over a file: some of every layer, and fast for any size
MODEL_FILES = (".json", ".safetensors", ".bin", ".model", ".jinja", ".txt")  # .jinja: a chat template; .txt: merges
ROW_FILES = (".jsonl", ".parquet", ".csv")  # that are read of a folder


def fingerprint(folder: Path) -> str:
    """8 digits that change with the weights, configuration, tokenizer and chat template of a model folder."""
    known = hashlib.blake2b(digest_size=4)
    for path in sorted(p for p in folder.iterdir() if p.suffix in MODEL_FILES):
        with path.open("rb") as file:
            size = path.stat().st_size
            blocks = min(BLOCKS, -(-size // BLOCK))
            known.update(f"{path.name} {size} ".encode())
            for i in range(blocks):  # of a small file all of it
                file.seek(max(0, size - BLOCK) * i // max(1, blocks - 1))
                known.update(file.read(BLOCK))
    return known.hexdigest()


def rows_fingerprint(path: Path) -> str:
    """8 digits that change with any byte of a file of rows, or of those in a folder."""
    known = hashlib.blake2b(digest_size=4)
    read = [path] if path.is_file() else [p for p in path.iterdir() if p.suffix in ROW_FILES and p.name[0] != "."]
    for one in sorted(read):
        with one.open("rb") as file:
            known.update(hashlib.file_digest(file, "blake2b").digest())
    return known.hexdigest()


def contents(recipe: Recipe) -> dict[str, str]:
    """What each path of a recipe holds that is a file or folder here, by its key."""
    sources = {"data.path": recipe.data.path}
    if recipe.evaluate.source:
        sources["evaluate.source.path"] = recipe.evaluate.source.path
    rows = {key: Path(path).expanduser() for key, path in sources.items() if path not in TESTBEDS}
    found = {key: rows_fingerprint(path) for key, path in rows.items() if path.exists()}
    model = Path(recipe.model.path).expanduser()
    return found | ({"model.path": fingerprint(model)} if recipe.model.path not in POLICIES and model.is_dir() else {})


def own_code(recipe: Recipe) -> dict[str, str]:
    """8 digits of the file of each `module:name` of a recipe, by that name: a method, a verifier, ... of one's own."""
    settings = flatten(dataclasses.asdict(recipe))
    texts = {*recipe.method.metric_names, *(text for value in settings.values() for text in _texts(value))}
    found = {}
    for text in sorted(text for text in texts if re.fullmatch(r"[\w.]+:\w+", text)):
        with contextlib.suppress(ImportError, ValueError):  # what is no module's is told where it is used
            spec = importlib.util.find_spec(text.partition(":")[0])
            if spec and spec.origin and Path(spec.origin).is_file():
                found[text] = rows_fingerprint(Path(spec.origin))
    return found


def _texts(value: object) -> list[str]:
    return [v for v in (value if isinstance(value, list | tuple) else [value]) if isinstance(v, str)]
