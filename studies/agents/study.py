"""study.toml as runs: the tuning, the choices of the finished tuning, and the runs that depend on them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from diver.core.settings import merge
from diver_paper import runs
from diver_paper.runs import Planned, Record, given
from verified_replay.study import lowest_of_best, score

RECORDS = "agents"
BASELINE = "clip-higher"
START = "starting policy"
TUNING, FINAL = "tuning", "final"
TESTBED = "maze-cells"


class Study(runs.Study):
    """study.toml: methods on one testbed, two of them with tuned learning rates."""

    package, name = "agents", RECORDS

    def regime(self, stage: str) -> dict[str, Any]:
        """The recipe over the problems of a stage."""
        source = f"agents.maze:{stage}"
        problems = {"data": {"path": source}, "evaluate": {"source": {"path": f"{source}_held_out"}}}
        return merge(self.config["recipe"], problems)

    @property
    def labels(self) -> list[str]:
        """The settings of the final runs."""
        return [*self.config["methods"]]

    def planned(self) -> Iterator[Planned]:
        """All runs whose settings are known so far, in the order in which they are made."""
        yield from self.tuning()
        rates = self.rates()
        if rates.keys() == {*self.config["tuned"]}:
            start = given(self.regime(FINAL), {}, self.config["final_seeds"][0])
            yield Planned(FINAL, TESTBED, START, start, trained=False)
            for seed in self.config["final_seeds"]:
                for label in self.labels:
                    yield self._run(FINAL, label, rates.get(label, rates[BASELINE]), seed)

    def tuning(self) -> Iterator[Planned]:
        """The runs by which rates are chosen, as far as they are known."""
        for label in self.config["tuned"]:
            for rate in sorted(self.tried(label)):
                yield self._run(TUNING, label, rate, self.config["tuning_seed"])

    def tried(self, label: str) -> list[float]:
        """The rates that are run: those of the protocol, and lower ones as long as the lowest is the best."""
        rates = [*self.config["learning_rates"]]
        for lower in self.config["lower_rates"]:
            if self.best(label, rates) == min(rates):
                rates.append(lower)
        return rates

    def best(self, label: str, rates: Sequence[float]) -> float | None:
        """The best of these rates; None until all of them have been run."""
        records = [self.record(self._run(TUNING, label, rate, self.config["tuning_seed"])) for rate in rates]
        scores = [(criterion(record), rate) for record, rate in zip(records, rates, strict=True) if record is not None]
        return lowest_of_best(scores) if len(scores) == len(rates) else None

    def rates(self) -> dict[str, float]:
        """Method -> the chosen rate, for the methods whose tuning is finished."""
        best = {label: self.best(label, self.tried(label)) for label in self.config["tuned"]}
        return {label: rate for label, rate in best.items() if rate is not None}

    def _run(self, stage: str, label: str, rate: float, seed: int) -> Planned:
        method = {"frame": "common", **self.config["methods"][label]}
        changes = {"method": method, "train": {"learning_rate": rate}}
        return Planned(stage, TESTBED, label, given(self.regime(stage), changes, seed))


def criterion(record: Record) -> float:
    """The mean of Pass@1 and Pass@64 on the selection problems at temperature 0.6; below all others if it diverged."""
    return -math.inf if record["diverged"] else score(record)
