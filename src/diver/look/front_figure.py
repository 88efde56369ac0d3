"""Fronts as the page draws them: one accuracy against another, with a line for each setting through its policies."""

from collections.abc import Mapping, Sequence

import numpy as np

from diver.look import page
from diver.look.band_figure import ticks

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 320, 34, 14, 28, 40
UNTRAINED = "untrained"
"""The label of the policy before training, whose point is drawn as a ring."""
LETTER = 5.8  # width of a letter of a label at 10.5 px, about
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
    x_ticks, y_ticks = ticks(x.min(), x.max()), ticks(y.min(), y.max())
    x = np.interp(x, [x_ticks[0], x_ticks[-1]], [LEFT, WIDTH - RIGHT])
    y = np.interp(y, [y_ticks[0], y_ticks[-1]], [HEIGHT - BOTTOM, TOP])
    taken = [(a - 4, b - 4, a + 4, b + 4) for a, b in zip(x, y, strict=True)]
    places = zip(x, y, strict=True)
    lines, ring, drawn = "", ' class="ring"', set[tuple]()
    for i, points in enumerate(series.values()):
        own = [(*next(places), label) for _, _, label in points]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b, _ in own)
        marks = "".join(
            f'<circle{ring * (label == UNTRAINED)} cx="{a:.1f}" cy="{b:.1f}" r="3.5"/>' for a, b, label in own
        )
        labels = "".join(_label(label, a, b, taken) for a, b, label in own if (a, b, label) not in drawn)
        drawn |= {*own}  # lines that begin at the same policy name it once
        lines += f'<g class="line r{i % 6}"><path d="M{path}"/>{marks}{labels}</g>'
    names = "".join(f"<span>{page.swatch(i)}{page.text(name)}</span>" for i, name in enumerate(series))
    legend = f"<figcaption><b>{names}</b></figcaption>" if len(series) > 1 else ""
    about = page.text(f"{y_label} against {x_label}")
    return (
        f'<figure class="front">{legend}<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{about}">'
        f"{_axes(x_ticks, y_ticks, x_label, y_label)}{lines}</svg></figure>"
    )


def _axes(x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str, y_label: str) -> str:
    low, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    drawn = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{tick:g}</text>'
        for tick, y in zip(y_ticks, np.linspace(low, TOP, len(y_ticks)), strict=True)
    )
    drawn += "".join(
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{low}"/>'
        f'<text x="{x:.1f}" y="{low + 15}" text-anchor="middle">{tick:g}</text>'
        for tick, x in zip(x_ticks, np.linspace(LEFT, right, len(x_ticks)), strict=True)
    )
    return (
        f'{drawn}<text x="0" y="12">{page.text(y_label)}, %</text>'
        f'<text x="{right}" y="{HEIGHT - 7}" text-anchor="end">{page.text(x_label)}, %</text>'
    )


def _label(label: str, x: float, y: float, taken: list[Box]) -> str:
    """The label of a point, beside, above or below it, where it covers the fewest of `taken`, to which it is added."""
    wide = LETTER * len(label)

    def box(left: float, base: float) -> Box:
        return left, base - 9, left + wide, base + 2

    sides = x + 7, x - 7 - wide, x - wide / 2
    boxes = [box(sides[i], base) for i, base in ((0, y + 3.5), (1, y + 3.5), (2, y - 8), (2, y + 16))]
    boxes += [box(sides[i], base) for base in (y - 6, y + 13) for i in (0, 1)]

    def covered(b: Box) -> int:
        outside = b[0] < 0 or b[2] > WIDTH or b[1] < TOP - 12 or b[3] > HEIGHT - BOTTOM
        return 9 * outside + sum(b[0] < t[2] and t[0] < b[2] and b[1] < t[3] and t[1] < b[3] for t in taken)

    best = min(boxes, key=covered)
    taken.append(best)
    return f'<text x="{best[0]:.1f}" y="{best[3] - 2:.1f}">{page.text(label)}</text>'
