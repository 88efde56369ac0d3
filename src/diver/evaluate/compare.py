"""Runs side by side: the difference over the problems that both have, with an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.evaluate.store import read_results
from diver.render.tables import markdown
from diver.stats import Estimate, paired_interval, pass_at_k
from diver.types import DiverError


def compare(paths: Sequence[Path]) -> str:
    """Each run against the first, as Markdown. DiverError where two runs share no benchmark or no problem."""
    if len(paths) < 2:
        raise DiverError("--compare: name two result folders or more, the first is what the others are compared with")
    runs = [read_results(path) for path in paths]
    first = runs[0]
    return "\n".join(_pair(first, other, paths[0], path) for other, path in zip(runs[1:], paths[1:], strict=True))


def _pair(a: Mapping[str, Any], b: Mapping[str, Any], path_a: Path, path_b: Path) -> str:
    shared = [name for name in a["benchmarks"] if name in b["benchmarks"]]
    if not shared:
        raise DiverError(f"--compare: {path_a} and {path_b} have no benchmark in common")
    rows = []
    for name in shared:
        left, right = a["benchmarks"][name], b["benchmarks"][name]
        for label, (x, y, gap) in differences(left, right).items():
            sign = "" if np.isnan(gap.low) else " *" if gap.low > 0 or gap.high < 0 else ""
            cells = [
                f"{100 * x:.1f}",
                f"{100 * y:.1f}",
                f"{100 * gap.mean:+.1f}",
                f"{100 * gap.low:+.1f} … {100 * gap.high:+.1f}{sign}",
            ]
            rows.append([f"{left['title']} {label}", *cells])
    title = f"{path_b} ({b['model']}) against {path_a} ({a['model']})\n\n"
    table = markdown(["", str(path_a), str(path_b), "difference", "95 % interval"], rows)
    return (
        title
        + table
        + "\nPer cent, over the problems of both; * : the interval does not hold 0.\n"
        + _unlike(a, b, shared)
    )


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[float, float, Estimate]]:
    """ "Avg" and "Pass@k" for each k of both -> (mean of a, mean of b, b - a), over the problems that both have."""
    rows_a, rows_b = ({row["id"]: row for row in r["per_problem"]} for r in (a, b))
    both = [name for name in rows_a if name in rows_b]
    if not both:
        raise DiverError(f"--compare: the runs have no problem of {a['title']} in common")
    ks = sorted({1} | (set(a["k"]) & set(b["k"])))
    found = {}
    for k in ks:
        x, y = (
            pass_at_k(np.array([rows[i]["n"] for i in both]), np.array([rows[i]["c"] for i in both]), k)
            for rows in (rows_a, rows_b)
        )
        known = ~np.isnan(x) & ~np.isnan(y)
        if known.any():
            found[f"Pass@{k}"] = (float(x[known].mean()), float(y[known].mean()), paired_interval(x, y))
    return found


def _unlike(a: Mapping[str, Any], b: Mapping[str, Any], shared: Sequence[str]) -> str:
    """What else differs between the runs, so that no difference is laid at the model's door by mistake."""
    lines = []
    for name in shared:
        left, right = a["benchmarks"][name], b["benchmarks"][name]
        for key in ("template", "temperature", "max_tokens", "graders", "problems"):
            if left[key] != right[key]:
                lines.append(f"{left['title']}: {key} differs: {left[key]} and {right[key]}")
    return "".join(f"\n{line}\n" for line in lines)
