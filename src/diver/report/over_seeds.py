"""`diver compare`: runs of several methods and seeds, paired over seeds and over the held-out problems.

Runs whose recipes differ in nothing but the seed are one variant. Each run is the last evaluation in its folder.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.config.recipe import flatten
from diver.evaluate.compare import SETTINGS, WRITTEN
from diver.render.figures import COLOURS, drawing, frame
from diver.render.tables import Measure, Table
from diver.report.run_record import RunRecord
from diver.stats import Estimate, interval, pass_at_k
from diver.types import DiverError

BEFORE = "before training"
SAME = (*SETTINGS, "samples")  # of all evaluations
Runs = Mapping[int, Mapping[str, Any]]
"""Seed -> evaluation."""


def read_runs(paths: Iterable[Path]) -> list[RunRecord]:
    """The run of each path, or the runs in the folders below it, such as those of `diver train --seeds`."""
    found: list[RunRecord] = []
    for path in paths:
        below = sorted(p.parent for p in path.glob("*/config.json"))
        folders = [path] if (path / "config.json").is_file() else [p for p in below if not _is_aside(p)]
        if not folders:
            raise DiverError(f"{path}: is neither a run folder nor a folder of run folders")
        found += [RunRecord.read(folder) for folder in folders]
    for run in found:
        step = max(run.evaluations, default=0)
        if not step:
            raise DiverError(f"{run.folder}: has no evaluation after training yet; finish the run, or leave it out")
        if step < run.planned_steps:
            raise DiverError(
                f"{run.folder}: was evaluated after {step} of {run.planned_steps} steps; finish the run, end it at its last "
                "checkpoint (--train.steps), or leave it out"
            )
    return found


def _is_aside(folder: Path) -> bool:
    """Whether --restart has set this folder aside: FOLDER.1 beside FOLDER."""
    return folder.suffix[1:].isdigit() and folder.with_suffix("").is_dir()


def by_variant(runs: Sequence[RunRecord]) -> dict[str, dict[int, RunRecord]]:
    """Label -> seed -> run, in the order given. A label is the method's name, and the keys in which its variants differ."""
    groups: dict[str, list[RunRecord]] = {}
    settings: dict[str, dict[str, str]] = {}
    for run in runs:
        identity = {**run.config.get("identity", {}), "train.steps": run.planned_steps}
        flat = {key: str(value) for key, value in flatten(identity).items()}
        flat.pop("run.seed", None)
        key = repr(sorted(flat.items()))
        groups.setdefault(key, []).append(run)
        settings[key] = flat
    named: dict[str, dict[int, RunRecord]] = {}
    for key, members in groups.items():
        seeds: dict[int, RunRecord] = {}
        for run in members:
            seed = int(run.recipe("run").get("seed", 0))
            if seed in seeds:
                raise DiverError(f"{run.folder} and {seeds[seed].folder}: the same recipe and the same seed")
            seeds[seed] = run
        named[_label(key, settings)] = dict(sorted(seeds.items()))
    return named


def _label(key: str, settings: Mapping[str, Mapping[str, str]]) -> str:
    mine = settings[key]
    method = mine.get("method.name", "")
    alike = [other for other in settings.values() if other.get("method.name", "") == method]
    names = sorted({name for other in alike for name in other})
    differ = [name for name in names if len({other.get(name) for other in alike}) > 1]
    return ", ".join([method, *(f"{name} {mine.get(name, 'not set')}" for name in differ)])


def evaluations(variants: Mapping[str, Mapping[int, RunRecord]]) -> dict[str, Runs]:
    """Label -> seed -> the last evaluation; first, the policy before training where every run began with the same one.

    DiverError where two evaluations differ in how they were made, or in their problems.
    """
    runs = {label: {seed: run.trained for seed, run in of.items()} for label, of in variants.items()}
    base = _before(variants)
    found: dict[str, Runs] = {BEFORE: base} if base else {}
    found |= runs
    reference = next(iter(next(iter(runs.values())).values()))
    for label, seed, evaluation in ((la, s, e) for la, of in runs.items() for s, e in of.items()):
        for key in SAME:
            if evaluation.get(key) != reference.get(key):
                raise DiverError(
                    f"{variants[label][seed].folder}: {key} of its evaluation is {evaluation.get(key)}, "
                    f"of the first run {reference.get(key)}; evaluate both alike (diver eval RUN)"
                )
        if _ids(reference) != _ids(evaluation):
            raise DiverError(f"{variants[label][seed].folder}: its held-out problems are not those of the other runs")
    return found


