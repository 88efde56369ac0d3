r"""How often the intervals of `diver.core.statistics.interval` hold the truth,
on simulated problems and seeds; nominal: 95 %.

    python benchmarks/coverage.py [--sets 1500]

A problem's chance is logistic(mu + seed + problem + both), normal in each part; Pass@1 and Pass@16 are estimated from
16 samples, mu is chosen such that their expectation is p. A paired difference is of two policies with the same
problems, the second better by .5 on the scale of mu, or equal to the first. Beside ours stands the percentile bootstrap
over problems, and over seeds where there are several. One JSON file, benchmarks/results/coverage.json, and a table.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from diver.core.progress import progress
from diver.core.statistics import ends, pass_at_k
from diver.core.tables import markdown

SAMPLES = 16
MEANS = (0.005, 0.02, 0.1, 0.5, 0.9, 0.98, 0.995)
PROBLEMS = (30, 64, 256)
SPLITS = {  # standard deviations of seed, problem, both, on the logistic scale
    "problems": (0.0, 2.0, 0.0),
    "problems and residual": (0.0, 2.0, 1.0),
    "residual": (0.0, 0.3, 1.0),
    "some seeds": (0.1, 2.0, 0.5),
    "half seeds": (0.3, 2.0, 0.5),
    "seeds": (0.3, 0.3, 0.3),
}


class Cell(NamedTuple):
    """One row of the grid."""

    kind: str  # share or difference
    k: int
    seeds: int
    problems: int
    mean: float
    split: str
    shift: float = 0.0


def grid() -> Iterator[Cell]:
    for k, seeds, problems, mean in itertools.product((1, SAMPLES), (1, 3, 5), PROBLEMS, MEANS):
        for split in SPLITS:
            if seeds > 1 or split in ("problems", "residual"):
                yield Cell("share", k, seeds, problems, mean, split)
            if split != "problems" and (seeds > 1 or split in ("problems and residual", "residual")):
                yield Cell("difference", k, seeds, problems, mean, split)
                yield Cell("difference", k, seeds, problems, mean, split, 0.5)


@cache
def expectation(mu: float, std: float, k: int) -> float:
    z, weights = np.polynomial.hermite_e.hermegauss(150)
    return float(np.dot(weights, 1 - (1 - expit(mu + std * z)) ** k) / weights.sum())


@cache
def location(mean: float, std: float, k: int) -> float:
    return float(brentq(lambda mu: expectation(mu, std, k) - mean, -40, 40))


def draw(cell: Cell, sets: int, random: np.random.Generator) -> tuple[np.ndarray, float]:
    """Values [sets, seeds, problems] and what their mean estimates."""
    seed, problem, both = SPLITS[cell.split]
    std = float(np.sqrt(seed**2 + problem**2 + both**2))
    mu = location(cell.mean, std, cell.k)
    of_problem = problem * random.standard_normal((sets, 1, cell.problems))

    def policy(shift: float) -> np.ndarray:
        x = mu + shift + of_problem + seed * random.standard_normal((sets, cell.seeds, 1))
        x = x + both * random.standard_normal((sets, cell.seeds, cell.problems))
        return pass_at_k(SAMPLES, random.binomial(SAMPLES, expit(x)), cell.k)

    if cell.kind == "share":
        return policy(0.0), cell.mean
    return policy(cell.shift) - policy(0.0), expectation(mu + cell.shift, std, cell.k) - cell.mean


def bootstrap(values: np.ndarray, random: np.random.Generator, resamples: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the percentile bootstrap over seeds and problems, [sets] each."""
    seeds, problems = values.shape[1:]
    of_seed = random.multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    of_problem = random.multinomial(problems, np.full(problems, 1 / problems), resamples) / problems
    means = np.einsum("bs,nsp,bp->nb", of_seed, values, of_problem, optimize=True)
    low, high = np.quantile(means, [0.025, 0.975], axis=1)
    return low, high


def measure(cell: Cell, sets: int, compared: int) -> dict[str, Any]:
    random = np.random.default_rng([*map(ord, str(cell))])
    values, truth = draw(cell, sets, random)
    bounds = (0.0, 1.0) if cell.kind == "share" else (-1.0, 1.0)
    row: dict[str, Any] = cell._asdict()
    for name, (low, high) in {
        "ours": ends(values, bounds),
        "bootstrap": bootstrap(values[:compared], random),
    }.items():
        held = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
        row[name] = {
            "coverage": round(100 * float(held.mean()), 2),
            "width": round(100 * float((high - low).mean()), 2),
        }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=1500, help="simulated data sets of each row of the grid")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "coverage.json")
    args = parser.parse_args()
    cells = progress([*grid()], "coverage", "row", keep=True)
    rows = [measure(cell, args.sets, min(args.sets, 500)) for cell in cells]
    head = json.dumps({"sets": args.sets, "samples": SAMPLES, "splits": SPLITS})
    lines = ",\n".join(json.dumps(row) for row in rows)  # a line a row
    args.out.write_text(f'{head[:-1]}, "rows": [\n{lines}\n]}}\n')
    print(table(rows))
    for problems in PROBLEMS:
        middle = [
            row["ours"]["coverage"]
            for row in rows
            if row["seeds"] == 5 and row["problems"] == problems and 0.1 <= row["mean"] <= 0.9
        ]
        above = sum(coverage > 97 for coverage in middle)
        print(
            f"5 seeds, {problems} problems, .1 <= p <= .9: {above} of {len(middle)} rows above 97, "
            f"at most {max(middle):.1f}"
        )


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The lowest coverage, the rows that hold 93 of 100 times and more, and the mean width,
    ours beside the bootstrap."""
    lines = []
    for kind, seeds in itertools.product(("share", "difference"), (1, 3, 5)):
        some = [row for row in rows if (row["kind"], row["seeds"]) == (kind, seeds)]
        cells = [f"{kind}, {seeds} seed{'s' * (seeds > 1)}"]
        for name in ("ours", "bootstrap"):
            coverages = [row[name]["coverage"] for row in some]
            width = np.mean([row[name]["width"] for row in some])
            cells += [f"{min(coverages):.1f}", f"{sum(c >= 93 for c in coverages)} of {len(some)}", f"{width:.1f}"]
        lines.append(cells)
    heads = ["lowest", "rows of 93 and more", "width"]
    return markdown(["", *heads, f"bootstrap: {heads[0]}", *heads[1:]], lines)


if __name__ == "__main__":
    main()
