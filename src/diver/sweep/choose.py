"""The best pair of a setting for each k on the selection problems, and its gain on the held-out problems.

No function reads a held-out count before the pairs are chosen: `Policy.best` reads the selection problems alone.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from diver.core.statistics import Estimate, pass_at_k
from diver.evaluate.comparison import Values, difference
from diver.evaluate.front import Pair
from diver.sweep.plan import HELD_OUT, SELECTION, UNTRAINED, Plan
from diver.sweep.records import Record

BOUNDS = (0.0, 1.0)
LEVEL = 0.95
SAME = Estimate(0.0, 0.0, 0.0)
"""The difference of a policy from itself."""


class Policy(NamedTuple):
    """A setting, or the untrained policy, with the records of its runs by seed."""

    runs: Mapping[int, Record]
    choosing: Sequence[int]
    """The seeds that choose pairs."""

    def values(self, part: str, pair: Pair, k: int) -> Values:
        """Seed -> Pass@k of each problem, of the runs that were sampled at this pair."""
        return {
            seed: pass_at_k(*scored(run["fronts"][part][key(pair)], run["samples"]), k)
            for seed, run in self.runs.items()
            if key(pair) in run["fronts"][part]
        }

    def pairs(self, part: str) -> list[Pair]:
        """The pairs at which the first run was sampled, by rising alpha and temperature."""
        run = next(iter(self.runs.values()), None)
        return sorted(Pair(*map(float, name.split())) for name in run["fronts"][part]) if run else []

    def best(self, k: int) -> tuple[Pair, float] | None:
        """The pair with the highest mean Pass@k over the selection problems and the choosing seeds, and this mean.

        Among equal pairs, the one with lower alpha, then lower temperature: it is nearer to no training.
        None while a choosing seed has no record.
        """
        if not set(self.choosing) <= self.runs.keys():
            return None
        means = {
            pair: mean({seed: by_seed[seed] for seed in self.choosing})
            for pair in self.pairs(SELECTION)
            if (by_seed := self.values(SELECTION, pair, k)).keys() >= {*self.choosing}
        }
        top = max(means.values(), default=math.nan)
        # Means that differ by rounding alone are equal.
        return next(((pair, mean) for pair, mean in means.items() if mean >= top - 1e-9), None)


def key(pair: Pair) -> str:
    """The name of a pair in a record."""
    return f"{pair.alpha:.12g} {pair.temperature:.12g}"


def mean(values: Values) -> float:
    """The mean over seeds and problems, those with fewer than k scored samples left out; NaN without any."""
    return float(np.nanmean([*values.values()])) if values else math.nan


def scored(counts: Sequence[Any], samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Scored and correct samples of each problem, from the counts of a record."""
    pairs = [(c, samples) if isinstance(c, int) else c for c in counts]
    return np.array([n for _, n in pairs]), np.array([c for c, _ in pairs])


def policies(plan: Plan, records: Mapping[str, Record]) -> dict[str, Policy]:
    """The untrained policy and the settings that have a record, by label.

    The untrained policy is among the pairs of every setting, as alpha 0. It has the same samples for every seed. All
    settings have the pairs of the plan, even if a record has further pairs of an earlier plan.
    """
    base = records.get(f"{plan.prefix}{UNTRAINED}")
    seeds = sorted({seed for setting in plan.settings for seed in setting.seeds})
    by_label = {UNTRAINED: Policy(dict.fromkeys(seeds, _of_grid(plan, base, base)), plan.seeds)} if base else {}
    for setting in plan.settings:
        runs = {s: r for s in setting.seeds if (r := records.get(f"{plan.prefix}{setting.label}/seed_{s}"))}
        if runs:
            on_grid = {s: _of_grid(plan, run, base or run) for s, run in runs.items()}
            by_label[setting.label] = Policy(on_grid, plan.seeds)
    return by_label


def _of_grid(plan: Plan, run: Record, base: Record) -> Record:
    """A record with the counts of the untrained policy as those of alpha 0, and the selection counts of the plan."""
    grid = {key(Pair(alpha, t)) for alpha in (0.0, *plan.alphas) for t in plan.temperatures}
    fronts = {part: {**base["fronts"][part], **counts_by_pair} for part, counts_by_pair in run["fronts"].items()}
    fronts[SELECTION] = {name: counts for name, counts in fronts[SELECTION].items() if name in grid}
    return {**run, "fronts": fronts}


