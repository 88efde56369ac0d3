"""What a sweep costs, measured in a few steps of each setting before it starts."""

import dataclasses
import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from diver.core.files import read_json, read_jsonl, to_json, write_text
from diver.evaluate.evaluate import duration
from diver.sweep.plan import Plan
from diver.sweep.run import train
from diver.train.parallel import Run, run_all

PILOT = 3  # steps; the first one is slower, since it compiles and fills caches


def pilot(plan: Plan, file: Path) -> dict[str, float]:
    """The CPU seconds of a step of each setting, from `PILOT` steps in a folder of their own; kept in `file`."""
    known = read_json(file) if file.exists() else {}
    runs = {}
    for setting in plan.settings:
        if setting.label in known or setting.folders:
            continue
        recipe = plan.trained(setting, plan.seeds[0])
        folder = plan.out / "pilot" / plan.folder(setting, plan.seeds[0]).parent.name
        recipe = dataclasses.replace(
            recipe,
            run=dataclasses.replace(recipe.run, folder=str(folder)),
            train=dataclasses.replace(recipe.train, steps=PILOT),
            evaluate=dataclasses.replace(recipe.evaluate, problems=0),
        )
        runs[setting.label] = Run(folder.name, partial(train, recipe), folder, PILOT)
    run_all([*runs.values()], plan.out / "pilot", 1)
    for label, run in runs.items():
        rows = [row for _, row in read_jsonl(run.folder / "metrics.jsonl", appended=True)]
        known[label] = statistics.mean(row["time/cpu"] for row in rows[1:])
    if runs:
        write_text(file, to_json(known, indent=1) + "\n")
    return known


def at_equal_time(plan: Plan, costs: Mapping[str, float]) -> Plan:
    """The plan with as many steps of each setting as take the CPU time of the baseline."""
    base = plan.setting(plan.baseline)
    steps = plan.recipe_of(base, plan.seeds[0]).train.steps
    settings = []
    for setting in plan.settings:
        if not setting.folders:
            equal = max(1, round(steps * costs[plan.baseline] / costs[setting.label]))
            setting = dataclasses.replace(setting, flags=(*setting.flags, "--train.steps", str(equal)))
        settings.append(setting)
    return dataclasses.replace(plan, settings=tuple(settings))


def estimate(plan: Plan, costs: Mapping[str, float], jobs: int) -> list[str]:
    """What is run, and about how long it takes: training alone, since the time of samples depends on the policy."""
    lines, total = [], 0.0
    for setting in plan.settings:
        if setting.folders:
            lines.append(f"{setting.label}: {len(setting.seeds)} finished runs")
            continue
        steps = plan.recipe_of(setting, plan.seeds[0]).train.steps
        seconds = costs[setting.label] * steps
        total += seconds * len(setting.seeds)
        lines.append(
            f"{setting.label}: {len(setting.seeds)} runs of {steps:,} steps, {duration(seconds)} of CPU time each"
        )
    pairs = len(plan.grid)
    return [
        *lines,
        f"training: about {duration(total / jobs)} with --jobs {jobs}; then {pairs} pairs of each run are sampled",
    ]
