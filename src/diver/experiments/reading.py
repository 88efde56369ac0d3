"""From the records of many runs to numbers: what a measure is in each run, and how two variants differ over seeds and problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from diver.experiments.catalogue import Claim, Experiment
from diver.experiments.store import Job, find
from diver.experiments.sweep import Places
from diver.statistics import Estimate, distinct_at_k, pass_at_k, two_level_interval

Record = Mapping[str, Any]
INITIAL = "before training"
TAIL = 0.25  # the share of the last steps over which a training metric is a mean


class Study(NamedTuple):
    """The finished runs of an experiment: variant -> seed -> record; the untrained policy is a variant with one seed."""

    experiment: Experiment
    runs: Mapping[str, Mapping[int, Record]]

    @property
    def seeds(self) -> Mapping[str, list[int]]:
        return {variant: sorted(found) for variant, found in self.runs.items()}


def jobs(experiment: Experiment, seeds: int) -> list[tuple[str, Job]]:
    """(variant, run): the untrained policy, then seed by seed, so that a study that is stopped has whole seeds."""
    initial = [(INITIAL, Job({}, 0, trained=False))] if experiment.variants else []
    return initial + [
        (variant, Job(changes, seed)) for seed in range(seeds) for variant, changes in experiment.variants.items()
    ]


def study(experiment: Experiment, seeds: int, regime: Mapping[str, Any], places: Places) -> Study:
    """What is there of the experiment; variants without a run are left out."""
    found: dict[str, dict[int, Record]] = {}
    for variant, job in jobs(experiment, seeds):
        if (record := find(places.records, job, regime)) is not None:
            found.setdefault(variant, {})[job.seed] = record
    return Study(experiment, found)


def values(record: Record, measure: str) -> np.ndarray:
    """A measure of one run, float64 [problems], or [1] where it is of the training as a whole; [0] where it has none.

    pass@k and distinct@k come from the last evaluation. A training metric such as policy/entropy is the mean over the last
    quarter of the steps.
    """
    kind, _, k = measure.partition("@")
    if kind in ("pass", "distinct"):
        return of_samples(list(record["evaluations"].values())[-1], kind, int(k))
    column = record["metrics"].get(measure, [])
    tail = [v for v in column[-max(1, round(TAIL * len(column))) :] if v is not None]
    return np.array([np.mean(tail)]) if tail else np.empty(0)


def of_samples(evaluation: Mapping[str, Any], kind: str, k: int) -> np.ndarray:
    """pass@k or distinct@k of an evaluation that tells every solution, float64 [problems]; [0] for fewer than k samples."""
    n, solutions = evaluation["samples"], evaluation["solutions"]
    if k > n:
        return np.empty(0)
    if kind == "pass":
        return pass_at_k(n, np.array([sum(counts) for counts in solutions], dtype=np.int64), k)
    return np.array([distinct_at_k(n, counts, k) if counts else 0.0 for counts in solutions])


def level(study: Study, variant: str, measure: str) -> Estimate:
    """The mean of a measure over seeds and problems, with its interval; NaN without a run."""
    found = [v for r in study.runs.get(variant, {}).values() if len(v := values(r, measure))]
    return two_level_interval(np.array(found)) if found else Estimate(np.nan, np.nan, np.nan)


def difference(study: Study, more: str, less: str, measure: str) -> Estimate:
    """`more` minus `less`, paired over the seeds that both have and over problems; NaN where there are none."""
    mine, theirs = study.runs.get(more, {}), study.runs.get(less, {})
    pairs = [(values(mine[s], measure), values(theirs[s], measure)) for s in sorted(mine.keys() & theirs.keys())]
    pairs = [(a, b) for a, b in pairs if len(a) and len(b)]
    if not pairs:
        return Estimate(np.nan, np.nan, np.nan)
    return two_level_interval(np.array([a - b for a, b in pairs]))


def verdict(study: Study, claim: Claim) -> tuple[str, Estimate]:
    """Whether a claim of the paper holds here: its difference has an interval above 0, below 0, or on both sides of it.

    One seed settles nothing, whatever its interval over problems.
    """
    found = difference(study, claim.more, claim.less, claim.measure)
    if np.isnan(found.mean):
        return "not run", found
    if len(study.runs[claim.more].keys() & study.runs[claim.less].keys()) < 2:
        return "open, on one seed", found
    if np.isnan(found.low) or found.low <= 0 <= found.high:
        return "cannot be seen", found
    return ("holds" if found.low > 0 else "does not hold: the opposite does"), found
