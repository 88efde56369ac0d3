"""Pass@1 against Pass@64: a panel for each testbed and set of seeds, with a curve for each method and the Pareto front
of the free baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.figures import COLOURS, GREY, drawing, frame
from diver.core.statistics import Estimate
from method_comparison.plan import BASELINE
from method_comparison.results import UNTRAINED, Results, finals, free_candidates, level

MARKS = ("o", "s", "^", "D", "v", "P", "X")
OF_METHODS = [colour for colour in COLOURS if colour != GREY]  # GREY is the colour of the free baselines
LINES = {UNTRAINED: ":", "clip-higher, half the rate": "-"}  # free baselines that are drawn over the temperature, too
PANELS = 3  # panels in a row


def draw(results: Sequence[Results], path: Path) -> None:
    """A panel for each part of the page; a method has one colour and mark in all of them, and one legend.

    Only clip-higher has the first colour, since methods that behave like it lie on its curve. Methods of most stages
    come first, so that methods which are compared again have distinct colours.
    """
    methods = dict.fromkeys(label for result in results for label in by_stages(result) if label != BASELINE)
    marks = [(colour, mark) for mark in MARKS for colour in OF_METHODS[1:]]
    styles = {BASELINE: (OF_METHODS[0], MARKS[0]), **dict(zip(methods, cycle(marks), strict=False))}
    columns = max(1, min(PANELS, len(results)))
    rows = max(1, -(-len(results) // columns))
    with drawing(path, size=(6.4 * columns, 5.0 * rows + 0.6)) as figure:
        axes = np.ravel(figure.subplots(rows, columns))
        for result, box in zip_longest(results, axes):
            if result is None:
                box.set_axis_off()
            else:
                _panel(box, result, styles)
        drawn = [box.get_legend_handles_labels() for box in axes]
        legend = {label: handle for handles, labels in drawn for handle, label in zip(handles, labels, strict=True)}
        figure.legend(legend.values(), legend.keys(), loc="outside lower center", ncols=4, frameon=False)


def _shown(results: Results) -> list[str]:
    hidden = {*results.free, *results.ablations} - {BASELINE}
    return [label for label in results.runs if label not in hidden]


def by_stages(results: Results) -> list[str]:
    """The methods that are drawn, first those that most stages have."""
    return sorted(_shown(results), key=lambda label: -sum(label in s.variants for s in results.plan.stages.values()))


def _panel(axes: Any, results: Results, styles: Mapping[str, tuple[str, str]]) -> None:
    unfinished = any(results.unfinished(label) for label in [*_shown(results), *results.free])
    title = results.title + "\n(of some methods not all seeds are finished)" * unfinished
    frame(axes, title, "Pass@1, per cent", grid="both")
    axes.set_ylabel("Pass@64, per cent", color=GREY)
    shown = [candidate for candidate in free_candidates(results) if candidate.name != "final 0"]
    pairs = [_point(results, candidate.label, candidate.name) for candidate in shown]
    free = [(100 * at_1.mean, 100 * at_64.mean) for at_1, at_64 in pairs]
    if free:
        axes.scatter(*np.transpose(free), s=9, color=GREY, alpha=0.35, linewidths=0, label="free baselines")
        axes.step(
            *np.transpose(front(free)),
            where="pre",
            color=GREY,
            linewidth=0.8,
            linestyle="-.",
            label="their Pareto front",
        )
    names = [name for name in finals(results) if name != "final 0"]
    for label, line in LINES.items():
        if results.of(label):
            pairs = [_point(results, label, name) for name in names]
            x, y = (100 * np.array([e.mean for e in column]) for column in zip(*pairs, strict=True))
            axes.plot(x, y, line, color=GREY, linewidth=1.0, label=label)
            for *point, name in zip(x, y, names, strict=True) if label == UNTRAINED else ():
                at = f"T {name.split()[1]}"
                axes.annotate(at, point, (0, 5), textcoords="offset points", fontsize=7, color=GREY, ha="center")
    lowest = np.inf
    for label in _shown(results):
        colour, mark = styles[label]
        pairs = [_point(results, label, name) for name in names]
        x, y = (100 * np.array([e.mean for e in column]) for column in zip(*pairs, strict=True))
        dx, dy = (
            100 * np.array([[e.mean - e.low, e.high - e.mean] for e in column]).T for column in zip(*pairs, strict=True)
        )
        style = {"color": colour, "marker": mark, "linestyle": "-" if mark == MARKS[0] else "--"}
        axes.plot(x, y, **style, markersize=4.5, linewidth=2.0 if label == BASELINE else 1.1, label=label)
        lowest = min(lowest, *y)
        axes.errorbar(x, y, xerr=dx, yerr=dy, fmt="none", ecolor=colour, elinewidth=0.4, alpha=0.25)
    if np.isfinite(lowest):
        # At a high temperature the untrained policy solves almost nothing, and would take half of the panel.
        axes.set_ylim(bottom=lowest - 6)


def _point(results: Results, label: str, name: str) -> tuple[Estimate, Estimate]:
    """Pass@1 and Pass@64."""
    return level(results.of(label), name, 1), level(results.of(label), name, 64)


def front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other surpasses in both coordinates, by rising x."""
    best, highest = list[tuple[float, float]](), -np.inf
    for x, y in sorted(points, reverse=True):
        if y > highest:
            best.append((x, y))
            highest = y
    return best[::-1]
