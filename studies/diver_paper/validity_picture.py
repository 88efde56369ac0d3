"""The correlations of a validity study as one picture: a dot and an interval for each pair and method."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from diver.core.figures import COLOURS, GREY, drawing, frame
from diver.rollouts.problems import is_metric, title
from diver_paper.validity import Pair, Validity, pairs


def write_picture(result: Validity, path: Path) -> None:
    """Metrics with each other on the left; with Pass@k and length on the right."""
    all_pairs = pairs(result)
    panels = {
        "Metrics with each other": [p for p in all_pairs if all(map(is_metric, p))],
        "Metrics with correctness and length": [p for p in all_pairs if not all(map(is_metric, p))],
    }
    height = 1.1 + (0.16 + 0.12 * len(result.means)) * max(map(len, panels.values()))
    with drawing(path, size=(10.0, height), font_size=8.5) as figure:
        for axes, (name, panel_pairs) in zip(figure.subplots(1, 2), panels.items(), strict=True):
            _panel(axes, name, panel_pairs, result)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)


def _panel(axes: Any, name: str, of_panel: list[Pair], result: Validity) -> None:
    methods = list(result.correlations)
    for number, (method, colour) in enumerate(zip(methods, COLOURS * len(methods), strict=False)):
        offset = (number - (len(methods) - 1) / 2) * 0.6 / len(methods)
        estimates = [(y, result.correlations[method].get(pair)) for y, pair in enumerate(of_panel)]
        points = [(y + offset, *e) for y, e in estimates if e is not None and not math.isnan(e.mean)]
        y, mean, low, high = zip(*points, strict=True) if points else ((), (), (), ())
        axes.scatter(mean, y, s=14, color=colour, label=method, zorder=3)
        axes.hlines(y, low, high, color=colour, linewidth=1.2)
    frame(axes, name, "Spearman's correlation over problems, 95 %", grid="x")
    axes.set_yticks(range(len(of_panel)), [" ~ ".join(map(title, pair)) for pair in of_panel])
    axes.set_ylim(len(of_panel) - 0.5, -0.5)
    axes.set_xlim(-1.02, 1.02)
    axes.axvline(0, color=GREY, linewidth=0.8)
