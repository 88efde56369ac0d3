"""Pass@k over k, and its difference over k with the band that holds at all k and the interval at each k."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diver.core.bands import Band
from diver.core.statistics import Estimate
from diver.evaluate.comparison import BEFORE
from diver.pages import page

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 180, 38, 8, 12, 22  # as in curves.js
NOTE = (
    "Light: a 95 % band for the complete curve. Dark: the interval at a single k; to compare several k, use the band."
)
Area = tuple[str, np.ndarray, np.ndarray]  # class, low, high
Line = tuple[str, np.ndarray, list[Area]]  # class, mean, areas


def pass_figure(ks: Sequence[int], lines: Mapping[str, Sequence[Estimate]]) -> str:
    """Pass@k against k with 95 % intervals; grey before training. Empty without a line or a second k."""
    drawn: list[Line] = []
    names, colours = "", itertools.count()
    for name, estimates in lines.items():
        mean, low, high = np.array(estimates, dtype=float).reshape(-1, 3).T
        if len(ks) > 1 and not np.isnan(mean).all():
            kind = "base" if name == BEFORE else f"r{next(colours) % 6}"
            low, high = (np.where(np.isnan(end), mean, end) for end in (low, high))
            drawn.append((kind, mean, [("band", low, high)]))
            names += f'<span><i class="swatch {kind}"></i>{page.text(name)}</span>'
    if not drawn:
        return ""
    svg = _svg(np.array(ks), drawn, [0, 25, 50, 75, 100], "{:g} %", "Pass@k by k, in per cent")
    return f'<figure class="several"><figcaption><h3>Pass@k</h3><b>{names}</b></figcaption>{svg}</figure>'


def band_figures(
    bands: Mapping[str, Band], words: Mapping[str, str], names: Sequence[str] = (), minus: str = ""
) -> str:
    """A figure for each band; empty without bands. The name and `minus` are its title, the place of the name in `names`
    is its colour, and `words` on its ranges stand below."""
    figures = ""
    for name, band in bands.items():
        marks = ticks(100 * min(0, *band.low), 100 * max(0, *band.high))
        areas = [("band", band.low, band.high), ("band single", *band.single)]
        colour = f"r{names.index(name) % 6 if name in names else 0}"
        svg = _svg(band.ks, [(colour, band.mean, areas)], marks, "{:+g}", "Difference of Pass@k by k, in points")
        figures += (
            f"<figure><figcaption><h3>{page.text(f'{name} {minus}'.strip())}, points</h3></figcaption>{svg}"
            f'<p class="note">{page.text(words[name])} {NOTE}</p></figure>'
        )
    return figures


def _svg(ks: np.ndarray, lines: Sequence[Line], marks: Sequence[float], tick: str, label: str) -> str:
    octaves = np.log2(ks / ks[0])
    places = LEFT + (WIDTH - LEFT - RIGHT) * octaves / octaves[-1]

    def y(points: Any) -> Any:  # a number or an array
        return np.interp(points, [marks[0], marks[-1]], [HEIGHT - BOTTOM, TOP])

    def path(values: np.ndarray, backwards: bool = False) -> str:
        points = [(x, v) for x, v in zip(places, y(100 * values), strict=True) if not math.isnan(v)]
        return "L".join(f"{x:.1f} {v:.1f}" for x, v in (reversed(points) if backwards else points))

    rows = "".join(
        f'<line class="{"grid" if mark else "zero"}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(mark):.1f}" '
        f'y2="{y(mark):.1f}"/><text x="{LEFT - 6}" y="{y(mark) + 3.5:.1f}" text-anchor="end">'
        f"{tick.format(mark).replace('-', '−') if mark else 0}</text>"
        for mark in marks
    )
    stride = max(1, math.ceil(octaves[-1] / 8))
    columns = "".join(
        f'<text x="{np.interp(power, octaves, places):.1f}" y="{HEIGHT - 7}" text-anchor="middle">'
        f"{'' if power else 'k = '}{int(ks[0]) << power:,}</text>"
        for power in range(0, int(octaves[-1]) + 1, stride)
    )
    drawn = ""
    for kind, mean, areas in lines:
        shapes = "".join(f'<path class="{name}" d="M{path(b)}L{path(a, True)}Z"/>' for name, a, b in areas)
        drawn += f'<g class="line {kind}">{shapes}<path class="thick" d="M{path(mean)}"/></g>'
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{rows}{columns}{drawn}</svg>'


def ticks(low: float, high: float) -> list[float]:
    """Round numbers that span low to high, about four."""
    rough = (high - low or 1) / 4
    power = 10 ** math.floor(math.log10(rough))
    # 0.999: rounding must not skip a unit that fits exactly.
    unit = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first = math.floor(low / unit)
    return [unit * i for i in range(first, max(math.ceil(high / unit), first + 1) + 1)]
