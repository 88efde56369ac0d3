"""From the records of the comparison to numbers: curves over temperatures, paired differences, the front.

Every estimate is over seeds and problems, [seeds, problems], by `diver.stats.interval`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from diver.stats import Estimate, interval, pass_at_k
from diver_paper.aggregate import UNKNOWN, of_samples
from method_comparison.plan import BASELINE, Plan

Record = Mapping[str, Any]
Runs = Mapping[int, Record]
WEIGHTS = (1.0, 0.75, 0.5, 0.25, 0.0)  # of Pass@1; the rest is that of Pass@64
UNTRAINED = "untrained"


class Part(NamedTuple):
    """Of the page: the stages that share a testbed and seeds."""

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
    tried: Mapping[str, Mapping[float, np.ndarray]]
    """Label -> learning rate -> the outcomes by which it is chosen."""

    @property
    def title(self) -> str:
        seeds = self.part.seeds
        return (
            f"{self.plan.testbeds[self.part.testbed].title}, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        )

    @property
    def baseline(self) -> Runs:
        return self.runs.get(BASELINE, {})

    def of(self, label: str) -> Runs:
        """The runs of a variant; the untrained policy has none, and stands beside each seed."""
        if label == UNTRAINED:
            return dict.fromkeys(self.part.seeds, self.untrained) if self.untrained else {}
        return self.runs.get(label, {})

    @property
    def free(self) -> list[str]:
        """The variants that cost nothing beside clip-higher."""
        return [label for label in self.runs if label in self.plan.variants and self.plan.variants[label].baseline]


class Candidate(NamedTuple):
    """A policy and a temperature: the evaluation `name` of the runs of `label`."""

    label: str
    name: str

    def __str__(self) -> str:
        at, temperature = self.name.split()
        return f"{self.label}{f' after {at} steps' if at.isdigit() else ''} at {temperature}"


# ---- one evaluation ------------------------------------------------------------------------------------------------------


def pass_at(record: Record, name: str, k: int) -> np.ndarray:
    """Pass@k of each problem in an evaluation, float64 [problems]; at temperature 0 that of its one sample, for every k."""
    evaluation = record["evaluations"][name]
    n = evaluation["samples"]
    return pass_at_k(n, np.array(evaluation["c"], dtype=np.int64), min(k, n))


def distinct(record: Record, name: str) -> np.ndarray:
    """The distinct correct solutions among all samples of each problem, float64 [problems]."""
    return np.array(record["evaluations"][name]["distinct"], dtype=float)


def score(weight: float) -> Callable[[Record, str], np.ndarray]:
    """weight Pass@1 + (1 - weight) Pass@64 of each problem."""
    return lambda record, name: weight * pass_at(record, name, 1) + (1 - weight) * pass_at(record, name, 64)


# ---- over seeds and problems -----------------------------------------------------------------------------------------------


def rows(runs: Runs, name: str, measure: Callable[[Record, str], np.ndarray]) -> dict[int, np.ndarray]:
    """Seed -> the values of an evaluation, of the runs that have it."""
    return {seed: measure(record, name) for seed, record in runs.items() if name in record["evaluations"]}


def level(runs: Runs, name: str, k: int) -> Estimate:
    found = rows(runs, name, lambda record, at: pass_at(record, at, k))
    return interval(np.array(list(found.values())), (0, 1)) if found else UNKNOWN


def difference(
    more: dict[int, np.ndarray], less: dict[int, np.ndarray], part: slice = slice(None), bound: float = 1.0
) -> Estimate:
    """`more` - `less`, paired over the seeds of both and over the problems of `part`; within +-`bound`."""
    shared = sorted(more.keys() & less.keys())
    size = min([len(more[s]) for s in shared] + [len(less[s]) for s in shared], default=0)
    pairs = [(more[s][:size] - less[s][:size])[part] for s in shared]
    return interval(np.array(pairs), (-bound, bound)) if pairs else UNKNOWN


def from_baseline(results: Results, label: str, name: str, k: int) -> Estimate:
    """Pass@k of a variant minus clip-higher's, both in the evaluation `name`."""
    mine, theirs = (
        rows(runs, name, lambda r, at: pass_at(r, at, k)) for runs in (results.runs[label], results.baseline)
    )
    return difference(mine, theirs)


