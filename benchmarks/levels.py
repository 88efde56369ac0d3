r"""How often intervals beyond 95 % hold the truth, with seed effects like those of the comparison of methods.

    python benchmarks/levels.py [--sets 10000]

A paired difference of `seeds` x `PROBLEMS` is normal in each part: seed, problem, both. The standard deviations of the
parts are estimated from docs/results/records/methods.jsonl.gz: differences from clip-higher at temperature 0.6. The
variances of each testbed are means over its variants. The last row has the variance of the variant whose seeds differ
most.
One JSON file, benchmarks/results/levels.json, and a table.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.statistics import ends
from diver.core.tables import markdown
from method_comparison.results import pass_at

RECORDS = Path(__file__).parents[1] / "docs" / "results" / "records" / "methods.jsonl.gz"
PROBLEMS = 64  # fewer than 1,024 give the same parts of the variance, and take less time
NAME = "final 0.6"
LEVELS = {"95": 0.95, "99.5": 1 - 0.05 / 10, "99.6": 1 - 0.05 / 12}
ROWS = {  # the testbed of the records, clip-higher's learning rate there, k, and how variants are pooled
    "Countdown, Pass@1": ("countdown", "5e-05", 1, np.mean),
    "Countdown, Pass@64": ("countdown", "5e-05", 64, np.mean),
    "Countdown, other problems, Pass@64": ("countdown-new", "5e-05", 64, np.mean),
    "mazes, Pass@1": ("maze", "0.0001", 1, np.mean),
    "mazes, Pass@64": ("maze", "0.0001", 64, np.mean),
    "mazes, Pass@64, largest": ("maze", "0.0001", 64, np.max),
}
Parts = tuple[float, float, float]
"""Standard deviations of the seed, the problem, and both, in points, in the mean over the problems of one seed."""


def variances(values: np.ndarray) -> np.ndarray:
    """Estimates by the analysis of variance of values [seeds, problems]: of the seed, the problem, and both."""
    seeds, problems = values.shape
    of_seed, of_problem, mean = values.mean(1, keepdims=True), values.mean(0, keepdims=True), values.mean()
    both = ((values - of_seed - of_problem + mean) ** 2).sum() / ((seeds - 1) * (problems - 1))
    seed = of_seed.var(ddof=1) - both / problems
    problem = (of_problem.var(ddof=1) - both / seeds) / problems
    return np.array([seed, problem, both / problems])


def parts_of(records: Sequence[Mapping[str, Any]]) -> dict[str, Parts]:
    """The parts of each of `ROWS`, by the variants with three seeds or more."""
    runs: defaultdict[str, dict[int, Any]] = defaultdict(dict)
    for record in records:
        runs[record["name"].rpartition("_seed")[0]][record["seed"]] = record
    found: dict[str, Parts] = {}
    for row, (testbed, rate, k, pool) in ROWS.items():
        base = f"{testbed}/clip-higher_frame-common_learning_rate-{rate}"
        others = [of for name, of in runs.items() if name.startswith(f"{testbed}/") and name != base and len(of) > 2]
        variants = np.array(
            [
                variances(100 * np.array([pass_at(of[s], NAME, k) - pass_at(runs[base][s], NAME, k) for s in of]))
                for of in others
            ]
        )
        seed, problem, both = np.sqrt(np.maximum([pool(variants[:, 0]), *variants[:, 1:].mean(0)], 0)).round(2).tolist()
        found[row] = (seed, problem, both)
    return found


def draw(parts: Parts, sets: int, seeds: int, random: np.random.Generator) -> np.ndarray:
    """Differences whose expectation is 0, in points, [sets, seeds, problems]."""
    seed, problem, both = parts
    root = np.sqrt(PROBLEMS)
    return (
        seed * random.standard_normal((sets, seeds, 1))
        + root * problem * random.standard_normal((sets, 1, PROBLEMS))
        + root * both * random.standard_normal((sets, seeds, PROBLEMS))
    )


def measure(every: Mapping[str, Parts], sets: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, parts in every.items():
        for seeds in (3, 5):
            values = draw(parts, sets, seeds, np.random.default_rng([seeds, *map(ord, name)]))
            row: dict[str, object] = {"parts": name, "seeds": seeds}
            for level, nominal in LEVELS.items():
                low, high = ends(values, None, nominal)
                row[f"coverage {level}"] = round(100 * float(((low <= 0) & (high >= 0)).mean()), 2)
                row[f"above {level}"] = round(100 * float((low > 0).mean()), 2)
                row[f"half width {level}"] = round(float(np.median(high - low)) / 2, 2)
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=10_000, help="simulated data sets of each row")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "levels.json")
    args = parser.parse_args()
    with gzip.open(RECORDS, "rt", encoding="utf-8") as lines:
        parts = parts_of([json.loads(line) for line in lines])
    rows = measure(parts, args.sets)
    args.out.write_text(json.dumps({"sets": args.sets, "parts": parts, "rows": rows}, indent=1) + "\n")
    columns = [f"{what} {level}" for level in LEVELS for what in ("coverage", "half width")] + ["above 99.6"]
    print(
        markdown(
            ["", "seeds", *columns],
            [[*map(str, (r["parts"], r["seeds"])), *(f"{r[c]}" for c in columns)] for r in rows],
        )
    )


if __name__ == "__main__":
    main()
