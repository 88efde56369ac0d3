"""Which generated problems are held out: a hash of the problem itself decides.

So problems for training and held-out problems are disjoint for any seeds, sizes and mix of levels.
"""

import hashlib
from collections.abc import Iterator

from diver.core.types import DiverError, Problem

EVERY = 8  # one problem in this many is held out
PATIENCE = 20_000  # give up after so many candidates in a row without a new problem


def is_held_out(key: str) -> bool:
    """Whether the problem with this key, the same for problems that are the same, is kept from training."""
    return hashlib.blake2b(key.encode(), digest_size=8).digest()[0] % EVERY == 0


def distinct(candidates: Iterator[tuple[str, Problem]], count: int, *, held_out: bool, name: str) -> list[Problem]:
    """The first `count` problems of endless (key, problem) that are held out, or that are not, each key once.

    Raises:
        DiverError: There are fewer; with the `name` of the testbed.
    """
    found: dict[str, Problem] = {}
    misses = 0
    while len(found) < count and misses < PATIENCE:
        key, problem = next(candidates)
        if is_held_out(key) != held_out or key in found:
            misses += 1
        else:
            misses, found[key] = 0, problem
    if len(found) < count:
        raise DiverError(f"{name}: these settings have only {len(found)} different problems, fewer than {count}")
    return [*found.values()]
