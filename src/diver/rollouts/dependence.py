"""Samples that repeat beyond chance: overlapping seeds, ranks with one seed, rows that occur twice.

Draws of one problem are exchangeable, so their order carries no information. Permutations of the order show how often
equal responses stand at a certain distance by chance, however narrow the policy is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from diver.core.files import read_jsonl

FALSE_ALARMS = 1e-4
"""Maximum probability of a false alarm for independent responses."""
BATCH = 100
"""Permutations per round; most files of independent responses need only the first round."""
MOST_DRAWS = 1_000
"""Maximum draws of a problem that are compared: its first ones."""
MOST_PAIRS = 1_000_000
"""Maximum pairs of draws that are compared, which takes some seconds. Further problems are left out."""


class Dependence(NamedTuple):
    """Repetitions that honest samples have with a probability below `FALSE_ALARMS`."""

    lag: int
    """The distance between equal draws of a problem, in draws; 0 for draws of two problems at the same place."""
    repeated: int
    """The number of pairs of equal draws at that distance."""
    expected: float
    """The mean number of such pairs in random orders of the same draws."""

    def __str__(self) -> str:
        pairs = f"{self.repeated} pairs of equal responses, where {self.expected:.0f} are expected by chance"
        if self.lag == 0:
            return (
                f"responses of different problems are equal at the same place: {pairs}. The problems may share their "
                "random numbers, or a response may stand under two ids"
            )
        if self.lag == 1:
            return (
                f"neighbouring responses of a problem are equal: {pairs}. Rows may occur twice, be sorted, or be of "
                "several models"
            )
        return (
            f"responses of a problem that are {self.lag} places apart are equal: {pairs}. The samples may come from "
            "overlapping seeds (seed + i for the i-th response of a request, and requests with seeds 0, 1, 2, ...) or "
            "from ranks with one seed"
        )


def dependence(groups: Iterable[Sequence[Hashable]]) -> Dependence | None:
    """The most significant repetition among the responses of each problem, in the order in which they were sampled;
    None if it may be chance.

    The test statistic is the largest standardized number of pairs of equal draws, over all distances within a problem
    and the same place in two problems. Its distribution under permutations of each problem's draws gives the
    probability of a false alarm, which therefore holds for any policy.

    Args:
        groups: the responses to each problem, or numbers that are equal where these are.
    """
    numbers: dict[Hashable, int] = {}
    by_length: dict[int, list[list[int]]] = {}
    total = pairs = 0
    for texts in (texts[:MOST_DRAWS] for texts in groups):
        pairs += len(texts) ** 2
        if pairs > MOST_PAIRS:
            break
        total += len(texts)
        by_length.setdefault(len(texts), []).append([numbers.setdefault(text, len(numbers)) for text in texts])
    if max(by_length, default=0) < 2 or len(numbers) == total:
        return None
    tables = [np.array(rows, dtype=np.int64) for rows in by_length.values()]
    random = np.random.Generator(np.random.Philox(key=0))

    def permuted(times: int) -> np.ndarray:
        tiled = [np.broadcast_to(table, (times, *table.shape)) for table in tables]
        return _repeated([random.permuted(table, axis=2) for table in tiled])

    observed, null = _repeated([table[None] for table in tables])[0], permuted(BATCH)
    # Where permutations hardly change a count, a difference of one is no finding.
    mean, std = null.mean(0), np.maximum(null.std(0), 1.0)

    def largest(repeated: np.ndarray) -> np.ndarray:
        return ((repeated - mean) / std).max(-1)

    statistic = largest(observed)
    # A permutation that repeats as much ends the test: the probability is then above one in the number made so far.
    if (largest(null) >= statistic).any():
        return None
    for _ in range(round(1 / FALSE_ALARMS / BATCH)):
        if (largest(permuted(BATCH)) >= statistic).any():
            return None
    lag = int(((observed - mean) / std).argmax())
    return Dependence(lag, int(observed[lag]), float(mean[lag]))


def of_evaluation(folder: Path) -> Iterator[tuple[str, Dependence]]:
    """The benchmarks of a folder of `diver eval` whose responses repeat, each with its repetition.

    If a problem has responses of several settings, the last ones are read. Responses with a count have no order, so
    they are left out.
    """
    for file in sorted((folder / "generations").glob("*.jsonl")):
        settings: dict[str, str] = {}
        hashes: dict[tuple[str, str], dict[int, int]] = {}
        rows: Iterator[tuple[str, dict[str, Any]]] = read_jsonl(file, appended=True)
        for _, row in rows:
            key = settings[row["problem"]] = row["key"]
            if row.get("count", 1) == 1:
                hashes.setdefault((row["problem"], key), {})[row["sample"]] = hash(row["response"])
        latest = [samples for (name, setting), samples in hashes.items() if settings[name] == setting]
        if repeated := dependence([samples[sample] for sample in sorted(samples)] for samples in latest):
            yield file.stem, repeated


def _repeated(tables: Sequence[np.ndarray]) -> np.ndarray:
    """Counts of pairs of equal draws in tables [times, problems, draws], int64 [times, longest].

    Column 0 counts pairs at the same place of two problems, column `lag` pairs of one problem at this distance.
    """
    times, longest = len(tables[0]), max(table.shape[2] for table in tables)
    pairs = np.zeros((times, longest), dtype=np.int64)
    for table in tables:
        for lag in range(1, table.shape[2]):
            pairs[:, lag] += np.count_nonzero(table[:, :, lag:] == table[:, :, :-lag], axis=(1, 2))
    places = [longest * table + np.arange(table.shape[2]) for table in tables]
    for time in range(times):
        _, counts = np.unique(np.concatenate([place[time].ravel() for place in places]), return_counts=True)
        pairs[time, 0] = (counts * (counts - 1) // 2).sum()
    return pairs
