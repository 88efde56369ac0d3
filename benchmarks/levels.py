r"""How often intervals beyond 95 % hold the truth, with seed effects like those of the comparison of methods.

    python benchmarks/levels.py [--sets 10000]

A paired difference of `seeds` x `PROBLEMS` is normal in each part: seed, problem, both. `PARTS` has the standard
deviation of each in the mean over 1,024 problems of one seed, in points. They are pooled over the variants of each
testbed in docs/results/records/methods.jsonl.gz, as differences from clip-higher at temperature 0.6; the last row has
the variant whose seeds differ most. One JSON file, benchmarks/results/levels.json, and a table.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from diver.core.statistics import ends
from diver.core.tables import markdown

PROBLEMS = 64  # fewer than 1,024 give the same parts of the variance, and take less time
LEVELS = {"95": 0.95, "99.5": 1 - 0.05 / 10, "99.6": 1 - 0.05 / 12}
PARTS = {
    "Countdown, Pass@1": (0.37, 0.27, 0.61),
    "Countdown, Pass@64": (0.74, 0.29, 0.82),
    "Countdown, other problems, Pass@64": (1.44, 0.42, 0.83),
    "mazes, Pass@1": (0.0, 0.20, 1.06),
    "mazes, Pass@64": (1.95, 0.21, 1.45),
    "mazes, Pass@64, largest": (2.47, 0.21, 1.45),
}


def draw(parts: tuple[float, float, float], sets: int, seeds: int, random: np.random.Generator) -> np.ndarray:
    """Differences whose expectation is 0, in points, [sets, seeds, problems]."""
    seed, problem, both = parts
    root = np.sqrt(PROBLEMS)
    return (
        seed * random.standard_normal((sets, seeds, 1))
        + root * problem * random.standard_normal((sets, 1, PROBLEMS))
        + root * both * random.standard_normal((sets, seeds, PROBLEMS))
    )


def measure(sets: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, parts in PARTS.items():
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
    rows = measure(args.sets)
    args.out.write_text(json.dumps({"sets": args.sets, "parts": PARTS, "rows": rows}, indent=1) + "\n")
    columns = [f"{what} {level}" for level in LEVELS for what in ("coverage", "half width")] + ["above 99.6"]
    print(
        markdown(
            ["", "seeds", *columns],
            [[*map(str, (r["parts"], r["seeds"])), *(f"{r[c]}" for c in columns)] for r in rows],
        )
    )


if __name__ == "__main__":
    main()
