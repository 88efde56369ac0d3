"""From the records of the comparison to numbers: curves over temperatures, paired differences, the front.

Every estimate is over seeds and problems, by `diver.evaluate.comparison`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from diver.core.statistics import Estimate, pass_at_k
from diver.evaluate import comparison
from diver_paper.runs import Record, Runs
from method_comparison.plan import BASELINE, Plan

WEIGHTS = (1.0, 0.75, 0.5, 0.25, 0.0)  # weights w of Pass@1; Pass@64 has the weight 1 - w
UNTRAINED = "untrained"


class Part(NamedTuple):
    """A part of the page: the stages that share a testbed and seeds."""

    testbed: str
    seeds: tuple[int, ...]
    appendix: bool = False


class Results(NamedTuple):
    """The finished runs of a part of the page; its numbers."""

    plan: Plan
    part: Part
    runs: Mapping[str, Runs]
    """Label -> seed -> record."""
    untrained: Record | None
    rates: Mapping[str, float]
    """Label -> the learning rate of its variant, before its `rate_factor`."""
    tried: Mapping[str, Mapping[float, Record]]
    """Label -> learning rate -> the record of the run by which it is chosen."""

    @property
    def title(self) -> str:
        """The testbed and the seeds; three or more consecutive seeds as the first and the last."""
        seeds = [str(seed) for seed in self.part.seeds]
        if len(seeds) > 2 and self.part.seeds == (*range(self.part.seeds[0], self.part.seeds[-1] + 1),):
            seeds = [f"{seeds[0]} to {seeds[-1]}"]
        return (
            f"{self.plan.testbeds[self.part.testbed].title}, seed{'s' * (len(self.part.seeds) > 1)} {', '.join(seeds)}"
        )

    @property
    def baseline(self) -> Runs:
        return self.runs.get(BASELINE, {})

    def of(self, label: str) -> Runs:
        """The runs of a variant. The record of the untrained policy is repeated for each seed."""
        if label == UNTRAINED:
            return dict.fromkeys(self.part.seeds, self.untrained) if self.untrained else {}
        return self.runs.get(label, {})

    @property
    def policies(self) -> list[str]:
        """The policies with evaluations: the untrained policy, and the variants that have runs."""
        return [*([UNTRAINED] if self.untrained else []), *self.runs]

    def unfinished(self, label: str) -> str:
        """A mark with the number of a variant's finished seeds if some are missing; else empty."""
        return self.mark(len(self.of(label)))

    def mark(self, done: int) -> str:
        """The mark for `done` finished seeds; empty if these are all."""
        wanted = len(self.part.seeds)
        return "" if done == wanted else f" *({done} of {wanted} seeds)*"

    @property
    def free(self) -> list[str]:
        """The free baselines among the variants: they need no new method."""
        return [label for label in self.runs if label in self.plan.variants and self.plan.variants[label].baseline]

    @property
    def ablations(self) -> dict[str, str]:
        """Label -> the variant from which it differs by one change."""
        variants = ((label, self.plan.variants.get(label)) for label in self.runs)
        return {label: variant.ablation_of for label, variant in variants if variant and variant.ablation_of}


class Candidate(NamedTuple):
    """A policy and a temperature: the evaluation `name` of the runs of `label`."""

    label: str
    name: str

    def __str__(self) -> str:
        at, temperature = self.name.split()
        return f"{self.label}{f' after {at} steps' if at.isdigit() else ''} at {temperature}"


# ---- one evaluation --------------------------------------------------------------------------------------------------


def pass_at(record: Record, name: str, k: int) -> np.ndarray:
    """Pass@k of each problem in an evaluation, float64 [problems].

    At temperature 0 a problem has one sample, and its Pass@k is that of this sample for every k.
    """
    evaluation = record["evaluations"][name]
    n = evaluation["samples"]
    return _chances(n, min(k, n))[np.array(evaluation["c"], dtype=np.int64)]


@cache
def _chances(n: int, k: int) -> np.ndarray:
    """Pass@k of a problem with 0, 1, ..., n correct of n samples: a page asks for it thousands of times."""
    return pass_at_k(n, np.arange(n + 1), k)


def distinct(record: Record, name: str) -> np.ndarray:
    """The distinct correct solutions among all samples of each problem, float64 [problems]."""
    return np.array(record["evaluations"][name]["distinct"], dtype=float)


def score(weight: float) -> Callable[[Record, str], np.ndarray]:
    """weight Pass@1 + (1 - weight) Pass@64 of each problem."""
    return lambda record, name: weight * pass_at(record, name, 1) + (1 - weight) * pass_at(record, name, 64)


# ---- over seeds and problems -----------------------------------------------------------------------------------------


def rows(runs: Runs, name: str, measure: Callable[[Record, str], np.ndarray]) -> dict[int, np.ndarray]:
    """Seed -> the values of an evaluation, for the runs that have it."""
    return {seed: measure(record, name) for seed, record in runs.items() if name in record["evaluations"]}


def level(runs: Runs, name: str, k: int) -> Estimate:
    return comparison.level(rows(runs, name, lambda record, at: pass_at(record, at, k)), (0, 1))


