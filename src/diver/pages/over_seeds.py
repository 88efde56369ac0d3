"""`diver compare`: runs of several methods and seeds, paired over seeds and over the held-out problems.

Runs that differ in nothing but the seed are one variant; runs of different names (NAME=PATH) are different variants.
Each run is represented by its last evaluation: that of the run, or a later one by `diver eval RUN`, such as at another
temperature.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from diver.core.figures import write_lines
from diver.core.run_folder import find_runs, given_name, run_name
from diver.core.seeds import fingerprint
from diver.core.types import DiverError
from diver.evaluate.comparison import (
    BEFORE,
    SAME,
    Compared,
    Runs,
    compare_variants,
    digests,
    other_problems,
    with_seeds,
)
from diver.evaluate.results import read_results
from diver.pages.curves import curves_over_seeds
from diver.pages.run_record import RunRecord
from diver.recipe.recipe import flatten

MODEL = ("engine", "model.", "content.model.")
DIGESTS = ("own_code.", "content.")


def read_runs(paths: Iterable[str | Path], evaluations: Path | None = None) -> list[RunRecord]:
    """The run of each path, or the runs in the folders below it, such as those of `diver train --seeds`.

    A path may be NAME=PATH. `evaluations` is a folder of evaluations by `diver eval RUN`, which replace those of the
    runs.
    """
    runs: list[RunRecord] = []
    for name, path in map(given_name, map(str, paths)):
        if name == BEFORE:
            raise DiverError(f"{name}={path}: {name!r} is the policy before training; choose another name")
        runs += [dataclasses.replace(RunRecord.read(folder), name=name) for folder in find_runs(path)]
    for run in runs:
        check_evaluated(run)
    if evaluations is None:
        return runs
    later = [_evaluated_again(run, evaluations) for run in runs]
    if not any(later):
        out = evaluations / run_name(runs[0].folder)
        raise DiverError(f"--evaluations {evaluations}: has none of these runs; make it by: diver eval RUN --out {out}")
    # `diver eval RUN` makes no evaluation that the run has with the same settings, so those of the run stay
    return [dataclasses.replace(run, evaluations=run.evaluations | more) for run, more in zip(runs, later, strict=True)]


def check_evaluated(run: RunRecord) -> None:
    """Raises DiverError if a run has no evaluation after its last step."""
    step = max(run.evaluations, default=0)
    if not step or step < run.planned_steps:
        raise DiverError(
            f"{run.folder}: was evaluated after {step} of {run.planned_steps} steps; finish the run, end it at its "
            "last checkpoint (--train.steps), or leave it out"
        )


def _evaluated_again(run: RunRecord, evaluations: Path) -> dict[int, dict[str, Any]]:
    """The evaluations by `diver eval RUN` before and after training, by step. DiverError if the policy has changed
    since."""
    by_step: dict[int, dict[str, Any]] = {}
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
        (by_step[step],) = results["benchmarks"].values()
    return by_step


def settings_of(run: RunRecord) -> dict[str, str]:
    """The settings that the runs of a variant share, by dotted key: the recipe, the data, the model and the user's
    code."""
    digests_of = {name: stored for name in ("content", "own_code") if (stored := run.config.get(name))}
    identity = {**run.config.get("identity", {}), "train.steps": run.planned_steps, **digests_of}
    return {key: str(value) for key, value in flatten(identity).items() if key != "run.seed"}


def by_variant(runs: Sequence[RunRecord]) -> dict[str, dict[int, RunRecord]]:
    """Label -> seed -> run, in the order given.

    A label is the name that the user gives, else the method, and the keys in which the variants of that name differ.
    """
    variants: dict[tuple[str, tuple[tuple[str, str], ...]], dict[int, RunRecord]] = {}
    for run in runs:
        settings, seed = settings_of(run), int(run.recipe("run").get("seed", 0))
        head = run.name or settings.get("method.name", "after training")
        seeds = variants.setdefault((head, tuple(sorted(settings.items()))), {})
        if seed in seeds:
            raise DiverError(
                f"{run.folder} and {seeds[seed].folder}: the same recipe and the same seed; NAME=PATH makes them "
                "two variants"
            )
        seeds[seed] = run
    labelled: dict[str, dict[int, RunRecord]] = {}
    for (head, of_variant), seeds in variants.items():
        alike = [{*items} for other, items in variants if other == head]
        differ = sorted({name for name, _ in alike[0].union(*alike) - alike[0].intersection(*alike)})
        values = dict(of_variant)
        label = ", ".join([head, *(f"{name} {values.get(name, 'not set')}" for name in differ)])
        if label in labelled:  # the user may give a name that is the label of another variant
            raise DiverError(
                f"{next(iter(seeds.values())).folder}: another variant is called {label!r}, too; rename it"
            )
        labelled[label] = dict(sorted(seeds.items()))
    return labelled


def evaluations(variants: Mapping[str, Mapping[int, RunRecord]]) -> dict[str, Runs]:
    """Label -> seed -> the last evaluation. The first is the policy before training, if all runs began with the same.

    Raises:
        DiverError: two evaluations differ in how they were made, or in their problems.
    """
    runs = [run for by_seed in variants.values() for run in by_seed.values()]
    reference, first = runs[0].trained, digests(runs[0].trained)
    for run in runs:
        for key in SAME:
            if run.trained.get(key) != reference.get(key):
                raise DiverError(
                    f"{run.folder}: {key} of its evaluation is {run.trained.get(key)}, of the first run "
                    f"{reference.get(key)}; evaluate all alike by diver eval RUN, and name its folder by --evaluations"
                )
        current = digests(run.trained)
        if [*first] != [*current] or other_problems(first, current):
            raise DiverError(f"{run.folder}: its held-out problems are not those of the other runs")
    base = _before(variants)
    trained = {label: {seed: run.trained for seed, run in by_seed.items()} for label, by_seed in variants.items()}
    return {**({BEFORE: base} if base else {}), **trained}


def _before(variants: Mapping[str, Mapping[int, RunRecord]]) -> Runs:
    """The evaluation before training by seed, which is the same for the same policy and seed. Empty if two runs differ
    in it or in their model, if a run lacks it, or if it has fewer samples than the evaluation after training."""
    base: dict[int, Mapping[str, Any]] = {}
    models = set()
    for seed, run in ((seed, run) for by_seed in variants.values() for seed, run in by_seed.items()):
        models.add(frozenset((k, v) for k, v in settings_of(run).items() if k.startswith(MODEL)))
        reference = base.setdefault(seed, run.base)
        alike = all(run.base.get(key) == run.trained.get(key) for key in SAME)
        if not (run.base and alike and run.base["per_problem"] == reference["per_problem"]):
            return {}
    return base if len(models) == 1 else {}


def notes(variants: Mapping[str, Mapping[int, RunRecord]]) -> list[str]:
    """Lines on differences between variants that neither their methods nor their labels show."""
    settings = {label: settings_of(next(iter(table.values()))) for label, table in variants.items()}
    names = sorted({name for table in settings.values() for name in table if not name.startswith("method.")})
    lines = []
    for name in names:
        digest = name.startswith(DIGESTS)  # a variant without the file has no digest; another key shows that
        values = {label: table.get(name, "not set") for label, table in settings.items() if name in table or not digest}
        if len({*values.values()}) > 1 and not all(name in label for label in values):
            what = f"the file of {name.removeprefix('own_code.')}" if name.startswith("own_code.") else name
            lines.append(f"{what} differs: {'; '.join(f'{value} ({label})' for label, value in values.items())}")
    return lines


def compare_runs(variants: Mapping[str, Mapping[int, RunRecord]], baseline: str | None = None) -> Compared:
    """`compare_variants` of the last evaluations of runs, with notes on what else differs between them."""
    compared = compare_variants(evaluations(variants), baseline)
    return compared._replace(notes=[*notes(variants), *compared.notes])


def draw_curves(variants: Mapping[str, Mapping[int, RunRecord]], *paths: Path) -> Sequence[Path]:
    """Training curves: the mean over the seeds of each variant, with a band from the lowest to the highest seed.

    Returns the paths that were written: none if the runs have no metric in common.
    """
    names = [with_seeds(label, runs) for label, runs in variants.items()]
    panels = curves_over_seeds([[*runs.values()] for runs in variants.values()])
    if panels:
        write_lines(panels, names, *paths)
    return paths if panels else ()
