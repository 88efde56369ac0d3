"""Curves of many runs: small multiples, a line a variant, its band what the seeds and problems leave open."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diver.evaluate.tables import COLOURS
from diver.experiments.catalogue import Panel
from diver.experiments.reading import INITIAL, Record, Study, level, of_samples

KS = tuple(1 << i for i in range(11))
SMOOTH = 9  # steps that a training metric is averaged over; odd, so that it is centred
_TEXT, _RULE, _FADED = "#5c6470", "#e6e8ec", "#8a93a1"
_STYLE: Any = {"font.family": "sans-serif", "font.size": 8.0, "axes.linewidth": 0.6}


def picture(study: Study, path: Path) -> None:
    """Every panel of the experiment, three to a row, and one legend for all."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    panels = study.experiment.panels
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    colours = dict(zip((v for v in study.runs if v != INITIAL), COLOURS, strict=False)) | {INITIAL: _FADED}
    with rc_context(_STYLE):
        figure = Figure(figsize=(3.4 * columns, 2.5 * rows + 0.4), layout="constrained")
        axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
        for panel, at in zip(panels, axes, strict=False):
            for variant in study.runs:
                _line(at, study, variant, panel, colours[variant])
            _frame(at, panel)
        for at in axes[len(panels) :]:
            at.axis("off")
        lines = {
            line.get_label(): line for at in axes for line in at.lines if not str(line.get_label()).startswith("_")
        }
        figure.legend(
            lines.values(), lines.keys(), loc="outside lower center", ncols=min(5, len(lines) or 1), frameon=False
        )
        out = io.BytesIO()
        figure.savefig(out, format="png", dpi=140, facecolor="white", metadata={"Software": None})
    aside = path.with_name(f".{path.name}.part")
    aside.write_bytes(out.getvalue())
    aside.replace(path)


def _line(axes: Any, study: Study, variant: str, panel: Panel, colour: str) -> None:
    if panel.x == "k":
        points = [(k, level(study, variant, f"{panel.measure}@{k}")) for k in KS]
        points = [(k, e) for k, e in points if not np.isnan(e.mean)]
        x, mean = [k for k, _ in points], [e.mean for _, e in points]
        low, high = [e.low for _, e in points], [e.high for _, e in points]
    else:
        start = [curve(record, panel.measure) for record in study.runs.get(INITIAL, {}).values()]
        found = [curve(record, panel.measure) for record in study.runs[variant].values()] if variant != INITIAL else []
        x, mean, low, high = _over_runs([{**(start[0] if start else {}), **c} for c in found if c])
    if x:
        axes.plot(x, mean, color=colour, linewidth=1.2, label=variant)
        axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)


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
    found = of_samples(evaluation, kind, int(k))
    return float(found.mean()) if len(found) else None


def _over_runs(curves: list[dict[int, float]]) -> tuple[list[int], list[float], list[float], list[float]]:
    """Over the steps that every run has: mean, lowest and highest."""
    steps = sorted(set.intersection(*map(set, curves))) if curves else []
    table = np.array([[c[step] for step in steps] for c in curves])
    if not steps:
        return [], [], [], []
    return steps, table.mean(0).tolist(), table.min(0).tolist(), table.max(0).tolist()


def _frame(axes: Any, panel: Panel) -> None:
    axes.set_title(panel.title, loc="left", fontweight="bold", color="#1b1f24")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(_RULE)
    axes.grid(axis="y", color=_RULE, linewidth=0.6)
    axes.tick_params(colors=_TEXT, length=0)
    if panel.x == "k":
        axes.set_xscale("log", base=2)
        axes.set_xticks(KS[::2], [f"{k:,}" for k in KS[::2]])
    if panel.measure.startswith(("eval/pass", "pass", "group/", "reward/")):
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")


def legend_note(study: Study) -> str:
    """What the bands of the picture are."""
    kinds = {panel.x for panel in study.experiment.panels}
    told = {
        "step": "over steps: mean over seeds, the band from the lowest to the highest",
        "k": "over k: 95 % intervals over seeds and problems",
    }
    return "; ".join(told[kind] for kind in sorted(kinds, reverse=True))
