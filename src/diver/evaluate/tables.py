"""The results of one model as a Markdown table and as a figure of the Pass@k curves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diver.render.figures import COLOURS, drawing, frame, percent
from diver.render.tables import markdown

Results = Mapping[str, Mapping[str, Any]]
NOTE = (
    "Per cent, with 95 % bootstrap intervals over problems; Pass@k is the unbiased estimate from all samples. "
    "distinct: different correct solutions among k samples; written differently: sets of formulas that correct samples write."
)


def benchmark_table(results: Results) -> str:
    """A column a benchmark, a row an estimate; an estimate that a benchmark does not have is a dash."""
    rows = [
        ["problems x samples", *(f"{r['problems']} x {r['samples']}" for r in results.values())],
        ["Avg@n", *(_cell(r["estimates"].get(f"avg@{r['samples']}")) for r in results.values())],
    ]
    for title, kind in (("Pass", "pass"), ("Maj", "maj")):
        for k in _ks(results, kind):
            rows.append([f"{title}@{k}", *(_cell(r["estimates"].get(f"{kind}@{k}")) for r in results.values())])
    if largest := _ks(results, "distinct")[-1:]:
        name = f"distinct@{largest[0]}"
        for label, exact in ((name, True), (f"written differently@{largest[0]}", False)):
            of_kind = [
                r["estimates"].get(name) if r.get("exact_solutions", True) is exact else None for r in results.values()
            ]
            rows += [[label, *(_cell(e, scale=1) for e in of_kind)]] * any(of_kind)
    rows.append(
        [
            "random baseline",
            *("–" if r["random_baseline"] is None else f"{100 * r['random_baseline']:.1f}" for r in results.values()),
        ]
    )
    rows.append(["unscored", *(str(r["unscored"]) for r in results.values())])
    return markdown(["", *(r["title"] for r in results.values())], rows) + f"\n{NOTE}\n"


def _ks(results: Results, kind: str) -> list[int]:
    names = {name for r in results.values() for name in r["estimates"] if name.startswith(f"{kind}@")}
    return sorted(int(name.partition("@")[2]) for name in names)


def _cell(estimate: Mapping[str, Any] | None, scale: int = 100) -> str:
    if estimate is None or estimate["mean"] is None:
        return "–"
    mean, low, high = (estimate[end] for end in ("mean", "low", "high"))
    return f"{scale * mean:.1f}" + ("" if low is None else f" ({scale * low:.1f}–{scale * high:.1f})")


def write_curves(results: Results, folder: Path) -> None:
    """pass_at_k.png and pass_at_k.svg: a line a benchmark over k, its interval as a band."""
    ks = _ks(results, "pass")
    with drawing(folder / "pass_at_k.png", folder / "pass_at_k.svg", size=(6.4, 4.0)) as figure:
        axes = figure.add_subplot()
        for result, colour in zip(results.values(), COLOURS * len(results), strict=False):
            _line(axes, result, colour)
        frame(axes, "Pass@k", "k, samples a problem")
        axes.set_xscale("log", base=2)
        axes.set_xticks(ks, [str(k) for k in ks], minor=False)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(percent)
        if axes.lines:
            axes.legend(frameon=False, fontsize=8)


def _line(axes: Any, result: Mapping[str, Any], colour: str) -> None:
    estimates = {k: result["estimates"].get(f"pass@{k}") for k in result["k"]}
    points = [
        (k, *(e[end] for end in ("mean", "low", "high"))) for k, e in estimates.items() if e and e["mean"] is not None
    ]
    if not points:
        return
    ks, mean, low, high = zip(*points, strict=True)
    axes.plot(ks, mean, color=colour, linewidth=1.5, marker="o", markersize=3, label=result["title"], clip_on=False)
    if None not in (*low, *high):
        axes.fill_between(ks, low, high, color=colour, alpha=0.13, linewidth=0)
