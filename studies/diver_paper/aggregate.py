"""From the records of many runs to numbers: a measure of each run, differences over seeds and problems, the status of
claims."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from diver.core.statistics import Estimate, bounds_of, pass_at_k
from diver.evaluate import comparison
from diver_paper.experiments import INITIAL, Claim, Experiment
from diver_paper.runs import Record

TAIL = 0.25  # the fraction of the last steps over which a training metric is a mean


class Study(NamedTuple):
    """The finished runs of an experiment: variant -> seed -> record; the untrained policy is a variant with one
    seed."""

    experiment: Experiment
    runs: Mapping[str, Mapping[int, Record]]
    seeds: int = 1
    """How many are planned."""

    def paired(self, variants: Collection[str]) -> list[dict[str, Record]]:
        """The runs of these variants, by the seeds that all have; the untrained policy's only run goes with every
        seed."""
        seeds = set.intersection(*(set(self.runs.get(v, {})) for v in variants if v != INITIAL))
        if INITIAL in variants and INITIAL not in self.runs:
            return []
        return [{v: self.runs[v][0 if v == INITIAL else seed] for v in variants} for seed in sorted(seeds)]


# ---- measures of one run ---------------------------------------------------------------------------------------------


def values(record: Record, measure: str) -> np.ndarray:
    """A measure of one run, float64 [problems], or [1] for a metric of the training; [0] if the run does not have it.

    pass@k, distinct@k and held-out/... come from the last evaluation, saved/... from the responses that the record
    keeps (`saved_responses.with_measures`). A training metric such as policy/entropy is the mean over the last quarter
    of the steps. "a - b" is a difference of two, "a at 0.6" of samples at that temperature.
    """
    first, minus, second = measure.partition(" - ")
    if minus:
        more, less = values(record, first), values(record, second)
        return more - less if len(more) == len(less) else np.empty(0)
    if measure.startswith("saved/"):
        return np.array(record.get("saved", {}).get(measure.removeprefix("saved/"), []))
    if measure.startswith("held-out/"):
        return np.array(last_evaluation(record).get("diversity", {}).get(measure.removeprefix("held-out/"), []))
    kind, _, k = measure.partition("@")
    if kind in ("pass", "distinct"):
        k, _, temperature = k.partition(" at ")
        evaluation = record.get("at", {}).get(temperature) if temperature else last_evaluation(record)
        return of_samples(evaluation, kind, int(k)) if evaluation else np.empty(0)
    column = record["metrics"].get(measure, [])
    tail = [v for v in column[-max(1, round(TAIL * len(column))) :] if v is not None]
    return np.array([np.mean(tail)]) if tail else np.empty(0)


def last_evaluation(record: Record) -> Mapping[str, Any]:
    """The evaluation of the trained policy, or of the untrained one if nothing was trained."""
    return list(record["evaluations"].values())[-1]


def of_samples(evaluation: Mapping[str, Any], kind: str, k: int) -> np.ndarray:
    """pass@k or distinct@k of an evaluation that lists every solution, float64 [problems]; [0] for fewer than k
    samples."""
    n, solutions = evaluation["samples"], evaluation["solutions"]
    if k > n:
        return np.empty(0)
    if kind == "pass":
        return pass_at_k(n, np.array([sum(counts) for counts in solutions], dtype=np.int64), k)
    problem = np.repeat(np.arange(len(solutions)), [len(counts) for counts in solutions])
    per_solution = pass_at_k(n, np.array([count for counts in solutions for count in counts], dtype=np.int64), k)
    return np.bincount(problem, weights=per_solution, minlength=len(solutions))  # distinct_at_k of all problems at once


# ---- over seeds and problems -----------------------------------------------------------------------------------------


def level(study: Study, variant: str, measure: str) -> Estimate:
    """The mean of a measure over seeds and problems, with its interval; NaN without a run."""
    return comparison.level(_of_variant(study, variant, measure), _bounds(measure))


def _bounds(measure: str) -> tuple[float, float] | None:
    return None if " - " in measure else bounds_of(measure.partition(" at ")[0])


def over_seeds(study: Study, variant: str, measure: str) -> tuple[float, float]:
    """The mean and standard deviation over seeds of a measure's mean over problems; NaN without a run, or with one."""
    means = [row.mean() for row in _of_variant(study, variant, measure).values()]
    return float(np.mean(means)) if means else np.nan, float(np.std(means, ddof=1)) if len(means) > 1 else np.nan


def _of_variant(study: Study, variant: str, measure: str) -> dict[int, np.ndarray]:
    by_seed = {seed: values(record, measure) for seed, record in study.runs.get(variant, {}).items()}
    return {seed: row for seed, row in by_seed.items() if len(row)}


def difference(study: Study, more: str, less: str, measure: str) -> Estimate:
    """`more` minus `less`, paired over the seeds that both have and over problems; NaN where there are none."""
    return contrast(study, [more], [less], measure)


def contrast(study: Study, more: Sequence[str], less: Sequence[str], measure: str) -> Estimate:
    """The sum of a measure over the variants `more` minus that over as many `less`, paired as in `difference`."""
    sums: tuple[dict[int, np.ndarray], dict[int, np.ndarray]] = ({}, {})
    for number, run in enumerate(study.paired([*more, *less])):
        sides = [[values(run[variant], measure) for variant in side] for side in (more, less)]
        if all(len(row) for side in sides for row in side):
            for total, side in zip(sums, sides, strict=True):
                total[number] = np.sum(side, axis=0)
    bounds = _bounds(measure)
    return comparison.difference(*sums, bounds and (len(more) * bounds[0], len(more) * bounds[1]))


# ---- claims ----------------------------------------------------------------------------------------------------------

SUPPORTED, CONTRADICTED, INCONCLUSIVE = "supported", "contradicted", "inconclusive"
AT_CEILING, ONE_SEED, NOT_RUN = "at ceiling", "one seed", "not run"
STATUSES = (SUPPORTED, CONTRADICTED, INCONCLUSIVE, AT_CEILING, ONE_SEED, NOT_RUN)


def claim_status(study: Study, claim: Claim) -> tuple[str, Estimate]:
    """One of STATUSES for a claim of the paper, and its difference here.

    Supported if the whole interval is above 0, or within the claim's bounds; contradicted if the whole interval is
    outside; inconclusive otherwise. One seed decides nothing, whatever its interval over problems. At ceiling if the
    variant to be surpassed already solves every problem.
    """
    more, less = [claim.more], [claim.less]
    if claim.beyond:
        more, less = [claim.more, claim.beyond[1]], [claim.less, claim.beyond[0]]
    gap = contrast(study, more, less, claim.measure)
    if np.isnan(gap.mean):
        return NOT_RUN, gap
    if len(study.paired([*more, *less])) < 2:
        return ONE_SEED, gap
    if _at_ceiling(study, claim):
        return AT_CEILING, gap
    low, high = (0.0, np.inf) if claim.within is None else (-claim.within, claim.within)
    if low < gap.low and gap.high < high:
        return SUPPORTED, gap
    return (CONTRADICTED if gap.high < low or high < gap.low else INCONCLUSIVE), gap


def _at_ceiling(study: Study, claim: Claim) -> bool:
    plain = claim.measure.startswith("pass@") and " - " not in claim.measure
    return plain and not (claim.beyond or claim.within) and level(study, claim.less, claim.measure).mean >= 1.0
