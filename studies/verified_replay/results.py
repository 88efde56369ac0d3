"""The finished runs of the study, and their numbers over seeds and problems."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from diver.core.statistics import Estimate
from method_comparison.results import Runs, difference, pass_at, rows
from verified_replay.study import BASELINE, REPLAY, Study

KS = (1, 4, 16, 64)
TITLES = {"countdown": "Countdown", "maze": "Mazes"}
HELD_OUT = "held-out 0.6"
"""The evaluation on which the study is decided."""
SEEDS = 3  # the fewest by which a setting is judged


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


def points(estimate: Estimate) -> str:
    return estimate.text(100, sign="+")
