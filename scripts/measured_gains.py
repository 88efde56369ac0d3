"""The gains that `diver methods` prints, from the records of the comparison of methods.

python scripts/measured_gains.py         # src/diver/methods/measured.toml
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from diver.methods import METHODS
from method_comparison.command import read_results
from method_comparison.plan import BASELINE, load_plan
from method_comparison.results import Results, gap
from method_comparison.summary import KS, PAPERS

ROOT = Path(__file__).parents[1]
FILE = ROOT / "src/diver/methods/measured.toml"


def measured() -> dict[str, Any]:
    """The gains of each method over clip-higher in points, with the bounds of their intervals, and its time."""
    first = next(part for part in read_results(load_plan(), ROOT / "docs/results") if part.part.testbed == "countdown")
    labels = [label for label in METHODS if label in first.runs]
    return {
        label: {
            "gains": [[round(100 * x, 1) for x in gap(first, label, PAPERS, k)[:3]] for k in KS],
            "time": time(first, label),
        }
        for label in labels
        if label != BASELINE and not first.unfinished(label)
    }


def time(results: Results, label: str) -> float:
    """CPU seconds of the training over those of clip-higher with the same seed: the median over seeds.

    A run that was stopped and resumed has no time.
    """
    mine, theirs = (results.runs[name] for name in (label, BASELINE))
    ratios = [seconds(mine[seed]) / seconds(theirs[seed]) for seed in mine.keys() & theirs.keys()]
    return round(float(np.nanmedian(ratios)), 2)


def seconds(record: Mapping[str, Any]) -> float:
    return record["cpu_seconds"]["train"] or np.nan


def text() -> str:
    """The content of the file."""
    head = "# By scripts/measured_gains.py, from docs/results/records: Countdown, temperature 0.6, three seeds.\n"
    head += "# gains: points above clip-higher at Pass@1 and at Pass@64, each with the bounds of its 95 % interval.\n"
    return head + tomli_w.dumps(measured())


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
