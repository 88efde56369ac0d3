"""Average ranks and shares of each rank, with intervals over problems."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from diver.core.statistics import UNKNOWN, Estimate, over_strata


class Standing(NamedTuple):
    """The ranks of one model: its average rank, and the share of comparisons in which it had rank 1, 2, ..."""

    rank: Estimate
    shares: tuple[Estimate, ...]


def standings(ranks: Mapping[str, np.ndarray], benchmarks: Mapping[str, str]) -> list[Standing]:
    """A standing for each model, from the ranks int [comparisons, models] of each problem.

    A problem counts once, however often it was compared, and a benchmark (`benchmarks`: problem -> benchmark) once,
    however many problems it has: the paper's overall average is the mean over benchmarks. Without problems all is NaN.
    """
    models = next((r.shape[1] for r in ranks.values()), 0)
    names = np.array([benchmarks[p] for p in ranks])

    def estimate(values: Sequence[float], low: float, high: float) -> Estimate:
        return over_strata([np.array(values)[names == name] for name in dict.fromkeys(names)]).within(low, high)

    return [
        Standing(
            estimate([r[:, m].mean() for r in ranks.values()], 1, models),
            tuple(estimate([(r[:, m] == rank).mean() for r in ranks.values()], 0, 1) for rank in range(1, models + 1)),
        )
        for m in range(models)
    ]


def unranked(models: int) -> Standing:
    """The standing of each of so many models that were never ranked."""
    return Standing(UNKNOWN, (UNKNOWN,) * models)


def by_position(ranks: Sequence[Sequence[int]]) -> list[float]:
    """The mean rank of the answer shown first, second, ..., from the ranks in the order shown; equal without position
    bias."""
    return np.array(ranks, dtype=float).mean(axis=0).tolist() if len(ranks) else []
