"""The results of one model as a Markdown table and as a figure of the Pass@k curves."""

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diver.io.jsonl import number
from diver.render.figures import COLOURS, drawing, frame
from diver.render.tables import markdown
from diver.stats import Estimate

UNKNOWN = Estimate(math.nan, math.nan, math.nan)
Results = Mapping[str, Mapping[str, Any]]
NOTE = (
    "Per cent, with 95 % intervals over problems; Pass@k is the unbiased estimate from all samples. "
    "distinct: different correct solutions among k samples; written differently: sets of formulas that correct samples write."
)


def benchmark_table(results: Results) -> str:
    """A column a benchmark, a row an estimate; an estimate that a benchmark does not have is a dash."""
    rows = [
        ["problems x samples", *(f"{r['problems']} x {r['samples']}" for r in results.values())],
        ["Avg@n", *(_estimate(r, f"avg@{r['samples']}").text(100) for r in results.values())],
    ]
    for title, kind in (("Pass", "pass"), ("Maj", "maj")):
        for k in _ks(results, kind):
            rows.append([f"{title}@{k}", *(_estimate(r, f"{kind}@{k}").text(100) for r in results.values())])
    for largest in _ks(results, "distinct")[-1:]:
        for label, exact in (("distinct", True), ("written differently", False)):
            if any(_exact(r) is exact for r in results.values()):
                estimates = [
                    _estimate(r, f"distinct@{largest}") if _exact(r) is exact else UNKNOWN for r in results.values()
                ]
                rows.append([f"{label}@{largest}", *(e.text() for e in estimates)])
    baselines = (r["random_baseline"] for r in results.values())
    rows.append(["random baseline", *("–" if b is None else f"{100 * b:.1f}" for b in baselines)])
    rows.append(["unscored", *(str(r["unscored"]) for r in results.values())])
    return markdown(["", *(r["title"] for r in results.values())], rows) + f"\n{NOTE}\n"


def _exact(result: Mapping[str, Any]) -> bool:
    """Whether `distinct` counts solutions, not ways of writing them."""
    return result.get("exact_solutions", True)


def _ks(results: Results, kind: str) -> list[int]:
    names = {name for r in results.values() for name in r["estimates"] if name.startswith(f"{kind}@")}
    return sorted(int(name.partition("@")[2]) for name in names)


def _estimate(result: Mapping[str, Any], name: str) -> Estimate:
    stored = result["estimates"].get(name, {})
    return Estimate(*(number(stored.get(end)) for end in Estimate._fields))


def write_curves(results: Results, folder: Path) -> None:
    """pass_at_k.png and pass_at_k.svg: a line a benchmark over k, its interval as a band."""
    from matplotlib.ticker import PercentFormatter

    with drawing(folder / "pass_at_k.png", folder / "pass_at_k.svg", size=(6.4, 4.0)) as figure:
        axes = figure.add_subplot()
        for result, colour in zip(results.values(), itertools.cycle(COLOURS), strict=False):
            estimates = {k: _estimate(result, f"pass@{k}") for k in result["k"]}
            known = {k: e for k, e in estimates.items() if not math.isnan(e.mean)} or {1: UNKNOWN}
            mean, low, high = zip(*known.values(), strict=True)
            style = {"linewidth": 1.5, "marker": "o", "markersize": 3, "clip_on": False}
            axes.plot([*known], mean, color=colour, label=result["title"], **style)
            axes.fill_between([*known], low, high, color=colour, alpha=0.13, linewidth=0)
        frame(axes, "Pass@k", "k, samples a problem")
        axes.set_xscale("log", base=2)
        ks = _ks(results, "pass")
        axes.set_xticks(ks, [str(k) for k in ks], minor=False)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        axes.legend(frameon=False, fontsize=8)
