"""The difference of Pass@k over k as the page draws it: the band that holds at all k, and the interval at each k."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from diver.core.bands import Band
from diver.pages import page

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 180, 38, 8, 12, 22  # as in curves.js
NOTE = (
    "Difference in points at each k. Light: a 95 % band for the complete curve. Dark: the 95 % interval at a single "
    "k; to compare several k, use the band."
)


def band_figures(bands: Mapping[str, Band], words: Mapping[str, str]) -> str:
    """A figure for each band, under its name, with `words` on its ranges below; empty without any."""
    if not bands:
        return ""
    figures = "".join(
        f"<figure><figcaption><h3>{page.text(name)}</h3></figcaption>{_drawn(band, i)}"
        f'<p class="note">{page.text(words[name])}</p></figure>'
        for i, (name, band) in enumerate(bands.items())
    )
    return (
        f'<h3 class="bands">Difference of Pass@k over k</h3>\n<p class="note">{NOTE}</p>\n'
        f'<div class="panels">{figures}</div>'
    )


def _drawn(band: Band, colour: int) -> str:
    marks = ticks(100 * min(0, *band.low), 100 * max(0, *band.high))
    octaves = np.log2(band.ks / band.ks[0])
    places = LEFT + (WIDTH - LEFT - RIGHT) * octaves / octaves[-1]

    def y(points: Any) -> Any:  # a number or an array
        return np.interp(points, [marks[0], marks[-1]], [HEIGHT - BOTTOM, TOP])

    def path(values: np.ndarray, xs: np.ndarray = places) -> str:
        return "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, y(100 * values), strict=True))

    def area(name: str, below: np.ndarray, above: np.ndarray) -> str:
        return f'<path class="{name}" d="M{path(above)}L{path(below[::-1], places[::-1])}Z"/>'

    rows = "".join(
        f'<line class="{"grid" if tick else "zero"}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" '
        f'y2="{y(tick):.1f}"/><text x="{LEFT - 6}" y="{y(tick) + 3.5:.1f}" text-anchor="end">'
        f"{f'{tick:+g}' if tick else 0}</text>"
        for tick in marks
    )
    every = max(1, math.ceil(octaves[-1] / 8))
    columns = "".join(
        f'<text x="{np.interp(power, octaves, places):.1f}" y="{HEIGHT - 7}" text-anchor="middle">{1 << power:,}</text>'
        for power in range(0, int(octaves[-1]) + 1, every)
    )
    areas = area("band", band.low, band.high) + area("band single", *band.single)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Difference of Pass@k by k, in points">'
        f'{rows}{columns}<g class="line r{colour % 6}">{areas}<path class="thick" d="M{path(band.mean)}"/></g></svg>'
    )


def ticks(low: float, high: float) -> list[float]:
    """Round numbers that span low to high, about four."""
    rough = (high - low or 1) / 4
    power = 10 ** math.floor(math.log10(rough))
    unit = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first = math.floor(low / unit)
    return [unit * i for i in range(first, max(math.ceil(high / unit), first + 1) + 1)]
