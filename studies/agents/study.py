"""study.toml as runs: what is tuned, what the finished tuning has chosen, and the runs that follow from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from diver.core.seeds import fingerprint
from diver.core.settings import merge
from diver.core.types import DiverError
from diver.tasks.testbeds import policy_folder
from diver_paper.sweep import PlannedStudy
from method_comparison.plan import StudyJob
from method_comparison.results import Record
from verified_replay.study import lowest_of_best, score

RECORDS = "agents"
BASELINE = "clip-higher"
START = "starting policy"
TUNING, FINAL = "tuning", "final"


class AgentJob(StudyJob):
    """A run of this study, all of which one command makes."""

    @property
    def command(self) -> str:
        return "python -m agents"


class Planned(NamedTuple):
    """A run of the study: its stage, the label of its method, and the job."""

    stage: str
    label: str
    job: AgentJob

    @property
    def folder(self) -> str:
        return self.stage


class Study(PlannedStudy):
    """study.toml: methods on one testbed, two of them with tuned learning rates."""

    package = "agents"
    records_name = RECORDS

    def about(self, planned: Planned) -> tuple[dict[str, Any], dict[str, Any]]:
        source, config = f"agents.maze:{planned.stage}", self.config
        problems = {"data": {"path": source}, "evaluate": {"source": {"path": f"{source}_held_out"}}}
        evaluation = {
            "held_out": config["held_out"],
            "samples": config["samples"],
            "temperatures": config["temperatures"][:1] if planned.stage == TUNING else config["temperatures"],
        }
        return merge(config["recipe"], problems), {"evaluation": evaluation, "policy": config["policy"]}

    @property
    def labels(self) -> list[str]:
        """The settings of the final runs."""
        return [*self.config["methods"]]

    def planned(self) -> Iterator[Planned]:
        """All runs whose settings are known so far, in the order in which they are made."""
        yield from self.tuning()
        rates = self.rates()
        if rates.keys() == {*self.config["tuned"]}:
            yield Planned(FINAL, START, AgentJob({}, self.config["final_seeds"][0], trained=False))
            for seed in self.config["final_seeds"]:
                for label in self.labels:
                    yield self._run(FINAL, label, rates.get(label, rates[BASELINE]), seed)

    def tuning(self) -> Iterator[Planned]:
        """The runs by which rates are chosen, as far as they are known."""
        for label in self.config["tuned"]:
            for rate in sorted(self.tried(label)):
                yield self._run(TUNING, label, rate, self.config["tuning_seed"])

    def tried(self, label: str) -> list[float]:
        """The rates that are run: those of the protocol, and lower ones for as long as the lowest is the best."""
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
        """Method -> the chosen rate, of the methods whose tuning is finished."""
        best = {label: self.best(label, self.tried(label)) for label in self.config["tuned"]}
        return {label: rate for label, rate in best.items() if rate is not None}

    def examples(self) -> Iterator[Planned]:
        """A final run of each method at some rate, to look at its recipe before the tuning is finished."""
        for label in self.labels:
            yield self._run(FINAL, label, self.config["learning_rates"][0], self.config["final_seeds"][0])

    def check_policy(self) -> None:
        """DiverError if the starting policy is not the one of the protocol."""
        name = self.config["recipe"]["model"]["path"]
        folder = policy_folder(name)
        found = fingerprint(folder) if folder else "of no installed policy"
        if found != self.config["policy"]:
            raise DiverError(
                f"study.toml: the starting policy {name!r} has the fingerprint {found}, not {self.config['policy']}; "
                "install the diver-studies of this clone: pip install ./studies"
            )

    def _run(self, stage: str, label: str, rate: float, seed: int) -> Planned:
        method = {"frame": "common", **self.config["methods"][label]}
        return Planned(stage, label, AgentJob({"method": method, "train": {"learning_rate": rate}}, seed))


def criterion(record: Record) -> float:
    """The mean of Pass@1 and Pass@64 on the selection problems at temperature 0.6; below all others if it diverged."""
    return -math.inf if record["diverged"] else score(record)