def _before(variants: Mapping[str, Mapping[int, RunRecord]]) -> Runs:
    """The evaluation before training by seed, which is the same for the same policy and seed; none where two runs differ
    in it, one lacks it, or it has fewer samples than that after training."""
    base: dict[int, Mapping[str, Any]] = {}
    for seed, run in ((seed, run) for of in variants.values() for seed, run in of.items()):
        known = base.setdefault(seed, run.base)
        if not run.base or run.base["per_problem"] != known["per_problem"]:
            return {}
        if run.base.get("samples") != run.trained.get("samples"):
            return {}
    return base


def _ids(evaluation: Mapping[str, Any]) -> list[str]:
    return [row["id"] for row in evaluation["per_problem"]]


def measures(found: Mapping[str, Runs]) -> list[Measure]:
    """Pass@k for the k of the evaluations, in per cent, then the distinct correct solutions of all samples, as they are written
    where the verifier cannot tell whether two are the same."""
    first = next(iter(next(iter(found.values())).values()))
    passes = [Measure(f"pass@{k}", f"Pass@{k}", 100) for k in first["k"]]
    exact = all(evaluation.get("exact_solutions", True) for runs in found.values() for evaluation in runs.values())
    name = f"{'Distinct' if exact else WRITTEN}@{first['samples']}"
    return [*passes, Measure(f"distinct@{first['samples']}", name, digits=2)]


def values(evaluation: Mapping[str, Any], measure: str) -> np.ndarray:
    """A measure of each problem, float64 [problems]; NaN where a problem has too few scored samples."""
    rows = evaluation["per_problem"]
    n, c, distinct = (np.array([row[key] for row in rows], dtype=np.int64) for key in ("n", "c", "distinct"))
    kind, _, k = measure.partition("@")
    return pass_at_k(n, c, int(k)) if kind == "pass" else np.where(n == int(k), distinct, np.nan)


def levels(found: Mapping[str, Runs]) -> Table:
    """Each variant with its number of seeds: means over seeds and problems, with 95 % intervals over both."""
    columns = measures(found)
    rows = {
        f"{label} ({len(runs)} seed{'s' * (len(runs) != 1)})": [
            _estimate([values(evaluation, m.name) for evaluation in runs.values()], m.name) for m in columns
        ]
        for label, runs in found.items()
    }
    return Table("variant", columns, rows)


def differences(found: Mapping[str, Runs], baseline: str) -> Table:
    """Each trained variant minus the baseline, over the seeds that both have and over problems."""
    columns = [m._replace(sign="+") for m in measures(found)]
    rows = {}
    for label, runs in found.items():
        if label not in (baseline, BEFORE):
            shared = sorted(runs.keys() & found[baseline].keys())
            pairs = [(runs[seed], found[baseline][seed]) for seed in shared]
            rows[label] = [
                _estimate([values(a, m.name) - values(b, m.name) for a, b in pairs], m.name, paired=True)
                for m in columns
            ]
    return Table(f"minus {baseline}", columns, rows)


def _estimate(rows: Sequence[np.ndarray], measure: str, paired: bool = False) -> Estimate:
    table = np.array(rows)
    table = table[..., ~np.isnan(table).any(axis=0)]
    if not table.size:
        return Estimate(math.nan, math.nan, math.nan)
    kind, _, k = measure.partition("@")
    bound = 1.0 if kind == "pass" else float(k)
    return interval(table, (-bound if paired else 0.0, bound))


def draw(found: Mapping[str, Runs], *paths: Path) -> None:
    """Pass@k against k, a line a variant, its 95 % interval over seeds and problems as a band."""
    table = levels(found)
    ks = [int(m.name.partition("@")[2]) for m in table.measures[:-1]]
    with drawing(*paths, size=(6.4, 4.2)) as figure:
        axes = figure.add_subplot()
        for (label, cells), colour in zip(table.rows.items(), itertools.cycle(COLOURS), strict=False):
            estimates = [cell for cell in cells[:-1] if isinstance(cell, Estimate)]
            mean, low, high = (np.array(ends) for ends in zip(*estimates, strict=True))
            axes.plot(ks, 100 * mean, color=colour, marker="o", markersize=3, linewidth=1.5, label=label)
            axes.fill_between(ks, 100 * low, 100 * high, color=colour, alpha=0.12, linewidth=0)
        frame(axes, "Pass@k, per cent", "k, samples a problem")
        axes.set_xscale("log", base=2)
        axes.set_xticks(ks, [str(k) for k in ks], minor=False)
        axes.legend(frameon=False, fontsize=8)