def difference(more: dict[int, np.ndarray], less: dict[int, np.ndarray], confidence: float = 0.95) -> Estimate:
    """`more` - `less`, a share for each problem, paired over shared seeds and over the first problems, which both
    have."""
    size = min(map(len, (*more.values(), *less.values())), default=0)
    mine, theirs = ({seed: row[:size] for seed, row in side.items()} for side in (more, less))
    return comparison.difference(mine, theirs, (0, 1), confidence)


def gap(results: Results, label: str, name: str, k: int, other: str = BASELINE) -> Estimate:
    """Pass@k of a variant minus another's, by default clip-higher's, both in the evaluation `name`."""
    mine, theirs = (rows(results.of(x), name, lambda r, at: pass_at(r, at, k)) for x in (label, other))
    return difference(mine, theirs)


def finals(results: Results) -> list[str]:
    """The evaluations of a last checkpoint, by falling temperature."""
    return [f"final {t:g}" for t in results.plan.evaluation.temperatures]


HALVES = slice(0, None, 2), slice(1, None, 2)
"""The even and the odd problems: a choice on one half is reported on the other, and the reverse."""


class Crossed(NamedTuple):
    """The best of several candidates, for each half of the problems chosen on the other, but on the same seeds."""

    chosen: tuple[Candidate, Candidate]
    """For the even problems and for the odd ones."""
    values: dict[int, np.ndarray]
    """Seed -> what the chosen ones have, float64 [problems]."""

    def __str__(self) -> str:
        return " and ".join(dict.fromkeys(map(str, self.chosen)))


def crossed(
    results: Results,
    candidates: Sequence[Candidate],
    measure: Callable[[Record, str], np.ndarray],
    seeds: Sequence[int],
) -> Crossed | None:
    """The best of `candidates`, all of which have these seeds; None without candidates or seeds."""
    if not candidates or not seeds:
        return None
    tables = {c: [measure(results.of(c.label)[seed], c.name) for seed in seeds] for c in candidates}

    def best(half: slice) -> Candidate:
        return max(candidates, key=lambda c: np.mean([row[half].mean() for row in tables[c]]))

    even, odd = best(HALVES[1]), best(HALVES[0])
    values = {}
    for seed, even_values, odd_values in zip(seeds, tables[even], tables[odd], strict=True):
        size = min(len(even_values), len(odd_values))  # a checkpoint is evaluated on fewer problems than the last one
        values[seed] = even_values[:size].copy()
        values[seed][HALVES[1]] = odd_values[:size][HALVES[1]]
    return Crossed((even, odd), values)


# ---- the front -------------------------------------------------------------------------------------------------------


def free_candidates(results: Results) -> list[Candidate]:
    """The free baselines: the untrained policy, clip-higher, its checkpoints, rates and KL term.

    Each is at every temperature and checkpoint that all of its seeds have. A run that was stopped saved one checkpoint
    more, which the other seeds do not have.
    """
    candidates = []
    for label in (UNTRAINED, *results.free):
        names = [[*record["evaluations"]] for record in results.of(label).values()]
        shared = [name for name in (names[0] if names else []) if all(name in evaluated for evaluated in names)]
        candidates += [Candidate(label, name) for name in shared if name.split()[0] not in ("large", "solutions")]
    return candidates


def above_front(results: Results, label: str, weight: float) -> tuple[Crossed, Crossed, Estimate] | None:
    """The variant at its best temperature against the best free baseline, by `score`: both, and the difference.

    Only seeds that the variant and all free baselines have count: a further seed would be a further chance to be the
    best. A method is above the front for this weight if the whole interval is above 0. Otherwise a lower rate, a higher
    temperature, fewer steps or a KL term does as well.
    """
    free = free_candidates(results)
    seeds = sorted(set(results.of(label)).intersection(*(results.of(c.label) for c in free)))
    variant = [Candidate(label, name) for name in finals(results)]
    mine, theirs = (crossed(results, candidates, score(weight), seeds) for candidates in (variant, free))
    if mine is None or theirs is None:
        return None
    return mine, theirs, difference(mine.values, theirs.values)


# ---- over the training, and the size of a study ----------------------------------------------------------------------


def late_gain(results: Results, temperature: str) -> Estimate:
    """The gain of clip-higher's Pass@1 in the last quarter of its steps, over the checkpoint at its beginning."""
    steps = results.plan.regime(results.part.testbed)["train"]["steps"]
    names = (f"final {temperature}", f"{3 * steps // 4} {temperature}")
    after, before = (rows(results.baseline, name, lambda r, at: pass_at(r, at, 1)) for name in names)
    return difference(after, before)


def smallest_difference(results: Results, name: str, k: int) -> float:
    """The true difference of Pass@k from clip-higher that is detected with a power of 80 %, at the observed widths of
    the intervals. It is the median over the variants that have all seeds; NaN without one."""
    complete = [x for x in results.runs if x != BASELINE and results.runs[x].keys() >= {*results.part.seeds}]
    detectable = [gap(results, label, name, k).detectable for label in complete]
    return float(np.nanmedian(detectable)) if np.isfinite(detectable).any() else np.nan
