"""What a sweep costs, measured in a few steps of each setting before it starts."""

import dataclasses
import shutil
import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from diver.core.files import read_jsonl
from diver.core.seeds import digest
from diver.evaluate.evaluate import duration
from diver.sweep.plan import Plan, slug
from diver.sweep.run import about, train
from diver.train.parallel import ParallelRun, run_all

PILOT = 3  # steps; the first one is slower, since it compiles and fills caches


def pilot(plan: Plan) -> dict[str, float]:
    """The CPU seconds of a step of each setting, from `PILOT` steps in a separate folder, which run once."""
    runs = {}
    for setting in plan.settings:
        if setting.folders:
            continue
        recipe = plan.trained(setting, plan.seeds[0])
        # Another recipe has another folder, so that its costs are measured anew.
        folder = plan.out / "pilot" / f"{slug(setting.label)}-{digest(about(plan, setting, plan.seeds[0]))}"
        recipe = dataclasses.replace(
            recipe,
            run=dataclasses.replace(recipe.run, folder=str(folder)),
            train=dataclasses.replace(recipe.train, steps=PILOT),
            evaluate=dataclasses.replace(recipe.evaluate, problems=0),
        )
        runs[setting.label] = ParallelRun(folder.name, partial(train, recipe), folder, PILOT)
    run_all([run for run in runs.values() if len(cpu_seconds(run.folder)) < PILOT], plan.out / "pilot", 1)
    for run in runs.values():
        shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)
    return {label: statistics.mean(cpu_seconds(run.folder)[1:]) for label, run in runs.items()}


def cpu_seconds(folder: Path) -> list[float]:
    """The CPU seconds of each step of a run so far."""
    return [row["time/cpu"] for _, row in read_jsonl(folder / "metrics.jsonl", appended=True)]


def at_equal_time(plan: Plan, costs: Mapping[str, float]) -> Plan:
    """The plan with as many steps of each setting as take the CPU time of the baseline."""
    steps = plan.base_recipe.train.steps
    settings = []
    for setting in plan.settings:
        if not setting.folders:
            equal = max(1, round(steps * costs[plan.baseline] / costs[setting.label]))
            setting = dataclasses.replace(setting, flags=(*setting.flags, "--train.steps", str(equal)))
        settings.append(setting)
    return dataclasses.replace(plan, settings=tuple(settings))


def estimate(plan: Plan, costs: Mapping[str, float], jobs: int) -> list[str]:
    """Lines on the runs and about how long they train. The time of sampling is left out: it depends on the policy."""
    lines, total = [], 0.0
    for setting in plan.settings:
        if setting.folders:
            lines.append(f"{setting.label}: {len(setting.seeds)} finished runs")
            continue
        steps = plan.recipe_of(setting, plan.seeds[0]).train.steps
        seconds = costs[setting.label] * steps
        total += seconds * len(setting.seeds)
        work = f"{steps:,} steps, {duration(seconds)} of CPU time each"
        lines.append(f"{setting.label}: {len(setting.seeds)} runs of {work}")
    then = f"then {len(plan.grid)} pairs of each run are sampled"
    return [*lines, f"training: about {duration(total / jobs)} with --jobs {jobs}; {then}"]
