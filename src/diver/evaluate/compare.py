"""Evaluations side by side: the difference over the problems that both have, with an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.evaluate.store import read_results
from diver.render.tables import markdown
from diver.stats import Estimate, paired_interval, pass_at_k
from diver.types import DiverError

SETTINGS = ("template", "temperature", "max_tokens", "stop_token_ids", "graders", "problems")


def compare(paths: Sequence[Path]) -> str:
    """Each evaluation against the first, as Markdown; `paths` are those of `read_results`.

    DiverError where two evaluations have no benchmark or no problem in common.
    """
    if len(paths) < 2:
        raise DiverError("--compare: name two results or more, the first is the one that the others are compared with")
    first, *others = [read_results(path) for path in paths]
    return "\n".join(_pair(first, other, paths[0], path) for other, path in zip(others, paths[1:], strict=True))


def _pair(a: Mapping[str, Any], b: Mapping[str, Any], path_a: Path, path_b: Path) -> str:
    shared = [name for name in a["benchmarks"] if name in b["benchmarks"]]
    if not shared:
        raise DiverError(f"--compare: {path_a} and {path_b} have no benchmark in common")
    rows, notes = [], []
    for name in shared:
        left, right = a["benchmarks"][name], b["benchmarks"][name]
        for label, (x, y, difference) in differences(left, right).items():
            scale = 1 if label.startswith("distinct") else 100
            mean, low, high = (f"{scale * value:+.1f}" for value in difference)
            mark = " *" if difference.low > 0 or difference.high < 0 else ""
            shown = [f"{scale * value:.1f}" for value in (x, y)]
            rows.append([f"{left['title']} {label}", *shown, mean, f"{low} … {high}{mark}"])
        notes += [
            f"\n{left['title']}: {key} differs: {left.get(key)} and {right.get(key)}\n"
            for key in SETTINGS
            if left.get(key) != right.get(key)
        ]
    return (
        f"{path_b} ({b['model']}) against {path_a} ({a['model']})\n\n"
        + markdown(["", str(path_a), str(path_b), "difference", "95 % interval"], rows)
        + "\nPercent (distinct: solutions), over the problems of both; * : the interval excludes 0.\n"
        + "".join(notes)
    )


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[float, float, Estimate]]:
    """Pass@k for 1 and each k of both -> (mean of a, mean of b, b - a), over the problems that both have.

    And distinct@n, the number of different correct solutions, where each problem has the same n scored samples in both.
    """
    rows_a, rows_b = ({row["id"]: row for row in r["per_problem"]} for r in (a, b))
    both = [name for name in rows_a if name in rows_b]
    if not both:
        raise DiverError(f"--compare: the evaluations have no problem of {a['title']} in common")
    results = {}
    for k in sorted({1} | (set(a["k"]) & set(b["k"]))):
        x, y = (pass_at_k([rows[i]["n"] for i in both], [rows[i]["c"] for i in both], k) for rows in (rows_a, rows_b))
        known = ~np.isnan(x) & ~np.isnan(y)
        if known.any():
            results[f"Pass@{k}"] = (float(x[known].mean()), float(y[known].mean()), paired_interval(x, y))
    n, *others = {rows[i]["n"] for i in both for rows in (rows_a, rows_b)}
    if not others and n:
        x, y = (np.array([rows[i]["distinct"] for i in both], dtype=float) for rows in (rows_a, rows_b))
        results[f"distinct@{n}"] = (float(x.mean()), float(y.mean()), paired_interval(x, y))
    return results
