"""Curves of many runs: panels with a line for each variant, and bands or bars for the range over seeds or the interval.

`stacked` and `dots` are for the pages that have no curves.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.figures import COLOURS
from diver.core.files import write_parts
from diver_paper.aggregate import Study, level, of_samples
from diver_paper.experiments import INITIAL, METHODS, Panel
from diver_paper.runs import Record

SMOOTH = 9  # steps over which a training metric is averaged; odd, so that the window is centred
MANY = 5  # variants; the bands of more would hide each other, so they have bars at their ends
_TEXT, _RULE, _FADED = "#5c6470", "#e6e8ec", "#8a93a1"
_LINES = tuple(colour for colour in COLOURS if colour != _TEXT)  # _TEXT is too close to _FADED, the untrained policy's
_STYLE: Any = {"font.family": "sans-serif", "font.size": 8.0, "axes.linewidth": 0.6}


def draw(study: Study, path: Path) -> None:
    """Every panel of the experiment, three to a row, and one legend for all."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    panels = study.experiment.panels
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    colours = _colours(study.experiment.variants) | {INITIAL: _FADED}
    with rc_context(_STYLE):
        figure = Figure(figsize=(3.4 * columns, 2.5 * rows + 0.4), layout="constrained")
        axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
        for panel, box in zip(panels, axes, strict=False):
            for i, variant in enumerate(study.runs):
                _line(box, study, variant, panel, colours[variant], i)
            _frame(box, panel, "k" if panel.x == "k" else "rollout step")
        for box in axes[len(panels) :]:
            box.axis("off")
        lines = {
            line.get_label(): line for box in axes for line in box.lines if not str(line.get_label()).startswith("_")
        }
        _write(figure, lines, path)


def stacked(fractions: Mapping[str, np.ndarray], parts: Sequence[str], path: Path) -> None:
    """A bar for each variant, of parts that add up to 1. `fractions`: variant -> [parts]."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=(7.0, 0.8 + 0.28 * len(fractions)), layout="constrained")
        axes: Any = figure.subplots()
        left, bars = np.zeros(len(fractions)), {}
        for i, part in enumerate(parts):
            width = np.array([row[i] for row in fractions.values()])
            bars[part] = axes.barh(list(fractions), width, left=left, height=0.7, color=COLOURS[i])
            left = left + width
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.spines[:].set_visible(False)
        axes.tick_params(colors=_TEXT, length=0)
        axes.xaxis.set_major_formatter(_per_cent)
        _write(figure, bars, path)


def dots(panels: Sequence[tuple[str, str, np.ndarray]], variants: Sequence[str], path: Path) -> None:
    """Panels of (label of x, label of y, [runs, 2]), three to a row; `variants` names the variant of each run."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows = -(-len(panels) // 3)
    names = np.array(variants)
    with rc_context(_STYLE):
        figure = Figure(figsize=(10.2, 2.6 * rows + 0.4), layout="constrained")
        axes = np.atleast_1d(figure.subplots(rows, 3)).ravel()
        shown, colours = {}, _colours(dict.fromkeys(variants))
        for (x, y, points), box in zip(panels, axes, strict=False):
            for variant, colour in colours.items():
                shown[variant] = box.scatter(*points[names == variant].T, s=16, color=colour, zorder=3)
            _frame(box, Panel(y, y), x)
            box.grid(axis="x", color=_RULE, linewidth=0.6)
        for box in axes[len(panels) :]:
            box.axis("off")
        _write(figure, shown, path)


def _write(figure: Any, shown: Mapping[str, Any], path: Path) -> None:
    """Write the figure with one legend."""
    figure.legend(
        shown.values(), shown.keys(), loc="outside lower center", ncols=min(5, len(shown) or 1), frameon=False
    )
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=140, facecolor="white", metadata={"Software": None})
    write_parts(path, [out.getvalue()])


def _colours(variants: Iterable[str]) -> dict[str, str]:
    """A method has the same colour in every picture of methods; other variants have colours by order."""
    names = list(variants)
    order = METHODS if set(names) <= set(METHODS) else names
    return {name: _LINES[order.index(name) % len(_LINES)] for name in names}


def _line(axes: Any, study: Study, variant: str, panel: Panel, colour: str, index: int) -> None:
    if panel.x == "k":
        points = [(k, level(study, variant, f"{panel.measure}@{k}")) for k in panel.ks]
        points = [(k, e) for k, e in points if not np.isnan(e.mean)]
        x, mean = [k for k, _ in points], [e.mean for _, e in points]
        low, high = [e.low for _, e in points], [e.high for _, e in points]
    else:
        start = [curve(record, panel.measure) for record in study.runs.get(INITIAL, {}).values()]
        curves = [curve(record, panel.measure) for record in study.runs[variant].values()] if variant != INITIAL else []
        x, mean, low, high = _over_runs([{**(start[0] if start else {}), **c} for c in curves if c])
    if x:
        axes.plot(x, mean, color=colour, linewidth=1.8 if variant.startswith("diver") else 1.1, label=variant)
        if _bands(study):
            axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
        elif panel.x == "step":
            axes.vlines(x[-1] * (1.02 + 0.015 * index), low[-1], high[-1], color=colour, linewidth=1.4)


def _bands(study: Study) -> bool:
    return len(study.experiment.variants) <= MANY


def curve(record: Record, measure: str) -> dict[int, float]:
    """step -> value of a training metric, smoothed, or of eval/..., at each evaluation."""
    if measure.startswith("eval/"):
        points = {int(step): _evaluated(e, measure[5:]) for step, e in record["evaluations"].items()}
        return {step: value for step, value in points.items() if value is not None}
    column = record["metrics"].get(measure)
    if not column or None in column:
        return {}
    width = np.ones(min(SMOOTH, len(column)))
    smooth = np.convolve(column, width, "same") / np.convolve(np.ones(len(column)), width, "same")
    return dict(zip(record["metrics"]["step"], smooth.tolist(), strict=True))


def _evaluated(evaluation: Mapping[str, Any], measure: str) -> float | None:
    if "solutions" not in evaluation:
        return evaluation.get(measure)
    kind, _, k = measure.partition("@")
    values = of_samples(evaluation, kind, int(k))
    return float(values.mean()) if len(values) else None


def _over_runs(curves: list[dict[int, float]]) -> tuple[list[int], list[float], list[float], list[float]]:
    """Over the steps that every run has: mean, lowest and highest."""
    steps = sorted(set.intersection(*map(set, curves))) if curves else []
    table = np.array([[c[step] for step in steps] for c in curves])
    if not steps:
        return [], [], [], []
    return steps, table.mean(0).tolist(), table.min(0).tolist(), table.max(0).tolist()


def _frame(axes: Any, panel: Panel, x: str) -> None:
    axes.set_xlabel(x, color=_TEXT)
    axes.set_title(panel.title, loc="left", fontweight="bold", color="#1b1f24")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_RULE)
    axes.grid(axis="y", color=_RULE, linewidth=0.6)
    axes.tick_params(colors=_TEXT, length=0)
    if panel.x == "k":
        ticks = panel.ks[:: 1 + (len(panel.ks) > 6)]
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{k:,}" for k in ticks])
    if panel.measure.lower().startswith(("eval/pass", "pass", "group/", "reward/")):
        axes.yaxis.get_major_locator().set_params(steps=[1, 2, 5, 10])  # whole per cents
        axes.yaxis.set_major_formatter(_per_cent)


def _per_cent(value: float, _: int | None = None) -> str:
    return f"{100 * value:.0f} %"
