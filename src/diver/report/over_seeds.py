"""`diver compare`: runs of several methods and seeds, paired over seeds and over the held-out problems.

Runs that differ in nothing but the seed are one variant. Each run is its last evaluation: that of the run, or a later one by
`diver eval RUN`, such as at another temperature.
"""

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.config.recipe import flatten
from diver.evaluate.compare import SETTINGS, WRITTEN, digests, other_problems
from diver.evaluate.store import read_results
from diver.io.fingerprint import fingerprint
from diver.io.run_folder import run_name, runs_in
from diver.render.figures import COLOURS, drawing, frame
from diver.render.tables import Measure, Table
from diver.report.run_record import RunRecord
from diver.stats import Estimate, interval, pass_at_k
from diver.types import DiverError

BEFORE = "before training"
SAME = (*SETTINGS, "samples")  # of all evaluations
MODEL = ("engine", "model.", "content.model.")
OF_METHOD = ("method.", "own_code.")
Runs = Mapping[int, Mapping[str, Any]]
"""Seed -> evaluation."""


def read_runs(paths: Iterable[Path], evaluations: Path | None = None) -> list[RunRecord]:
    """The run of each path, or the runs in the folders below it, such as those of `diver train --seeds`.

    `evaluations`: the folder below which `diver eval RUN` wrote those that stand for a run's own.
    """
    found: list[RunRecord] = []
    for path in paths:
        folders = [path] if (path / "config.json").is_file() else runs_in(path)
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
    if evaluations is None:
        return found
    again = [_evaluated_again(run, evaluations) for run in found]
    if not any(again):
        name = evaluations / run_name(found[0].folder)
        raise DiverError(
            f"--evaluations {evaluations}: has none of these runs; make it by: diver eval RUN --out {name}"
        )
    # diver eval makes none that the run itself has with the same settings
    return [dataclasses.replace(run, evaluations=run.evaluations | of) for run, of in zip(found, again, strict=True)]


def _evaluated_again(run: RunRecord, evaluations: Path) -> dict[int, dict[str, Any]]:
    """What `diver eval RUN` made of the policy before and after training, by step. DiverError where the policy is another now."""
    found: dict[int, dict[str, Any]] = {}
    for step in (0, max(run.evaluations)):
        name = f"step_{step:04d}"
        folder, checkpoint = evaluations / run_name(run.folder) / name, run.folder / "checkpoints" / name
        if not (folder / "results.json").is_file():
            continue
        results = read_results(folder)
        if checkpoint.is_dir() and fingerprint(checkpoint) not in results["model"]:
            raise DiverError(f"{folder}: is of another policy than {checkpoint}; delete it, and evaluate the run again")
        if len(results["benchmarks"]) > 1:
            raise DiverError(f"{folder}: has several benchmarks; evaluate the run without --benchmarks")
        (found[step],) = results["benchmarks"].values()
    return found


def settings_of(run: RunRecord) -> dict[str, str]:
    """What the runs of one variant have in common, by dotted key: the recipe, the data, the model and the code of one's own."""
    digests_of = {name: run.config.get(name) or {} for name in ("content", "own_code")}
    identity = {**run.config.get("identity", {}), "train.steps": run.planned_steps, **digests_of}
    return {key: str(value) for key, value in flatten(identity).items() if key != "run.seed"}


def by_variant(runs: Sequence[RunRecord]) -> dict[str, dict[int, RunRecord]]:
    """Label -> seed -> run, in the order given. A label is the method's name, and the keys in which its variants differ."""
    groups: dict[str, list[RunRecord]] = {}
    settings: dict[str, dict[str, str]] = {}
    for run in runs:
        flat = settings_of(run)
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
                    f"of the first run {reference.get(key)}; evaluate all alike by diver eval RUN, and name its folder by --evaluations"
                )
        first, these = digests(reference), digests(evaluation)
        if [*first] != [*these] or other_problems(first, these):
            raise DiverError(f"{variants[label][seed].folder}: its held-out problems are not those of the other runs")
    return found


