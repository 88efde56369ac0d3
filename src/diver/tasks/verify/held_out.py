"""Which generated problems are held out: decided by a hash of the problem itself.

Problems for training and held-out ones are so disjoint whatever the seeds, the sizes and the mix of levels.
"""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice

from diver.core.types import DiverError, Problem

EVERY = 8  # one problem in this many is held out
PATIENCE = 20_000  # candidates in a row that are none or known, after which there are no more


def is_held_out(key: str) -> bool:
    """Whether the problem with this key, the same for problems that are the same, is kept from training."""
    return hashlib.blake2b(key.encode(), digest_size=8).digest()[0] % EVERY == 0


def distinct(candidates: Iterable[tuple[str, Problem]], *, held_out: bool) -> Iterator[Problem]:
    """The problems of (key, problem) that are held out, or those that are not, each key once."""
    seen: set[str] = set()
    misses = 0
    for key, problem in candidates:
        if is_held_out(key) != held_out or key in seen:
            misses += 1
            if misses == PATIENCE:
                return
            continue
        misses = 0
        seen.add(key)
        yield problem


def first(problems: Iterator[Problem], count: int, name: str) -> list[Problem]:
    """The first `count`; DiverError, with the name of the testbed, if there are fewer."""
    result = list(islice(problems, count))
    if len(result) < count:
        raise DiverError(f"{name}: these settings have only {len(result)} different problems, fewer than {count}")
    return result
