"""From the records of many runs to numbers: what a measure is in each run, and how two variants differ over seeds and problems."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from diver.stats import Estimate, Spread, over_runs, pass_at_k, two_level_interval
from diver_paper.catalogue import Experiment
from diver_paper.claims import INITIAL, Claim
from diver_paper.store import Job, find
from diver_paper.sweep import Places

Record = Mapping[str, Any]
TAIL = 0.25  # the share of the last steps over which a training metric is a mean


class Study(NamedTuple):
    """The finished runs of an experiment: variant -> seed -> record; the untrained policy is a variant with one seed."""

    experiment: Experiment
    runs: Mapping[str, Mapping[int, Record]]
    seeds: int = 1
    """How many are meant."""

    def paired(self, variants: Collection[str]) -> list[dict[str, Record]]:
        """The runs of these variants, seed by seed that all have; the untrained policy's only one goes with every seed."""
        seeds = set.intersection(*(set(self.runs.get(v, {})) for v in variants if v != INITIAL))
        if INITIAL in variants and INITIAL not in self.runs:
            return []
        return [{v: self.runs[v][0 if v == INITIAL else seed] for v in variants} for seed in sorted(seeds)]


def jobs(experiment: Experiment, seeds: int) -> list[tuple[str, Job]]:
    """(variant, run): the untrained policy, then seed by seed, so that a study that is stopped has whole seeds."""
    initial = [(INITIAL, Job({}, 0, trained=False))] if experiment.variants else []
    return initial + [
        (variant, Job(changes, seed)) for seed in range(seeds) for variant, changes in experiment.variants.items()
    ]


def study(experiment: Experiment, seeds: int, regime: Mapping[str, Any], places: Places) -> Study:
    """What is there of the first `seeds` seeds of the experiment; variants without a run are left out."""
    found: dict[str, dict[int, Record]] = {}
    for variant, job in jobs(experiment, seeds):
        if (record := find(places.records, job, regime)) is not None:
            found.setdefault(variant, {})[job.seed] = record
    return Study(experiment, found, seeds)


def values(record: Record, measure: str) -> np.ndarray:
    """A measure of one run, float64 [problems], or [1] where it is of the training as a whole; [0] where it has none.

    pass@k, distinct@k and held-out/... come from the last evaluation, kept/... from the responses that the record keeps
    (`kept.with_measures`). A training metric such as policy/entropy is the mean over the last quarter of the steps. "a - b"
    is a difference of two.
    """
    first, minus, second = measure.partition(" - ")
    if minus:
        more, less = values(record, first), values(record, second)
        return more - less if len(more) == len(less) else np.empty(0)
    if measure.startswith("kept/"):
        return np.array(record.get("kept", {}).get(measure.removeprefix("kept/"), []))
    if measure.startswith("held-out/"):
        return np.array(last_evaluation(record).get("diversity", {}).get(measure.removeprefix("held-out/"), []))
    kind, _, k = measure.partition("@")
    if kind in ("pass", "distinct"):
        return of_samples(last_evaluation(record), kind, int(k))
    column = record["metrics"].get(measure, [])
    tail = [v for v in column[-max(1, round(TAIL * len(column))) :] if v is not None]
    return np.array([np.mean(tail)]) if tail else np.empty(0)


def last_evaluation(record: Record) -> Mapping[str, Any]:
    """That of the trained policy, or of the untrained one where nothing was trained."""
    return list(record["evaluations"].values())[-1]


def of_samples(evaluation: Mapping[str, Any], kind: str, k: int) -> np.ndarray:
    """pass@k or distinct@k of an evaluation that tells every solution, float64 [problems]; [0] for fewer than k samples."""
    n, solutions = evaluation["samples"], evaluation["solutions"]
    if k > n:
        return np.empty(0)
    if kind == "pass":
        return pass_at_k(n, np.array([sum(counts) for counts in solutions], dtype=np.int64), k)
    problem = np.repeat(np.arange(len(solutions)), [len(counts) for counts in solutions])
    each = np.array([count for counts in solutions for count in counts], dtype=np.int64)
    return np.bincount(
        problem, weights=pass_at_k(n, each, k), minlength=len(solutions)
    )  # as distinct_at_k, of all at once


def level(study: Study, variant: str, measure: str) -> Estimate:
    """The mean of a measure over seeds and problems, with its interval; NaN without a run."""
    found = [v for r in study.runs.get(variant, {}).values() if len(v := values(r, measure))]
    return two_level_interval(np.array(found)) if found else Estimate(np.nan, np.nan, np.nan)


def over_seeds(study: Study, variant: str, measure: str) -> Spread:
    """The mean and standard deviation over seeds of a measure's mean over problems; NaN without a run."""
    found = [v.mean() for r in study.runs.get(variant, {}).values() if len(v := values(r, measure))]
    return over_runs(np.array(found)) if found else Spread(np.nan, np.nan)


def difference(study: Study, more: str, less: str, measure: str) -> Estimate:
    """`more` minus `less`, paired over the seeds that both have and over problems; NaN where there are none."""
    return contrast(study, {more: 1, less: -1}, measure)


def contrast(study: Study, signs: Mapping[str, int], measure: str) -> Estimate:
    """The sum of a measure of several variants, each with its sign, paired as in `difference`."""
    found = [
        [sign * values(records[variant], measure) for variant, sign in signs.items()] for records in study.paired(signs)
    ]
    found = [terms for terms in found if all(map(len, terms))]
    if not found:
        return Estimate(np.nan, np.nan, np.nan)
    return two_level_interval(np.array([sum(terms) for terms in found]))


HOLDS, FAILS, UNSEEN = "holds", "does not hold", "cannot be seen"
NO_ROOM, OPEN, NOT_RUN = "no room for it", "open, on one seed", "not run"
OUTCOMES = (HOLDS, FAILS, UNSEEN, NO_ROOM, OPEN, NOT_RUN)


def verdict(study: Study, claim: Claim) -> tuple[str, Estimate]:
    """Whether a claim of the paper holds here, and its difference.

    It holds where the whole interval is above 0, or within the claim's bounds; it does not where the whole interval is
    outside; between the two it cannot be seen. One seed settles nothing, whatever its interval over problems. There is no
    room for more where the variant that is to be surpassed already solves every problem.
    """
    signs = {claim.more: 1, claim.less: -1}
    if claim.beyond:
        signs |= {claim.beyond[0]: -1, claim.beyond[1]: 1}
    found = contrast(study, signs, claim.measure)
    if np.isnan(found.mean):
        return NOT_RUN, found
    if len(study.paired(signs)) < 2:
        return OPEN, found
    if _solves_all(study, claim):
        return NO_ROOM, found
    low, high = (0.0, np.inf) if claim.within is None else (-claim.within, claim.within)
    if low < found.low and found.high < high:
        return HOLDS, found
    return (FAILS if found.high < low or high < found.low else UNSEEN), found


def _solves_all(study: Study, claim: Claim) -> bool:
    plain = claim.measure.startswith("pass@") and " - " not in claim.measure
    return plain and not (claim.beyond or claim.within) and level(study, claim.less, claim.measure).mean >= 1.0
