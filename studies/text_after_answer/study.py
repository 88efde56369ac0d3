"""study.toml: the variants on the mazes of the comparison of methods, and their records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from diver_paper import runs
from diver_paper.runs import Planned, Record, find, given, records_file
from method_comparison.plan import load_plan
from method_comparison.rates import RECORDS as COMPARISON

RECORDS = "text-after-answer"
BASELINE, UNREPAIRED = "clip-higher", "no repair"
STAGE_C = {BASELINE: "clip-higher", UNREPAIRED: "diver-mix"}
"""Label -> the method of stage c whose runs it stands for."""


class Study(runs.Study):
    """study.toml: its variants on the testbed of the comparison of methods."""

    package, name = "text_after_answer", RECORDS

    def planned(self) -> Iterator[Planned]:
        for seed in self.config["seeds"]:
            for label, variant in self.config["variants"].items():
                yield self._planned(label, variant["method"], seed)

    def results(self) -> dict[str, dict[int, Record]]:
        """Label -> seed -> the record of a finished run, of stage c's variants and of this study's, in order."""
        by_label: dict[str, dict[int, Record]] = {label: {} for label in (*STAGE_C, *self.config["variants"])}
        for seed in self.config["seeds"]:
            for label, method in STAGE_C.items():
                recipe = self._planned(label, {"name": method}, seed).recipe
                if (record := find(records_file(self.out, COMPARISON), recipe)) is not None:
                    by_label[label][seed] = record
        for planned, record in self.finished():
            by_label[planned.label][planned.seed] = record
        return by_label

    def _planned(self, label: str, method: Mapping[str, Any], seed: int) -> Planned:
        testbed = self.config["testbed"]
        changes = {
            "method": {"frame": "common", **method},
            "train": {"learning_rate": self.config["learning_rate"]},
        }
        return Planned("", testbed, label, given(load_plan().regime(testbed), changes, seed))
