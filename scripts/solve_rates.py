"""The picture of docs/methods.md: how much signal each method takes from a group, by how often it is solved.

    python scripts/solve_rates.py            # docs/solve-rates.png

Advantages of all numbers of correct responses in a group of 16, from the methods themselves: no training, no model.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from diver import advantages
from diver.core.figures import COLOURS, drawing, frame

SIZE = 16
METHODS = (
    "clip-higher",
    "dr-grpo",
    "max-rl",
    "rs-grpo",
    "f-grpo",
    "pass-at-k",
    "pkpo",
    "difficulty-weight",
    "w-reinforce",
)


def signal(method: str) -> list[float]:
    """The mean |A| of a group with 0, 1, ..., SIZE correct responses."""
    groups = np.tri(SIZE + 1, SIZE, -1)
    return [float(np.abs(advantages([""] * SIZE, outcomes, [0] * SIZE, method)).mean()) for outcomes in groups]


def main(path: Path) -> None:
    with drawing(path, size=(7.2, 3.4)) as figure:
        axes = figure.subplots()
        for method, colour in zip(METHODS, COLOURS, strict=False):
            axes.plot(np.arange(SIZE + 1) / SIZE, signal(method), color=colour, label=method, marker=".", linewidth=1.4)
        frame(axes, f"Mean |A| of a group of {SIZE}", "fraction of the group that is correct")
        figure.legend(loc="outside right center", frameon=False)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "solve-rates.png"))
