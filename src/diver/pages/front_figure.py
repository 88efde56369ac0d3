"""Fronts as the page draws them: one accuracy against another, with a line for each setting through its policies."""

from collections.abc import Mapping, Sequence

import numpy as np

from diver.pages import page
from diver.pages.band_figure import ticks

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 320, 34, 14, 28, 40
UNTRAINED = "untrained"
"""The label of the policy before training, whose point is drawn as a ring."""
LETTER = 5.8  # width of a letter of a label at 10.5 px, about
SIDES = ((0, 3.5), (1, 3.5), (2, -8), (2, 16), (0, -6), (1, -6), (0, 13), (1, 13))
"""Where a label may stand, the best first: right of its point (0), left of it (1) or centred, and how far below."""
Box = tuple[float, float, float, float]  # left, top, right, bottom


def front_svg(series: Mapping[str, Sequence[tuple[float, float, str]]], x_label: str, y_label: str) -> str:
    """A figure for `.panels` of the page: the names of the lines, if there are several, and their points.

    Args:
        series: by the name of a line, its points in their order: x, y and a label. x and y are fractions, which are
            shown in per cent. A line without points is left out.
    """
    series = {name: points for name, points in series.items() if points}
    if not series:
        return ""
    x, y = 100 * np.array([point[:2] for points in series.values() for point in points]).T
    columns, rows, low, right = ticks(x.min(), x.max()), ticks(y.min(), y.max()), HEIGHT - BOTTOM, WIDTH - RIGHT
    x, y = np.interp(x, columns[:: len(columns) - 1], [LEFT, right]), np.interp(y, rows[:: len(rows) - 1], [low, TOP])
    places, drawn, ring = zip(x, y, strict=True), "", ' class="ring"'
    for tick, at in zip(rows, np.linspace(low, TOP, len(rows)), strict=True):
        drawn += f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>'
        drawn += f'<text x="{LEFT - 6}" y="{at + 3.5:.1f}" text-anchor="end">{tick:g}</text>'
    for tick, at in zip(columns, np.linspace(LEFT, right, len(columns)), strict=True):
        drawn += f'<path class="grid" d="M{at:.1f} {TOP}V{low}"/>'
        drawn += f'<text x="{at:.1f}" y="{low + 15}" text-anchor="middle">{tick:g}</text>'
    taken = [(a - 4, b - 4, a + 4, b + 4) for a, b in zip(x, y, strict=True)]
    labelled = set[tuple[float, float, str]]()
    for i, points in enumerate(series.values()):
        spots = [(*next(places), label) for _, _, label in points]
        marks = "".join(f'<circle{ring * (t == UNTRAINED)} cx="{a:.1f}" cy="{b:.1f}" r="3.5"/>' for a, b, t in spots)
        marks += "".join(_label(label, a, b, taken) for a, b, label in spots if (a, b, label) not in labelled)
        labelled |= {*spots}  # lines that begin at the same policy name it once
        drawn += f'<g class="line r{i % 6}"><path d="M{"L".join(f"{a:.1f} {b:.1f}" for a, b, _ in spots)}"/>{marks}</g>'
    names = "".join(f"<span>{page.swatch(i)}{page.text(name)}</span>" for i, name in enumerate(series))
    legend = f"<figcaption><b>{names}</b></figcaption>" if len(series) > 1 else ""
    x_title, y_title = page.text(x_label), page.text(y_label)
    drawn += f'<text y="12">{y_title}, %</text><text x="{right}" y="{HEIGHT - 7}" text-anchor="end">{x_title}, %</text>'
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{y_title} against {x_title}">{drawn}</svg>'
    return f'<figure class="front">{legend}{svg}</figure>'


def _label(label: str, x: float, y: float, taken: list[Box]) -> str:
    """The label of a point where it covers the fewest of `taken`, to which its box is added."""
    width = LETTER * len(label)
    lefts = x + 7, x - 7 - width, x - width / 2
    boxes = [(lefts[side], y + below - 9, lefts[side] + width, y + below + 2) for side, below in SIDES]

    def covered(b: Box) -> int:
        outside = b[0] < 0 or b[2] > WIDTH or b[1] < TOP - 12 or b[3] > HEIGHT - BOTTOM
        # A label outside the figure is worse than one that covers several others.
        return 9 * outside + sum(b[0] < t[2] and t[0] < b[2] and b[1] < t[3] and t[1] < b[3] for t in taken)

    taken.append(min(boxes, key=covered))
    return f'<text x="{taken[-1][0]:.1f}" y="{taken[-1][3] - 2:.1f}">{page.text(label)}</text>'