def _before(variants: Mapping[str, Mapping[int, RunRecord]]) -> Runs:
    """The evaluation before training by seed, which is the same for the same policy and seed; none where two runs differ
    in it or in their model, one lacks it, or it has fewer samples than that after training."""
    base: dict[int, Mapping[str, Any]] = {}
    runs = [(seed, run) for of in variants.values() for seed, run in of.items()]
    models = [{k: v for k, v in settings_of(run).items() if k.startswith(MODEL)} for _, run in runs]
    if any(model != models[0] for model in models):
        return {}
    for seed, run in runs:
        known = base.setdefault(seed, run.base)
        if not run.base or run.base["per_problem"] != known["per_problem"]:
            return {}
        if any(run.base.get(key) != run.trained.get(key) for key in SAME):
            return {}
    return base


def notes(variants: Mapping[str, Mapping[int, RunRecord]], found: Mapping[str, Runs], baseline: str) -> list[str]:
    """What else differs between variants than their methods and what their labels say, and what is left out."""
    settings = {label: settings_of(next(iter(of.values()))) for label, of in variants.items()}
    names = sorted({name for of in settings.values() for name in of if not name.startswith(OF_METHOD)})
    lines = []
    for name in names:
        values = {label: of.get(name, "not set") for label, of in settings.items()}
        if len({*values.values()}) > 1 and not all(name in label for label in values):
            lines.append(f"{name} differs: {'; '.join(f'{value} ({label})' for label, value in values.items())}")
    lines += [
        f"{label} and {baseline} have no seed in common, so that nothing can be paired"
        for label, runs in found.items()
        if not runs.keys() & found[baseline].keys()
    ]
    for measure in measures(found):
        known = _known(found, measure.name)
        if left_out := int((~known).sum()):
            lines.append(
                f"{measure.title}: {left_out} of {len(known)} problems left out, of which a run has too few scored samples"
            )
    return lines


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
    known = {m.name: _known(found, m.name) for m in columns}
    rows = {
        _seeds(label, runs): [
            _estimate([values(e, m.name) for e in runs.values()], known[m.name], m.name) for m in columns
        ]
        for label, runs in found.items()
    }
    return Table("variant", columns, rows)


def _seeds(label: str, seeds: Collection[int]) -> str:
    return f"{label} ({len(seeds)} seed{'s' * (len(seeds) != 1)})"


def _known(found: Mapping[str, Runs], measure: str) -> np.ndarray:
    """The problems of which every run has a value, so that all rows are of the same: bool [problems]."""
    table = np.array([values(e, measure) for runs in found.values() for e in runs.values()])
    known: np.ndarray = ~np.isnan(table).any(axis=0)
    return known


def differences(found: Mapping[str, Runs], baseline: str) -> Table:
    """Each trained variant minus the baseline, with the number of seeds that both have: over these and over problems.

    Not known where they have none in common.
    """
    columns = [m._replace(sign="+") for m in measures(found)]
    known = {m.name: _known(found, m.name) for m in columns}
    rows = {}
    for label, runs in found.items():
        if label not in (baseline, BEFORE):
            shared = sorted(runs.keys() & found[baseline].keys())
            pairs = [(runs[seed], found[baseline][seed]) for seed in shared]
            rows[_seeds(label, shared)] = [
                _estimate([values(a, m.name) - values(b, m.name) for a, b in pairs], known[m.name], m.name, paired=True)
                for m in columns
            ]
    return Table(f"minus {baseline}", columns, rows)


def _estimate(rows: Sequence[np.ndarray], known: np.ndarray, measure: str, paired: bool = False) -> Estimate:
    if not rows or not known.any():
        return Estimate(math.nan, math.nan, math.nan)
    kind, _, k = measure.partition("@")
    bound = 1.0 if kind == "pass" else float(k)
    return interval(np.array(rows)[:, known], (-bound if paired else 0.0, bound))


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
