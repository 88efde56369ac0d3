"""The picture of the study: the front of each setting, Pass@64 against Pass@1, on the selection problems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from diver.core.figures import COLOURS, GREY, INK, drawing, frame
from diver.evaluate.front import Pair
from diver.sweep.choose import Policy, mean
from diver.sweep.plan import SELECTION, UNTRAINED

TRAINED = Pair(1.0, 0.6)
"""The trained policy as the replay study samples it."""
Point = tuple[float, float]


def draw(path: Path, panels: Mapping[str, Mapping[str, Policy]], ks: tuple[int, int]) -> None:
    """A panel for each testbed: a line through the best policies of each setting, and a dot at the trained one.

    A setting has the same colour in all panels. The untrained policy is dashed.
    """
    labels = [*dict.fromkeys(label for panel in panels.values() for label in panel if label != UNTRAINED)]
    with drawing(path, size=(9.6, 4.6)) as figure:
        for axes, (title, panel) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
            frame(axes, title, f"Pass@{ks[0]}, per cent", grid="both")
            for label, policy in panel.items():
                reached = {pair: _point(policy, pair, ks) for pair in policy.pairs(SELECTION)}
                untrained = label == UNTRAINED
                colour = INK if untrained else COLOURS[labels.index(label)]
                line = front([p for pair, p in reached.items() if bool(pair.alpha) != untrained])
                style = "--" if untrained else "-"
                axes.plot(*zip(*line, strict=True), style, color=colour, linewidth=1.3, label=label)
                if not untrained:
                    axes.plot(*reached[TRAINED], "o", color=colour, markersize=5)
        figure.axes[0].set_ylabel(f"Pass@{ks[1]}, per cent", color=GREY)
        handles = {t: h for axes in figure.axes for h, t in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5, frameon=False)


def _point(policy: Policy, pair: Pair, ks: tuple[int, int]) -> Point:
    x, y = (100 * mean(policy.values(SELECTION, pair, k)) for k in ks)
    return x, y


def front(points: list[Point]) -> list[Point]:
    """The points that no other point equals or exceeds in both coordinates, by rising x."""
    return sorted(p for p in points if not any(q != p and q[0] >= p[0] and q[1] >= p[1] for q in points))