def pairs_of(plan: Plan, records: Mapping[str, Record], label: str) -> list[Pair]:
    """The pairs at which a setting is judged: its best for each k, and the trained policy at the recipe's temperature.
    Empty before they are chosen."""
    policy = policies(plan, records).get(label)
    best = [policy.best(k) if policy else None for k in plan.ks]
    if None in best:
        return []
    reference = Pair(1.0, plan.base_recipe.evaluate.temperature)
    return sorted({pair for pair, _ in filter(None, best)} | {reference})


class Verdict(NamedTuple):
    """For one k: the best setting, its pair, and its gain on the held-out problems.

    Attributes:
        level: Pass@k of the setting at its pair, on the held-out problems.
        gain: the difference of the setting from the baseline, each at its best pair. The interval is corrected for the
            number of settings, since the setting is the best of them.
        over_untrained: the difference of the setting from the untrained policy at its best temperature, also corrected.
        baseline_over_untrained: the difference of the baseline from the untrained policy, at 95 %.
        seeds: the number of seeds that would make `gain` significant if its mean and spread stayed. None if it is
            significant, or if it is 0.
    """

    k: int
    label: str
    pair: Pair
    level: float
    gain: Estimate
    over_untrained: Estimate
    baseline: Pair
    baseline_over_untrained: Estimate
    seeds: int | None

    @property
    def advice(self) -> str:
        """What to turn on: the setting, the baseline, or nothing."""
        if self.gain.low > 0 and self.over_untrained.low > 0 and self.pair.alpha:
            return self.label
        return "the baseline" if self.baseline_over_untrained.low > 0 and self.baseline.alpha else UNTRAINED


def verdict(plan: Plan, by_label: Mapping[str, Policy], k: int) -> Verdict | None:
    """The verdict for k; None before the baseline and another setting have all records."""
    best = {label: chosen for label, policy in by_label.items() if (chosen := policy.best(k))}
    candidates = [label for label in best if label not in (UNTRAINED, plan.baseline)]
    if not candidates or not {UNTRAINED, plan.baseline} <= best.keys():
        return None
    label = max(candidates, key=lambda name: best[name][1])
    level = 1 - (1 - LEVEL) / (len(plan.settings) - 1)  # Bonferroni, also over the settings without a run yet

    def gained(more: str, less: str, level: float) -> Estimate:
        return gain_at(by_label, more, less, (best[more][0], best[less][0]), k, level)

    gain, judged = gained(label, plan.baseline, level), by_label[label].values(HELD_OUT, best[label][0], k)
    return Verdict(
        k,
        label,
        best[label][0],
        mean(judged),
        gain,
        gained(label, UNTRAINED, level),
        best[plan.baseline][0],
        gained(plan.baseline, UNTRAINED, LEVEL),
        seeds_needed(gain, len(judged)),
    )


def seeds_needed(gain: Estimate, seeds: int) -> int | None:
    """About how many seeds would exclude 0, if the half-width falls with the square root of their number. None if 0 is
    excluded, or if the number is unknown."""
    half = (gain.high - gain.low) / 2
    if not half > 0 or gain.low > 0 or gain.high < 0 or not gain.mean:
        return None
    return math.ceil(seeds * (half / abs(gain.mean)) ** 2)


def gain_at(
    by_label: Mapping[str, Policy], more: str, less: str, pairs: tuple[Pair, Pair], k: int, level: float = LEVEL
) -> Estimate:
    """`more` minus `less` on the held-out problems, each at a pair; unknown if one was not sampled at its pair.

    `SAME` if both are the untrained policy at one temperature, which is alpha 0 of every setting.
    """
    if pairs[0] == pairs[1] and not pairs[0].alpha:
        return SAME
    mine, theirs = by_label[more].values(HELD_OUT, pairs[0], k), by_label[less].values(HELD_OUT, pairs[1], k)
    return difference(mine, theirs, BOUNDS, level)


def cost(plan: Plan, by_label: Mapping[str, Policy], label: str) -> float:
    """The CPU seconds of a setting over those of the baseline, the mean ratio over the seeds of both; NaN if unknown.

    Seeds are paired, since runs of other seeds may have been made on another machine.
    """
    mine, base = by_label[label].runs, by_label[plan.baseline].runs if plan.baseline in by_label else {}
    ratios = [
        mine[seed]["cpu_seconds"] / base[seed]["cpu_seconds"]
        for seed in mine.keys() & base.keys()
        if mine[seed].get("cpu_seconds") and base[seed].get("cpu_seconds")
    ]
    return float(np.mean(ratios)) if ratios else math.nan
