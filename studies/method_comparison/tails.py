"""Text after the answer: variants whose responses, by the end of the training,
go on until the length limit after an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from diver.core.tables import markdown
from diver_paper.runs import Record
from method_comparison.results import Results

LIMIT = 0.2
"""As in the alerts of a run (src/diver/train/alerts.toml)."""
MARK = " †"
CUT = "cut after an answer"
METRICS = {"tokens": "response/length_mean", CUT: "response/truncated", "TD": "diversity/textual"}
DIGITS = {"tokens": ".1f", CUT: ".3f", "TD": ".2f"}


def tails(results: Results) -> dict[str, dict[str, list[np.ndarray]]]:
    """Label -> column -> its curve of each seed, of the variants whose runs all end with more than LIMIT of
    such responses."""
    by_label = {}
    for label, runs in results.runs.items():
        curves = {name: [_curve(record, name) for record in runs.values()] for name in METRICS}
        if all(len(curve) and curve[-1] > LIMIT for curve in curves[CUT]):
            by_label[label] = curves
    return by_label


def _curve(record: Record, name: str) -> np.ndarray:
    """A column over the training, float64 [recorded steps]; CUT is without responses that were cut before an answer."""
    curve = np.array(record["metrics"].get(METRICS[name], []), dtype=float)
    return curve - np.array(record["metrics"].get("grade/truncated", np.nan), dtype=float) if name == CUT else curve


def mark(results: Results, label: str) -> str:
    """The mark after a variant's name if its responses have such text."""
    return MARK if label in tails(results) else ""


def tail_section(results: Results) -> list[str]:
    """Heading, explanation and table of these variants; empty if there are none."""
    rows = [[label + MARK, *_cells(curves)] for label, curves in tails(results).items()]
    if not rows:
        return []
    note = (
        "By the end of the training the responses of these variants go on after their answers, in every seed. From the "
        "third quarter of the steps (mean) to the last recorded ones, the lowest and the highest of the seeds. "
        "[README.md](README.md#text-after-the-answer) says how it comes about.\n"
    )
    return ["### Text after the answer\n", note, markdown(["", *METRICS], rows)]


def _cells(curves: Mapping[str, Sequence[np.ndarray]]) -> list[str]:
    cells = []
    for name, seeds in curves.items():
        before = [curve[len(curve) // 2 : max(1, 3 * len(curve) // 4)].mean() for curve in seeds]
        after = [curve[-1] for curve in seeds]
        cells.append(" → ".join(f"{min(v):{DIGITS[name]}} to {max(v):{DIGITS[name]}}" for v in (before, after)))
    return cells