def finals(results: Results) -> list[str]:
    """The evaluations of a last checkpoint, by falling temperature."""
    return [f"final {t:g}" for t in results.plan.evaluation.temperatures]


CHOSEN_ON, REPORTED_ON = slice(0, None, 2), slice(1, None, 2)
"""The half of the problems on which a temperature is chosen, and the one on which the choice is reported."""


def best(
    results: Results, candidates: Sequence[Candidate], measure: Callable[[Record, str], np.ndarray]
) -> Candidate | None:
    """The candidate of the highest mean over seeds and the problems of one half; None without any."""
    means = {}
    for candidate in candidates:
        found = rows(results.of(candidate.label), candidate.name, measure)
        if found:
            means[candidate] = np.mean([values[CHOSEN_ON].mean() for values in found.values()])
    return max(means, key=lambda c: means[c]) if means else None


def at_best_temperature(results: Results, label: str, k: int) -> tuple[str, Estimate, Estimate]:
    """The best temperature of a variant for Pass@k, its Pass@k on the other problems, and that minus clip-higher's at its own."""

    def measure(record: Record, name: str) -> np.ndarray:
        return pass_at(record, name, k)

    mine, theirs = (best(results, [Candidate(x, n) for n in finals(results)], measure) for x in (label, BASELINE))
    if mine is None or theirs is None:
        return "", UNKNOWN, UNKNOWN
    values = rows(results.runs[label], mine.name, measure)
    reported = interval(np.array([v[REPORTED_ON] for v in values.values()]), (0, 1))
    return (
        mine.name.split()[1],
        reported,
        difference(values, rows(results.baseline, theirs.name, measure), REPORTED_ON),
    )


# ---- the front -------------------------------------------------------------------------------------------------------------


def free_candidates(results: Results) -> list[Candidate]:
    """Whatever costs nothing beside clip-higher: the untrained policy, its checkpoints, rates and KL term, each at every
    temperature that all of its seeds have: a run that was stopped saved a checkpoint more, and one seed is not the mean of them."""
    found = []
    for label in (UNTRAINED, *results.free):
        names = [[*record["evaluations"]] for record in results.of(label).values()]
        shared = [name for name in (names[0] if names else []) if all(name in of for of in names)]
        found += [Candidate(label, name) for name in shared if name.split()[0] not in ("large", "solutions")]
    return found


def above_front(results: Results, label: str, weight: float) -> tuple[Candidate, Candidate, Estimate] | None:
    """The variant at its best temperature against the best that is free, by `score`: both, and the difference.

    Both are chosen on one half of the problems and compared on the other. A method is above the front for this weight
    where the whole interval is above 0: slower, hotter, shorter or closer to the start is not more diverse.
    """
    measure = score(weight)
    mine = best(results, [Candidate(label, name) for name in finals(results)], measure)
    theirs = best(results, free_candidates(results), measure)
    if mine is None or theirs is None:
        return None
    sides = [rows(results.of(c.label), c.name, measure) for c in (mine, theirs)]
    return mine, theirs, difference(sides[0], sides[1], REPORTED_ON)


# ---- deeper than means -----------------------------------------------------------------------------------------------------


def gained_and_lost(results: Results, label: str) -> tuple[Estimate, Estimate]:
    """Shares of the problems: solved in 1,024 samples, but by the untrained policy not in as many; and the reverse."""
    if results.untrained is None:
        return UNKNOWN, UNKNOWN
    before = np.array(results.untrained["evaluations"]["large 1"]["c"]) > 0
    after = np.array([record["evaluations"]["large 1"]["c"] for record in results.runs[label].values()]) > 0
    return interval(after & ~before, (0, 1)), interval(before & ~after, (0, 1))


