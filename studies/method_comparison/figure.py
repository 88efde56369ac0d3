"""Pass@1 against Pass@64: a panel a testbed, a curve a method over temperatures, the front of what costs nothing behind."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from diver.render.figures import COLOURS, GREY, drawing, frame
from method_comparison.plan import BASELINE
from method_comparison.results import Results, finals, free_candidates, level

MARKS = ("o", "s", "^", "D", "v", "P", "X")


def draw(results: Sequence[Results], path: Path) -> None:
    """One panel a testbed, side by side, and one legend."""
    with drawing(path, size=(6.4 * max(1, len(results)), 5.6)) as figure:
        axes = np.atleast_1d(figure.subplots(1, max(1, len(results))))
        for found, box in zip(results, axes, strict=False):
            _panel(box, found)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


def _panel(axes: Any, results: Results) -> None:
    frame(axes, results.plan.testbeds[results.testbed].title, "Pass@1, per cent", grid="both")
    axes.set_ylabel("Pass@64, per cent", color=GREY)
    free = [_point(results, c.label, c.name)[:2] for c in free_candidates(results)]
    if free:
        axes.scatter(*np.transpose(free), s=9, color=GREY, alpha=0.35, linewidths=0, label="costs nothing")
        axes.step(
            *np.transpose(front(free)), where="pre", color=GREY, linewidth=0.8, linestyle=":", label="their front"
        )
    styles = zip(cycle(COLOURS), [m for m in MARKS for _ in COLOURS], strict=False)
    shown = [label for label in results.runs if label == BASELINE or label not in results.free]
    for label, (colour, mark) in zip(shown, styles, strict=False):
        points = np.array([_point(results, label, name) for name in finals(results) if name != "final 0"])
        x, y, dx, dy = points.T
        width = 2.0 if label == BASELINE else 1.1
        axes.plot(x, y, color=colour, marker=mark, markersize=3.5, linewidth=width, label=label)
        axes.errorbar(x, y, xerr=dx, yerr=dy, fmt="none", ecolor=colour, elinewidth=0.4, alpha=0.35)


def _point(results: Results, label: str, name: str) -> tuple[float, float, float, float]:
    """Pass@1 and Pass@64, and half the widths of their intervals, in per cent."""
    one, many = (level(results.runs[label], name, k) for k in (1, 64))
    return 100 * one.mean, 100 * many.mean, 50 * (one.high - one.low), 50 * (many.high - many.low)


def front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other surpasses in both coordinates, by rising x."""
    best, highest = list[tuple[float, float]](), -np.inf
    for x, y in sorted(points, reverse=True):
        if y > highest:
            best.append((x, y))
            highest = y
    return best[::-1]
