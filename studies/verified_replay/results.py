"""The finished runs of the study, and their numbers over seeds and problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from diver.core.statistics import Estimate
from method_comparison.results import UNTRAINED, Runs, difference, pass_at, rows
from verified_replay.study import BASELINE, REPLAY, Study

KS = (1, 4, 16, 64)
TITLES = {"countdown": "Countdown", "maze": "Mazes"}
HELD_OUT = "held-out 0.6"
"""The evaluation on which the study is decided."""
SEEDS = 3  # the fewest by which a setting is judged
DECISION, QUESTIONS = 1 - 0.05 / 12, 1 - 0.05 / 10
"""The levels of the protocol: six settings on two testbeds; five differences at two values of k."""


class Finished:
    """The runs of a study that have a record, the tuning aside.

    The final runs are made seed by seed. Once three seeds have all settings of a testbed, a seed that lacks some waits.
    """

    def __init__(self, study: Study) -> None:
        self.labels = study.labels
        self.bases = {REPLAY: BASELINE, **study.config["combined"]}
        """Setting with replay -> the setting that it is without."""
        self._runs: dict[tuple[str, str, str], dict[int, Mapping]] = {}
        for run in study.planned():
            if run.stage != "tuning" and (record := study.record(run)) is not None:
                self._runs.setdefault((run.stage, run.testbed, run.label), {})[run.job.seed] = record
        for testbed in TITLES:
            of = {label: self.runs(testbed, label) for label in self.labels}
            complete = set.intersection(*(set(runs) for runs in of.values()))
            if len(complete) >= SEEDS:
                for label, runs in of.items():
                    self._runs["final", testbed, label] = {seed: runs[seed] for seed in sorted(complete)}

    def runs(self, testbed: str, label: str, stage: str = "final") -> Runs:
        """Seed -> record."""
        return self._runs.get((stage, testbed, label), {})

    def untrained(self, testbed: str, seeds: Iterable[int]) -> Runs:
        """The record of the policy before training, beside each seed; empty where it has none."""
        return {seed: record for record in self.runs(testbed, UNTRAINED, UNTRAINED).values() for seed in seeds}

    def labels_of(self, stage: str, testbed: str) -> list[str]:
        return [label for s, t, label in self._runs if (s, t) == (stage, testbed)]


def gap(more: Runs, less: Runs, name: str, k: int, level: float = 0.95) -> Estimate:
    """`more` minus `less` at Pass@k, paired over their shared seeds and problems."""
    mine, theirs = (rows(of, name, lambda record, at: pass_at(record, at, k)) for of in (more, less))
    return difference(mine, theirs, level)


def mean(runs: Runs, name: str, k: int) -> float:
    """Pass@k over all seeds and problems; NaN without a run."""
    found = [row.mean() for row in rows(runs, name, lambda record, at: pass_at(record, at, k)).values()]
    return float(np.mean(found)) if found else np.nan


def best(runs: Mapping[str, Runs], k: int) -> str:
    """The setting with the highest mean Pass@k on held-out problems."""
    return max(runs, key=lambda label: mean(runs[label], HELD_OUT, k))


def times(more: Runs, less: Runs) -> str:
    """The CPU time of the trainings of `more` over those of `less`, paired by seed: the lowest and the highest.

    A pair counts if one machine made both trainings and neither was resumed.
    """
    ratios = []
    for seed in sorted(more.keys() & less.keys()):
        mine, theirs = more[seed]["cpu_seconds"], less[seed]["cpu_seconds"]
        speeds = mine["evaluate"], theirs["evaluate"]
        # Two machines made the runs, one about twice as fast as the other. Evaluations have one size, and the CPU time
        # of two of them differs by at most a factor of 1.3 on one machine and by at least 1.7 on different ones.
        if mine["train"] and theirs["train"] and max(speeds) < 1.5 * min(speeds):
            ratios.append(mine["train"] / theirs["train"])
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "–"


def points(estimate: Estimate) -> str:
    return estimate.text(100, sign="+")
