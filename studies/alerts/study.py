"""study.toml as runs: healthy runs, and runs that are broken in each of several ways."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from diver.core.settings import merge
from diver_paper import runs
from diver_paper.runs import given
from method_comparison.plan import load_plan

RECORDS = "alerts"
HEALTHY = "healthy"
CHOICE, REPORT = "choice", "report"


class AlertRun(NamedTuple):
    """A run of this study: its kind, testbed, method, half, and recipe as given."""

    kind: str
    testbed: str
    label: str
    half: str
    """CHOICE: limits are chosen on it. REPORT: rates are reported on it."""
    recipe: dict[str, Any]
    trained: bool = True


class Study(runs.Study):
    """study.toml: kinds of runs on testbeds of the comparison of methods."""

    package, name = "alerts", RECORDS

    @property
    def kinds(self) -> dict[str, dict[str, Any]]:
        """The kinds of runs, the healthy one first: its `title` and how its runs are made."""
        return self.config["kinds"]

    @property
    def limits_before(self) -> dict[str, float]:
        """The earlier values of the limits that the package changed after the study, by the title of the alert."""
        return self.config.get("before", {})

    @cached_property
    def all_runs(self) -> list[AlertRun]:
        """All runs. The kinds alternate, so that a stopped study has runs of each."""
        by_kind = [list(enumerate(self._of_kind(kind))) for kind in self.kinds]
        turns = [(i / len(runs), number, run) for number, runs in enumerate(by_kind) for i, run in runs]
        return [run for _, _, run in sorted(turns, key=lambda turn: turn[:2])]

    def regime(self, testbed: str) -> dict[str, Any]:
        """The recipe of a testbed: a regime of the comparison of methods, with the changes of this study."""
        bed = self.config["testbeds"][testbed]
        return merge(merge(load_plan().regime(bed["regime"]), bed.get("recipe", {})), self.config["recipe"])

    def _of_kind(self, kind: str) -> Iterator[AlertRun]:
        """The runs of a kind: one for each testbed, method and learning rate, or one rate in turn for each method.

        Every run has another seed. Half of the runs of a kind, drawn at random, are for the choice of limits.
        """
        about, rates = self.kinds[kind], self.config["learning_rates"]
        cells = [(bed, label) for bed in about.get("testbeds", self.config["testbeds"]) for label in about["methods"]]
        settings = [
            (bed, label, rate)
            for i, (bed, label) in enumerate(cells)
            for rate in (rates if about.get("every_rate") else [rates[i % len(rates)]])
        ]
        first_seed = self.config["first_seed"] + 100 * list(self.kinds).index(kind)
        order = np.random.default_rng([self.config["split_seed"], first_seed]).permutation(len(settings))
        chosen = {*order[: len(settings) // 2].tolist()}
        for i, (bed, label, rate) in enumerate(settings):
            method = {"frame": "common", **self.config["methods"][label]}
            changes = merge(
                {"method": method, "train": {"learning_rate": float(f"{rate * about.get('rate_factor', 1):.6g}")}},
                about.get("recipe", {}),
            )
            half = CHOICE if i in chosen else REPORT
            yield AlertRun(kind, bed, label, half, given(self.regime(bed), changes, first_seed + i))
