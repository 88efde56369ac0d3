"""The difference of Pass@k over k as the page draws it: the band that holds at all k, and the interval at each k."""

import math
from collections.abc import Mapping

import numpy as np

from diver.core.bands import Band
from diver.look import page

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 180, 38, 8, 12, 22  # as in curves.js
NOTE = (
    "By k, in points. Pale: the band that holds the expected difference at all k together in 95 % of cases. Dark: the "
    "95 % interval at each k alone, which says nothing of several k."
)


def band_figures(bands: Mapping[str, Band], words: Mapping[str, str]) -> str:
    """A figure for each band, under its name, with `words` on its ranges below; empty without any."""
    figures = "".join(
        f"<figure><figcaption><h3>{page.text(name)}</h3></figcaption>{_drawn(band, i)}"
        f'<p class="note">{page.text(words[name])}</p></figure>'
        for i, (name, band) in enumerate(bands.items())
    )
    return (
        f'<h3 class="bands">Difference of Pass@k over k</h3>\n<p class="note">{NOTE}</p>\n'
        f'<div class="panels">{figures}</div>'
        if figures
        else ""
    )


def _drawn(band: Band, colour: int) -> str:
    low, high = 100 * min(0, *band.low), 100 * max(0, *band.high)
    unit = _unit(high - low)
    first = math.floor(low / unit)
    last = max(math.ceil(high / unit), first + 1)
    octaves = math.log2(band.ks[-1] / band.ks[0])

    def x(k: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log2(k / band.ks[0]) / octaves

    def y(points: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (points - unit * first) / (unit * (last - first))

    def path(values: np.ndarray, ks: np.ndarray) -> str:
        return "L".join(f"{x(k):.1f} {y(100 * value):.1f}" for k, value in zip(ks, values, strict=True))

    def area(name: str, ends: tuple[np.ndarray, np.ndarray]) -> str:
        below, above = ends
        return f'<path class="{name}" d="M{path(above, band.ks)}L{path(below[::-1], band.ks[::-1])}Z"/>'

    rows = "".join(
        f'<line class="{"zero" if tick == 0 else "grid"}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(unit * tick):.1f}" '
        f'y2="{y(unit * tick):.1f}"/><text x="{LEFT - 6}" y="{y(unit * tick) + 3.5:.1f}" text-anchor="end">'
        f"{unit * tick:+g}</text>".replace(">+0<", ">0<")
        for tick in range(first, last + 1)
    )
    every = max(1, math.ceil(octaves / 8))
    columns = "".join(
        f'<text x="{x(1 << power):.1f}" y="{HEIGHT - 7}" text-anchor="middle">{1 << power:,}</text>'
        for power in range(0, int(octaves) + 1, every)
    )
    line = f'<path class="thick" d="M{path(band.mean, band.ks)}"/>'
    areas = area("band", (band.low, band.high)) + area("band single", band.single)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Difference of Pass@k by k, in points">'
        f'{rows}{columns}<g class="line r{colour % 6}">{areas}{line}</g></svg>'
    )


def _unit(size: float) -> float:
    """The round number of which about four make `size`."""
    rough = (size or 1) / 4
    power = 10 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