def gained_by_chance(untrained: Record) -> float:
    """Problems that one half of the untrained policy's 1,024 samples solves and the other does not, the mean over all halves."""
    evaluation = untrained["evaluations"]["large 1"]
    n, c = evaluation["samples"], np.array(evaluation["c"])
    return float((1 - pass_at_k(n, c, n // 2) - (c == 0)).sum())


def by_difficulty(results: Results, label: str, k: int, parts: int = 4) -> list[Estimate]:
    """Pass@k minus clip-higher's at temperature 1, in quarters of the problems by the untrained policy's Pass@1, hardest first."""
    if results.untrained is None:
        return []
    order = np.argsort(pass_at(results.untrained, "final 1", 1), kind="stable")
    mine, theirs = (
        rows(runs, "final 1", lambda record, name: pass_at(record, name, k))
        for runs in (results.runs[label], results.baseline)
    )
    shared = sorted(mine.keys() & theirs.keys())
    gaps = np.array([mine[seed] - theirs[seed] for seed in shared])
    return [interval(gaps[:, part], (-1, 1)) if shared else UNKNOWN for part in np.array_split(order, parts)]


def large(runs: Runs, kind: str, k: int) -> Estimate:
    """pass@k or distinct@k of the 1,024 samples at temperature 1."""
    found = np.array([of_samples(record["evaluations"]["large 1"], kind, k) for record in runs.values()])
    if not len(found):
        return UNKNOWN
    # Few problems have anything near k solutions: as a share of k, the interval would be that of a much rarer event.
    return interval(found, (0, 1)) if kind == "pass" else interval(found).within(0, k)


def large_difference(results: Results, label: str, k: int) -> Estimate:
    """Pass@k of the 1,024 samples at temperature 1 minus clip-higher's."""
    mine, theirs = (
        {seed: of_samples(record["evaluations"]["large 1"], "pass", k) for seed, record in runs.items()}
        for runs in (results.runs[label], results.baseline)
    )
    return difference(mine, theirs)


def kept(runs: Runs) -> tuple[float, float]:
    """Solutions sampled after the first checkpoint, and how many of them are sampled again after the last: means over seeds."""
    shared = [record["evaluations"]["solutions"]["shared"] for record in runs.values()]
    found = [(counts[0][0], counts[0][-1]) for counts in shared if len(counts) > 1]
    first, last = np.mean(found, axis=0) if found else (np.nan, np.nan)
    return float(first), float(last)


def late_gain(results: Results, temperature: str) -> Estimate:
    """What clip-higher's Pass@1 gains in the last quarter of its steps, by the checkpoint at its beginning."""
    steps = results.plan.regime(results.part.testbed)["train"]["steps"]
    names = (f"final {temperature}", f"{3 * steps // 4} {temperature}")
    after, before = (rows(results.baseline, name, lambda r, at: pass_at(r, at, 1)) for name in names)
    return difference(after, before)


def smallest_difference(results: Results, name: str, k: int) -> float:
    """What a difference of Pass@k from clip-higher must be to be detected with 80 %, its interval taken as it is; the median
    over the variants that have all seeds; NaN without."""
    whole = [x for x in results.runs if x != BASELINE and results.runs[x].keys() >= {*results.part.seeds}]
    found = [from_baseline(results, label, name, k).detectable for label in whole]
    return float(np.nanmedian(found)) if np.isfinite(found).any() else np.nan


def training(runs: Runs, metric: str) -> float:
    """The mean of a training metric over the last quarter of its curve, and over seeds."""
    columns = [record["metrics"].get(metric, []) for record in runs.values()]
    tails = [[v for v in c[-max(1, len(c) // 4) :] if v is not None] for c in columns]
    return float(np.mean([np.mean(tail) for tail in tails if tail])) if any(tails) else np.nan
