"""study.toml: the variants as jobs over the mazes of the comparison of methods, and their records."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from diver_paper.records import Records
from method_comparison.plan import StudyJob, load_plan
from method_comparison.results import Runs

RECORDS = "text-after-answer"
BASELINE, UNREPAIRED = "clip-higher", "no repair"
STAGE_C = {BASELINE: "clip-higher", UNREPAIRED: "diver-mix"}
"""Label -> the method of stage c whose runs it stands for."""


class Study:
    """study.toml: its variants as jobs over the testbed of the comparison of methods."""

    def __init__(self) -> None:
        self.config = tomllib.loads((files("text_after_answer") / "study.toml").read_text(encoding="utf-8"))
        self.regime = load_plan().regime(self.config["testbed"])
        self.made = {"evaluation": self.config["evaluation"], "baseline": False}
        """What a record says beside its recipe."""

    def job(self, label: str, seed: int) -> StudyJob:
        return self._job(self.config["variants"][label]["method"], seed)

    def stage_c_job(self, method: str, seed: int) -> StudyJob:
        """The run of stage c of the comparison of methods that this study compares with."""
        return self._job({"name": method}, seed)

    def results(self, out: Path) -> dict[str, Runs]:
        """Label -> seed -> the record of a finished run, of stage c's variants and of this study's, in order."""
        stage_c = Records.of(out, "methods", f"{self.config['testbed']}/")
        found: dict[str, Runs] = {
            label: self._found(stage_c, {seed: self.stage_c_job(method, seed) for seed in self.config["seeds"]}, {})
            for label, method in STAGE_C.items()
        }
        for label in self.config["variants"]:
            jobs = {seed: self.job(label, seed) for seed in self.config["seeds"]}
            found[label] = self._found(Records.of(out, RECORDS), jobs, self.made)
        return found

    def _found(self, records: Records, jobs: Mapping[int, StudyJob], made: Mapping[str, Any]) -> Runs:
        found = {seed: records.find(job, self.regime, made) for seed, job in jobs.items()}
        return {seed: record for seed, record in found.items() if record is not None}

    def _job(self, method: Mapping[str, Any], seed: int) -> StudyJob:
        changes = {
            "method": {"frame": "common", **method},
            "train": {"learning_rate": self.config["learning_rate"]},
        }
        return StudyJob(changes, seed)
