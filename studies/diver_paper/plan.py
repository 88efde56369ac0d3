"""The runs of an experiment: the sweep that makes them, and the records of the finished ones.

The records that come with a clone, paper-tiny.jsonl.gz, were made before `diver.sweep`. New ones are in paper.jsonl.gz.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from diver.core.settings import merge
from diver.recipe.recipe import flatten
from diver.sweep import records
from diver.sweep.plan import UNTRAINED, Plan, Setting
from diver_paper.aggregate import Study
from diver_paper.experiments import INITIAL, Changes, Experiment
from diver_paper.measure import measured
from diver_paper.runs import Record, find, flags, given, read_toml, records_file

OLD, NEW = "paper-tiny", "paper"
NOTHING: Changes = {}


def runs_of(experiment: Experiment, seeds: int) -> Iterator[tuple[str, Changes, int]]:
    """(variant, its changes, seed), the untrained policy first."""
    if experiment.variants:
        yield INITIAL, NOTHING, 0
    for seed in range(seeds):
        for variant, changes in experiment.variants.items():
            yield variant, changes, seed


def label_of(changes: Changes) -> str:
    """The name of a setting. It depends only on the changes, so that experiments share runs."""
    flat = flatten(changes)
    name = str(flat.pop("method.name", ""))
    return "_".join(filter(None, [name, *(f"{k.rpartition('.')[2]}-{v}" for k, v in sorted(flat.items()))]))


def command(changes: Changes, seed: int) -> str:
    """The command that makes a run by hand."""
    words = flags({**changes, "run": {"seed": seed}})
    return shlex.join(["diver", "train", "studies/diver_paper/tiny.toml", *words])


def load_regime(smaller: Changes = NOTHING) -> dict[str, Any]:
    """tiny.toml, the regime of every experiment at tiny scale."""
    return merge(read_toml("diver_paper", "tiny.toml"), smaller)


def make_plan(experiment: Experiment, seeds: int, out: Path, work: Path, smaller: Changes = NOTHING) -> Plan | None:
    """The sweep that makes the runs without a record of earlier code; None if all have one."""
    regime = load_regime(smaller)
    settings: dict[str, Setting] = {}
    for variant, changes, seed in runs_of(experiment, seeds):
        if variant != INITIAL and old_record(experiment, changes, seed, out, regime) is None:
            label = label_of(changes)
            setting = settings.get(label, Setting(label, tuple(flags(changes)), ()))
            settings[label] = Setting(label, setting.flags, tuple(sorted({*setting.seeds, seed})))
    if not settings:
        return None
    return Plan(
        recipe=Path(str(files("diver_paper") / "tiny.toml")),
        flags=tuple(f"--{key}={value}" for key, value in flatten(smaller).items()),
        settings=tuple(settings.values()),
        seeds=tuple(range(seeds)),
        baseline=next(iter(settings)),
        ks=(1,),
        out=work,
        records=records_file(out, NEW),
        prefix=f"{experiment.records}/",
        measure=partial(measured, temperatures=experiment.temperatures),
    )


def old_record(
    experiment: Experiment, changes: Changes, seed: int, out: Path, regime: Mapping[str, Any], trained: bool = True
) -> Record | None:
    """The record of a run that earlier code made."""
    return find(records_file(out, OLD), given(regime, changes, seed), f"{experiment.records}/", trained)


def study(experiment: Experiment, seeds: int, out: Path, smaller: Changes = NOTHING) -> Study:
    """The finished runs among the first `seeds` seeds of the experiment; variants without a run are left out."""
    regime, made = load_regime(smaller), records.read(records_file(out, NEW))
    runs: dict[str, dict[int, Record]] = {}
    for variant, changes, seed in runs_of(experiment, seeds):
        record = old_record(experiment, changes, seed, out, regime, variant != INITIAL)
        name = UNTRAINED if variant == INITIAL else f"{label_of(changes)}/seed_{seed}"
        if record is None and (stored := made.get(f"{experiment.records}/{name}")):
            record = {**stored, "recipe": given(regime, changes, seed)}
        if record is not None:
            runs.setdefault(variant, {})[seed] = record
    return Study(experiment, runs, seeds)
