"""What a file or folder holds, in a few digits: a run must not go on with other data or another model
of the same name."""

import hashlib
from pathlib import Path

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
            for i in range(blocks):  # a small file is read completely
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
