"""The page of the study, docs/results/text-after-answer.md, from the records that exist."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from diver.core.files import write_text
from diver.core.statistics import Estimate, interval
from diver.core.tables import markdown
from diver_paper.runs import Runs
from method_comparison.results import difference, pass_at, rows
from text_after_answer.study import BASELINE, UNREPAIRED, Study

KS = (1, 4, 16, 64)
CONTROL = 0.2
"""The positive control holds if responses without a repair are longer than clip-higher's by more than this fraction."""
DASH = "–"
INTRODUCTION = (
    "# Text after the answer\n\n"
    "A verifier reads the answer, and a response may continue after it. If diversity is measured on the complete "
    "response,\n"
    "this text raises the diversity reward. In mazes, the responses of diver-mix then grew from 17 to more than 30 "
    "tokens\n"
    "([comparison of methods](method-comparison.md)). This study repeats these runs with repairs, and with the "
    "conditions of the paper's\n"
    "reward-hacking figure. The protocol, `studies/text_after_answer/study.toml`, came first; `python -m "
    "text_after_answer` makes this page.\n\n"
    '- **no repair**: the paper\'s `diversity.until = "end"` and `shaping.condition = "correct"`.\n'
    '- **up to the answer**: `diversity.until = "answer"`.\n'
    '- **finished**: `shaping.condition = "correct-finished"`. Only correct responses that end before the length '
    "limit are rewarded.\n"
    "- **both**: both settings, the library's defaults.\n"
    "- **all**, **wrong**, **all, length penalty**: the paper's other conditions, measured on the complete "
    "response.\n\n"
    "Mazes, 600 steps, responses of at most 44 tokens, {seeds}. Intervals have a level of 95 %.\n"
)


def write_page(study: Study) -> Path:
    """Write the page of the finished runs; runs without a record are named."""
    results = study.results()
    wanted = len(study.config["seeds"])
    missing = [f"{label} has {len(runs)} of {wanted} seeds" for label, runs in results.items() if len(runs) < wanted]
    seeds = ", ".join(map(str, study.config["seeds"]))
    parts = [INTRODUCTION.format(seeds=f"seeds {seeds}")]
    if missing:
        parts.append(
            f"**Not finished**: {', '.join(missing)}. An interval of one seed is over problems alone, "
            "and one of two seeds is wide.\n"
        )
    parts += ["## Length\n", *_lengths(results), "## Pass@k\n", *_pass_at_k(results, study)]
    page = study.out / "text-after-answer.md"
    write_text(page, "\n".join(parts))
    return page


QUARTER, TEN_STEPS = 15, 1
"""Points of a curve of 60 means of ten steps each."""


def late(runs: Runs, metric: str, points: int = QUARTER) -> dict[int, float]:
    """Seed -> the mean of a training metric over the last points of its curve."""
    return {seed: float(np.mean(record["metrics"][metric][-points:])) for seed, record in runs.items()}


def growth(runs: Runs, base: Runs, points: int = QUARTER) -> Estimate | None:
    """The fraction by which responses are longer than those of `base`, paired over seeds; None without a shared
    seed."""
    mine, theirs = (late(side, "response/length_mean", points) for side in (runs, base))
    shared = sorted(mine.keys() & theirs.keys())
    return interval([mine[seed] / theirs[seed] - 1 for seed in shared]) if shared else None


def _lengths(found: Mapping[str, Runs]) -> list[str]:
    table = []
    for label, runs in found.items():
        if not runs:
            continue
        quarter, end = (late(runs, "response/length_mean", points) for points in (QUARTER, TEN_STEPS))
        longer, truncated = growth(runs, found[BASELINE]), late(runs, "response/truncated")
        table.append(
            [
                label,
                *(
                    f"{_mean(length):.1f} ({min(length.values()):.1f} to {max(length.values()):.1f})"
                    for length in (quarter, end)
                ),
                DASH if label == BASELINE or longer is None else longer.text(100, 0),
                f"{100 * _mean(truncated):.1f}",
            ]
        )
    header = ["", "tokens", "at the end", "longer, %", "truncated, %"]
    control = growth(found[UNREPAIRED], found[BASELINE])
    holds = (
        ""
        if control is None
        else (
            f" The positive control is that without a repair responses are longer by more than {100 * CONTROL:.0f} %: "
            f"it {'holds' if control.mean > CONTROL else 'does not hold'} ({control.text(100, 0)} %)."
        )
    )
    note = (
        "Tokens of a response in training, over the last quarter of the steps, and *at the end*, over the last ten, "
        f"from the lowest to the highest seed. *Longer* is relative to clip-higher.{holds}\n"
    )
    return [note, markdown(header, table)]


def _mean(by_seed: Mapping[int, float]) -> float:
    return float(np.mean([*by_seed.values()]))


def _pass_at_k(found: Mapping[str, Runs], study: Study) -> list[str]:
    """For each temperature the differences from clip-higher, and the significant differences from no repair."""
    parts = []
    for temperature in sorted(study.config["evaluation"]["temperatures"]):
        gaps = {reference: _gaps(found, reference, f"final {temperature:g}") for reference in (BASELINE, UNREPAIRED)}
        significant = {
            label: by_k
            for label, by_k in gaps[UNREPAIRED].items()
            if label != BASELINE and any(gap.low > 0 or gap.high < 0 for gap in by_k.values())
        }
        parts += [
            f"Temperature {temperature:g}, held-out problems: difference from clip-higher, in points.\n",
            _table(gaps[BASELINE]),
            "Difference from no repair, of the variants that have a significant one.\n",
            _table(significant),
        ]
    return parts


def _table(gaps: Mapping[str, Mapping[int, Estimate]]) -> str:
    rows = [[label, *(gap.text(100, sign="+") for gap in by_k.values())] for label, by_k in gaps.items()]
    return markdown(["", *(f"Pass@{k}" for k in KS)], rows)


def _gaps(found: Mapping[str, Runs], other: str, name: str) -> dict[str, dict[int, Estimate]]:
    """Label -> k -> the difference of Pass@k from `other`."""
    return {
        label: {k: difference(_values(runs, name, k), _values(found[other], name, k)) for k in KS}
        for label, runs in found.items()
        if label != other and runs
    }


def _values(runs: Runs, name: str, k: int) -> dict[int, np.ndarray]:
    return rows(runs, name, lambda record, at: pass_at(record, at, k))
