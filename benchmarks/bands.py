"""How often the band over k of `diver.core.bands` holds the whole expected difference of Pass@k; nominal: 95 %.

    python benchmarks/bands.py [--sets 400]

The simulated policies are those of benchmarks/coverage.py, 64 samples a problem and k from 1 to 64. A second kind of
pair crosses: the second policy has less spread over problems, so that it is better at small k and worse at large k.
Beside the band stand the intervals for a single k, all of which hold together less often, and how much wider the band
is. One JSON file, benchmarks/results/bands.json, and a table.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from coverage import SPLITS, expectation, location
from scipy.special import expit

from diver.core.bands import simultaneous
from diver.core.progress import progress
from diver.core.statistics import pass_curve
from diver.core.tables import markdown

SAMPLES = 64
KS = np.arange(1, SAMPLES + 1)
PAIRS = {"equal": (0.0, 1.0), "better": (0.5, 1.0), "crossing": (0.3, 0.5)}
"""What the second policy adds on the logistic scale, and the factor of its spread over problems."""


class Cell(NamedTuple):
    """One row of the grid."""

    pair: str
    seeds: int
    problems: int
    mean: float
    split: str


def grid() -> list[Cell]:
    cells = itertools.product(PAIRS, (1, 3, 5), (30, 64, 256), (0.05, 0.5), ("problems and residual", "some seeds"))
    return [Cell(*cell) for cell in cells if (cell[1] > 1) == (cell[4] == "some seeds")]


TABLE = pass_curve(np.full(SAMPLES + 1, SAMPLES), np.arange(SAMPLES + 1), SAMPLES)
"""Pass@k for each k and each number of correct samples."""


def simulate(cell: Cell, sets: int, random: np.random.Generator) -> dict[str, float]:
    """Coverage of the band and of all single intervals together, and the median ratio of their widths."""
    seed_std, problem_std, both_std = SPLITS[cell.split]
    shift, factor = PAIRS[cell.pair]
    stds = [np.sqrt(seed_std**2 + (f * problem_std) ** 2 + both_std**2) for f in (1.0, factor)]
    mu = location(cell.mean, float(stds[0]), 1)
    truth = np.subtract(
        *([expectation(mu + add, float(std), int(k)) for k in KS] for add, std in ((shift, stds[1]), (0.0, stds[0])))
    )

    def policy(add: float, spread: float) -> np.ndarray:
        """Estimated Pass@k [k, seeds, problems] of problems as hard as `hard`."""
        x = mu + add + spread * hard + seed_std * random.standard_normal((cell.seeds, 1))
        x = x + both_std * random.standard_normal((cell.seeds, cell.problems))
        return TABLE[:, random.binomial(SAMPLES, expit(x))]

    held, single, ratios = 0, 0, []
    for _ in range(sets):
        hard = problem_std * random.standard_normal(cell.problems)
        y = policy(shift, factor) - policy(0.0, 1.0)
        found = simultaneous(y, KS, (-1, 1))
        low, high = found.single
        held += bool(np.all((found.low <= truth) & (truth <= found.high)))
        single += bool(np.all((low <= truth) & (truth <= high)))
        ratios.append(np.mean((found.high - found.low) / np.maximum(high - low, 1e-12)))
    return {"band": held / sets, "single intervals": single / sets, "width": float(np.median(ratios))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=400, help="simulated data sets of each row of the grid")
    sets = parser.parse_args().sets
    rows = [
        {**cell._asdict(), **simulate(cell, sets, np.random.default_rng([*map(ord, str(cell))]))}
        for cell in progress(grid(), "bands", "row", keep=True)
    ]
    target = Path(__file__).with_name("results") / "bands.json"
    target.write_text(json.dumps({"sets": sets, "samples": SAMPLES, "cells": rows}, indent=1) + "\n")
    table = []
    for pair, seeds in itertools.product(PAIRS, (1, 3, 5)):
        of = [row for row in rows if (row["pair"], row["seeds"]) == (pair, seeds)]
        shares = [np.array([row[key] for row in of]) for key in ("band", "single intervals")]
        table.append(
            [
                f"{pair}, seeds {seeds}",
                f"{100 * shares[0].min():.1f}",
                f"{100 * shares[0].mean():.1f}",
                f"{100 * shares[1].min():.1f}",
                f"{np.mean([row['width'] for row in of]):.2f}",
            ]
        )
    print(markdown(["", "band: lowest coverage", "mean", "single intervals: lowest", "width of the band"], table))


if __name__ == "__main__":
    main()
