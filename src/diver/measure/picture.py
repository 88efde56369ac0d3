"""The correlations of a validity study as one picture: a dot and an interval a pair and method."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

from diver.io.files import write_bytes
from diver.measure.validity import Pair, Validity, is_metric, pairs, title
from diver.render.style import COLOURS

GREY, RULE = "#5c6470", "#e6e8ec"


def write_picture(result: Validity, path: Path) -> None:
    """Metrics with each other on the left; with Pass@k and length on the right. White, 160 dots an inch."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    both = pairs(result)
    panels = [
        ("Metrics with each other", [p for p in both if all(map(is_metric, p))]),
        ("Metrics with correctness and length", [p for p in both if not all(map(is_metric, p))]),
    ]
    rows = max(len(of) for _, of in panels)
    style: Any = {"font.family": "sans-serif", "font.size": 8.5}
    with rc_context(style):
        figure = Figure(figsize=(10.0, 1.1 + (0.16 + 0.12 * len(result.means)) * rows), layout="constrained")
        for axes, (name, of) in zip(figure.subplots(1, 2), panels, strict=True):
            _panel(axes, name, of, result)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=160, facecolor="white", metadata={"Software": None})
    write_bytes(path, out.getvalue())


def _panel(axes: Any, name: str, of: list[Pair], result: Validity) -> None:
    methods = list(result.correlations)
    for number, (method, colour) in enumerate(zip(methods, COLOURS * len(methods), strict=False)):
        offset = (number - (len(methods) - 1) / 2) * 0.6 / len(methods)
        found = [(y, result.correlations[method].get(pair)) for y, pair in enumerate(of)]
        points = [(y + offset, *e) for y, e in found if e is not None and not math.isnan(e.mean)]
        axes.scatter([p[1] for p in points], [p[0] for p in points], s=14, color=colour, label=method, zorder=3)
        axes.hlines([p[0] for p in points], [p[2] for p in points], [p[3] for p in points], color=colour, linewidth=1.2)
    axes.set_title(name, loc="left", fontweight="bold", color="#1b1f24")
    axes.set_yticks(range(len(of)), [" ~ ".join(map(title, pair)) for pair in of])
    axes.set_ylim(len(of) - 0.5, -0.5)
    axes.set_xlim(-1.02, 1.02)
    axes.set_xlabel("Spearman's correlation over problems, 95 %", color=GREY)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=GREY, length=0)
