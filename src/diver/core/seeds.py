"""Random streams, held-out problems and digests, each determined by a key.

Responses that are sampled side by side have a stream each, by Philox4x32-10 (Salmon et al. 2011, "Parallel random
numbers: as easy as 1, 2, 3"), a keyed permutation of counters. The key is the seed of the response and the counter is
its token, so no state is needed between tokens. A response draws the same numbers whichever others share its batch. Two
responses with different seeds never run into each other's stream.
"""

import hashlib
import random
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from diver.core.files import to_json
from diver.core.types import DiverError, Rollout

T = TypeVar("T")
# The constants of Philox4x32-10: multipliers, increments of the key, and rounds.
MULTIPLIERS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
WEYL = np.array([[0x9E3779B9], [0xBB67AE85]], np.uint64)
ROUNDS = 10
WORD, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def stream_seed(seed: int, *key: object) -> int:
    """The seed of a random stream for each key, such as (seed, "sample", step).

    Every random number of a run comes from such a stream. The step thus determines the random state of a run, and no
    other state has to be saved. The numbers drawn for one purpose do not change those of another.
    """
    return int.from_bytes(hashlib.blake2b(repr((seed, *key)).encode(), digest_size=8).digest()) >> 1


def digest(*parts: Any) -> str:
    """16 hexadecimal digits that identify these parts, which must be JSON."""
    return hashlib.blake2b(to_json(parts).encode(errors="backslashreplace"), digest_size=8).hexdigest()


def action_key(rollout: Rollout) -> str:
    """A key for distinct@k: equal for trajectories with the same sequence of actions."""
    return digest([list(action) for action in rollout.actions])


def philox(counter: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Four random 32-bit words for each column: counters [4, n] and keys [2, n], 32-bit words in uint64."""
    even, odd = counter[::2], counter[1::2]
    for _ in range(ROUNDS):
        product = MULTIPLIERS * even
        even, odd = (product[::-1] >> HALF) ^ odd ^ key, product[::-1] & WORD
        key = (key + WEYL) & WORD
    return np.stack([even[0], odd[0], even[1], odd[1]])


def uniform(seeds: np.ndarray, token: int | np.ndarray) -> np.ndarray:
    """The random number by which each response draws its token: float64 [n] in (0, 1], multiples of 2^-53.

    Args:
        seeds ([n]): uint64, the seeds of the responses.
        token: the index of the token, one for all responses or [n].
    """
    counter = np.zeros((4, len(seeds)), np.uint64)
    counter[0] = token
    words = philox(counter, np.stack([seeds & WORD, seeds >> HALF]))
    return (((words[0] << HALF | words[1]) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53


EVERY = 8  # one generated problem in this many is held out
PATIENCE = 20_000  # consecutive candidates without a new problem before giving up


def is_held_out(key: str) -> bool:
    """Whether the generated problem with this key is kept from training.

    Equal problems have equal keys. So training and held-out problems are disjoint for any seeds, sizes and levels.
    """
    return hashlib.blake2b(key.encode(), digest_size=8).digest()[0] % EVERY == 0


def distinct(candidates: Iterator[tuple[str, T]], count: int, *, held_out: bool, name: str) -> list[T]:
    """The first `count` problems with different keys, either all held out or all for training.

    Args:
        candidates: an endless sequence of (key, problem).
        name: the testbed, for messages.

    Raises:
        DiverError: there are fewer than `count` problems.
    """
    problems: dict[str, T] = {}
    misses = 0
    while len(problems) < count and misses < PATIENCE:
        key, problem = next(candidates)
        if is_held_out(key) != held_out or key in problems:
            misses += 1
        else:
            misses, problems[key] = 0, problem
    if len(problems) < count:
        raise DiverError(f"{name}: these settings have only {len(problems)} different problems, fewer than {count}")
    return [*problems.values()]


BLOCK, BLOCKS = 1 << 16, 64  # bytes per block, and blocks hashed per file, evenly spaced over all layers
MODEL_FILES = (".json", ".safetensors", ".bin", ".model", ".jinja", ".txt")  # .jinja: a chat template; .txt: merges
ROW_FILES = (".jsonl", ".parquet", ".csv")  # file types read from a folder


def fingerprint(folder: Path) -> str:
    """8 digits that change with the weights, configuration, tokenizer and chat template of a model folder.

    A run must not continue with another model, or other data, of the same name.
    """
    hasher = hashlib.blake2b(digest_size=4)
    for path in sorted(p for p in folder.iterdir() if p.suffix in MODEL_FILES):
        with path.open("rb") as file:
            size = path.stat().st_size
            blocks = min(BLOCKS, -(-size // BLOCK))
            hasher.update(f"{path.name} {size} ".encode())
            for i in range(blocks):  # a small file is read completely
                file.seek(max(0, size - BLOCK) * i // max(1, blocks - 1))
                hasher.update(file.read(BLOCK))
    return hasher.hexdigest()


def rows_fingerprint(path: Path) -> str:
    """8 digits that change with any byte of a file of rows, or of those in a folder."""
    hasher = hashlib.blake2b(digest_size=4)
    sources = [path] if path.is_file() else [p for p in path.iterdir() if p.suffix in ROW_FILES and p.name[0] != "."]
    for source in sorted(sources):
        with source.open("rb") as file:
            hasher.update(hashlib.file_digest(file, "blake2b").digest())
    return hasher.hexdigest()


def draw_indices(step: int, batch: int, size: int, seed: int) -> list[int]:
    """The problems of rollout step `step` (from 1): each epoch goes through all of them in a seeded order."""
    first, end = (step - 1) * batch, step * batch
    return [_order(seed, i // size, size)[i % size] for i in range(first, end)]


@lru_cache(maxsize=2)  # a batch may begin in one epoch and end in the next
def _order(seed: int, epoch: int, size: int) -> list[int]:
    return random.Random(stream_seed(seed, "order", epoch)).sample(range(size), size)
