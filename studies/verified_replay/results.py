"""The finished runs of the study, and their numbers over seeds and problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from diver.core.statistics import Estimate
from diver.evaluate.comparison import Values, difference
from diver.evaluate.front import Pair
from diver.sweep import choose
from diver.sweep.choose import BOUNDS, Policy, key
from diver_paper.runs import Runs
from method_comparison.results import UNTRAINED
from verified_replay.study import BASELINE, REPLAY, Study

KS = (1, 4, 16, 64)
TITLES = {"countdown": "Countdown", "maze": "Mazes"}
HELD_OUT = "held-out 0.6"
"""The evaluation on which the study is decided."""
SEEDS = 3  # minimum number of seeds to judge a setting
DECISION, QUESTIONS = 1 - 0.05 / 12, 1 - 0.05 / 10
"""The levels of the protocol: six settings on two testbeds; five differences at two values of k."""


class Finished:
    """The runs of a study that have a record, without the tuning.

    The final runs are made seed by seed. Once three seeds have all settings of a testbed, a seed that lacks some of
    them is left out.
    """

    def __init__(self, study: Study) -> None:
        self.labels = study.labels
        self.bases = {REPLAY: BASELINE, **study.config["combined"]}
        """Setting with replay -> the same setting without it."""
        self._runs: dict[tuple[str, str, str], dict[int, Mapping]] = {}
        for run, record in study.finished():
            if run.stage != "tuning":
                self._runs.setdefault((run.stage, run.testbed, run.label), {})[run.seed] = record
        for testbed in TITLES:
            by_label = {label: self.runs(testbed, label) for label in self.labels}
            complete = set.intersection(*(set(runs) for runs in by_label.values()))
            if len(complete) >= SEEDS:
                for label, runs in by_label.items():
                    self._runs["final", testbed, label] = {seed: runs[seed] for seed in sorted(complete)}

    def runs(self, testbed: str, label: str, stage: str = "final") -> Runs:
        """Seed -> record."""
        return self._runs.get((stage, testbed, label), {})

    def untrained(self, testbed: str, seeds: Iterable[int]) -> Runs:
        """The record of the policy before training, repeated for each seed; empty without a record."""
        return {seed: record for record in self.runs(testbed, UNTRAINED, UNTRAINED).values() for seed in seeds}

    def labels_of(self, stage: str, testbed: str) -> list[str]:
        return [label for s, t, label in self._runs if (s, t) == (stage, testbed)]


def values(runs: Runs, name: str, k: int) -> Values:
    """Seed -> Pass@k of each problem, for the runs that have the evaluation `name`, PROBLEMS TEMPERATURE.

    An evaluation is read as the front of a policy of `diver.sweep`, at the trained weights.
    """
    split, _, temperature = name.partition(" ")
    pair = Pair(1.0, float(temperature))
    results = {seed: record["evaluations"][name] for seed, record in runs.items() if name in record["evaluations"]}
    fronts = {seed: {"samples": e["samples"], "fronts": {split: {key(pair): e["c"]}}} for seed, e in results.items()}
    return Policy(fronts, ()).values(split, pair, k)


def gap(more: Runs, less: Runs, name: str, k: int, level: float = 0.95) -> Estimate:
    """`more` minus `less` at Pass@k, paired over their shared seeds and problems."""
    return difference(values(more, name, k), values(less, name, k), BOUNDS, level)


def mean(runs: Runs, name: str, k: int) -> float:
    """Pass@k over all seeds and problems; NaN without a run."""
    return choose.mean(values(runs, name, k))


def best(runs: Mapping[str, Runs], k: int) -> str:
    """The setting with the highest mean Pass@k on held-out problems."""
    return max(runs, key=lambda label: mean(runs[label], HELD_OUT, k))


def times(more: Runs, less: Runs) -> str:
    """The CPU time of the trainings of `more` divided by that of `less`, paired by seed: the lowest and the highest.

    A pair counts if one machine made both trainings and neither was resumed.
    """
    ratios = []
    for seed in sorted(more.keys() & less.keys()):
        mine, theirs = more[seed]["cpu_seconds"], less[seed]["cpu_seconds"]
        speeds = mine["evaluate"], theirs["evaluate"]
        # Two machines made the runs, one about twice as fast as the other. All evaluations have one size. Their CPU
        # times differ by at most a factor of 1.3 on one machine, and by at least 1.7 between machines.
        if mine["train"] and theirs["train"] and max(speeds) < 1.5 * min(speeds):
            ratios.append(mine["train"] / theirs["train"])
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "–"


def points(estimate: Estimate) -> str:
    return estimate.text(100, sign="+")
