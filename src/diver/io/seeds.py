"""Random streams by key, and short names of settings by their content."""

import hashlib
from typing import Any

from diver.io.jsonl import to_json


def stream_seed(seed: int, *key: object) -> int:
    """The seed of a random stream of its own for each key, such as (seed, "sample", step).

    Every random number of a run comes from such a stream, so a run's random state IS its step: nothing else has to
    be saved, and whatever one purpose draws leaves the others untouched.
    """
    return int.from_bytes(hashlib.blake2b(repr((seed, *key)).encode(), digest_size=8).digest()) >> 1


def digest(*parts: Any) -> str:
    """16 hexadecimal digits that name these parts, which must be JSON."""
    return hashlib.blake2b(to_json(parts).encode(errors="backslashreplace"), digest_size=8).hexdigest()
