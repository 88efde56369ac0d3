"""The style of all figures, and how they are written: the same data gives the same bytes."""

import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.bands import Band
from diver.core.files import write_parts
from diver.core.statistics import Estimate
from diver.core.tables import Table
from diver.core.types import DiverError

COLOURS = ("#2456c5", "#c2571a", "#1f8a5b", "#8a4fbf", "#b3232f", "#5c6470", "#0e8fa8", "#a8862b", "#d0569a", "#1b1f24")
# Without the date, and for PNG the version of matplotlib, so that the same data gives the same bytes.
UNDATED: Mapping[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {"Software": None},
}
INK, GREY, RULE = "#1b1f24", "#5c6470", "#e6e8ec"


@contextmanager
def drawing(*paths: Path, size: tuple[float, float], font_size: float = 9.0) -> Iterator[Any]:
    """A matplotlib Figure of `size` inches, on white; the paths (.png, .svg or .pdf) are written when the block
    ends."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: Any = {"font.family": "sans-serif", "font.size": font_size, "svg.fonttype": "none", "text.parse_math": False}
    # A fixed salt gives an SVG the same ids each time. It is the name, since ids must differ between figures of a page.
    with rc_context({**style, "svg.hashsalt": paths[0].stem}):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        for path in paths:
            out, kind = io.BytesIO(), path.suffix.removeprefix(".")
            figure.savefig(out, format=kind, dpi=160, facecolor="white", metadata=UNDATED[kind])
            write_parts(path, [out.getvalue()])


def frame(axes: Any, title: str, x: str = "", grid: str = "y") -> None:
    """Set the title and the name of the x axis, remove all of the frame but its lower line, and draw a pale grid.

    Args:
        grid: the axis along which the grid is drawn.
    """
    axes.set_title(title, loc="left", fontweight="bold", color=INK)
    axes.set_xlabel(x, color=GREY)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis=grid, color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=GREY, length=0)


def write_intervals(table: Table, *paths: Path) -> None:
    """Draw a panel for each measure with estimates: a dot and its interval for each row of the table."""
    names = list(table.rows)
    columns_of = zip(table.measures, zip(*table.rows.values(), strict=True), strict=False)
    shown = [(m, cells) for m, cells in columns_of if any(isinstance(cell, Estimate) for cell in cells)]
    if not shown:
        raise DiverError("--figures: no measure of this table has an interval that could be drawn")
    columns = min(3, len(shown))
    lines = -(-len(shown) // columns)
    widest = max(map(len, names))
    with drawing(*paths, size=(max(1.4, 0.08 * widest) + 2.4 * columns, lines * (0.7 + 0.22 * len(names)))) as figure:
        for place, (measure, cells) in enumerate(shown):
            axes = figure.add_subplot(lines, columns, place + 1)
            for y, (cell, colour) in enumerate(zip(cells, itertools.cycle(COLOURS), strict=False)):
                if isinstance(cell, Estimate) and not math.isnan(cell.mean):
                    mean, low, high = (measure.scale * end for end in cell)
                    axes.plot([low, high], [y, y], color=colour, linewidth=1.4)
                    axes.plot([mean], [y], color=colour, marker="o", markersize=4)
            frame(axes, measure.title or measure.name, grid="x")
            axes.set_ylim(len(names) - 0.5, -0.5)
            axes.set_yticks(range(len(names)), names if place % columns == 0 else [""] * len(names))


def write_pass_curves(
    curves: Mapping[str, Mapping[int, Estimate]], *paths: Path, first: Sequence[str] = ()
) -> Sequence[Path]:
    """Draw Pass@k over k in per cent: a line for each label, with its interval as a band.

    `first` has the colours of the first lines. Returns the paths; none if no value is known.
    """
    known = {label: {k: e for k, e in by_k.items() if not math.isnan(e.mean)} for label, by_k in curves.items()}
    if not paths or not any(known.values()):
        return ()
    with drawing(*paths, size=(6.4, 4.2)) as figure:
        axes = figure.add_subplot()
        for (label, by_k), colour in zip(known.items(), itertools.chain(first, itertools.cycle(COLOURS)), strict=False):
            if by_k:
                mean, low, high = 100 * np.transpose([*by_k.values()])
                axes.plot([*by_k], mean, color=colour, marker="o", markersize=3, linewidth=1.5, label=label)
                axes.fill_between([*by_k], low, high, color=colour, alpha=0.12, linewidth=0)
        frame(axes, "Pass@k, per cent", "k, samples a problem")
        axes.set_xscale("log", base=2)
        ks = sorted({k for by_k in known.values() for k in by_k})
        axes.set_xticks(ks, [str(k) for k in ks], minor=False)
        axes.legend(frameon=False, fontsize=8)
    return paths


def write_bands(bands: Mapping[str, Band], *paths: Path) -> None:
    """Draw differences of Pass@k over k, in points: a line for each, with the band that holds at all k together."""
    with drawing(*paths, size=(6.4, 4.2)) as figure:
        axes = figure.add_subplot()
        axes.axhline(0, color=GREY, linewidth=0.8)
        for (name, band), colour in zip(bands.items(), itertools.cycle(COLOURS), strict=False):
            axes.plot(band.ks, 100 * band.mean, color=colour, linewidth=1.5, label=name)
            axes.fill_between(band.ks, 100 * band.low, 100 * band.high, color=colour, alpha=0.15, linewidth=0)
        frame(axes, "Difference of Pass@k, points; band of 95 % over all k", "k, samples a problem")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.legend(frameon=False, fontsize=8)


def write_lines(panels: Sequence[Mapping[str, Any]], names: Sequence[str], *paths: Path) -> None:
    """The panels of `diver.pages.curves`: one line per run, with a band if known; wrong responses are dashed."""
    lines = -(-len(panels) // 3)
    with drawing(*paths, size=(9.6, 2.1 * lines + 0.3)) as figure:
        for place, panel in enumerate(panels):
            axes = figure.add_subplot(lines, 3, place + 1)
            scale, unit = (100, ", per cent") if panel["percent"] else (1, "")
            for line in panel["lines"]:
                colour, style = COLOURS[line["run"] % len(COLOURS)], "--" if line.get("dashed") else "-"
                # None marks an unknown value in a panel; here it becomes NaN.
                ends = {name: scale * np.array(line[name], float) for name in ("values", "low", "high") if name in line}
                axes.plot(line["steps"], ends["values"], style, color=colour, linewidth=1.1)
                if "low" in ends:
                    axes.fill_between(line["steps"], ends["low"], ends["high"], color=colour, alpha=0.15, linewidth=0)
            frame(axes, panel["title"] + unit, "step" if place + 3 >= len(panels) else "")
            low, high = axes.get_ylim()
            axes.set_ylim(min(0, low), 100 if panel["percent"] else max(0, high))
        if len(names) > 1:
            for run, name in enumerate(names):
                figure.axes[0].plot([], [], color=COLOURS[run % len(COLOURS)], label=name)
            figure.legend(loc="outside upper right", ncols=min(4, len(names)), frameon=False)
