"""The picture of a study: Pass@k of each setting minus that of the tuned baseline, over k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from diver.core.figures import COLOURS, GREY, drawing, frame
from diver.core.statistics import Estimate
from verified_replay.study import BASELINE

DRAWN = (1, 2, 4, 8, 16, 32, 64)


def draw(
    path: Path, panels: Mapping[str, Mapping[str, Sequence[Estimate]]], dashed: Mapping[str, str] | None = None
) -> None:
    """A panel for each title, with a curve for each label: its differences at every k of `DRAWN`, with their intervals.

    A label has the same colour in all panels.

    Args:
        dashed: label -> the label whose colour it has; its curve is dashed, with hollow points.
    """
    dashed = dashed or {}
    labels = [*dict.fromkeys(label for curves in panels.values() for label in curves)]
    coloured = [*dict.fromkeys(dashed.get(label, label) for label in labels)]
    with drawing(path, size=(9.6, 4.2)) as figure:
        for axes, (title, curves) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels.items(), strict=True):
            frame(axes, title, "samples k")
            axes.axhline(0, color=GREY, linewidth=0.8, label=f"tuned {BASELINE}")
            for place, label in enumerate(labels):
                if gaps := curves.get(label):
                    colour = COLOURS[coloured.index(dashed.get(label, label)) % len(COLOURS)]
                    _curve(axes, place - (len(labels) - 1) / 2, gaps, colour, label, label in dashed)
            axes.set_xticks(range(len(DRAWN)), [str(k) for k in DRAWN])
        figure.axes[0].set_ylabel(f"Pass@k minus {BASELINE}'s, points", color=GREY)
        handles = {t: h for axes in figure.axes for h, t in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=7, frameon=False)


def _curve(axes: object, shift: float, gaps: Sequence[Estimate], colour: str, label: str, dashed: bool) -> None:
    """A line with a bar for each interval; `shift` keeps the bars of settings apart."""
    x = np.arange(len(gaps)) + 0.09 * shift
    style = {"linestyle": "--", "markerfacecolor": "white"} if dashed else {}
    centre, low, high = (100 * np.array([getattr(g, end) for g in gaps]) for end in ("mean", "low", "high"))
    axes.errorbar(  # type: ignore[attr-defined]
        x, centre, yerr=[centre - low, high - centre], color=colour, linewidth=1.2, elinewidth=0.7, marker="o",
        markersize=4, label=label, **style,
    )  # fmt: skip
