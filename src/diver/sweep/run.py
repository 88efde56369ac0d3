"""Make the runs of a sweep that have no record: train, sample on the selection problems, choose, then judge."""

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diver.core.extras import provenance
from diver.core.files import read_json, read_jsonl
from diver.core.run_folder import by_step
from diver.core.seeds import digest
from diver.core.settings import Errors
from diver.core.types import DiverError
from diver.evaluate.evaluate import problem_digest
from diver.evaluate.front import Pair, evaluate_front
from diver.recipe.recipe import Recipe
from diver.recipe.run import earlier_identity, open_run
from diver.sweep import records
from diver.sweep.choose import key, pairs_of
from diver.sweep.plan import HELD_OUT, SELECTION, UNTRAINED, Plan, Setting, slug
from diver.train.parallel import ParallelRun, run_all

if TYPE_CHECKING:
    from diver.train.trainer import Trainer

POINTS = 60  # maximum length of a training curve in a record: the means of as many blocks of steps


def sweep(plan: Plan, jobs: int, only: Sequence[str] = ()) -> None:
    """Make the runs of the settings `only` (default: all), and add their records. The same call goes on after a kill.

    Raises:
        DiverError: runs failed, while the others went on to their end, or a record is of another recipe.
    """
    errors = Errors()
    chosen = [setting for setting in plan.settings if not only or setting.label in only]
    for judged in (False, True):
        check_records(plan)
        tasks: dict[Path, ParallelRun] = {}
        base = record(plan, UNTRAINED)
        if not base or not {key(pair) for pair in plan.untrained} <= base["fronts"][HELD_OUT].keys():
            tasks[plan.out] = ParallelRun(UNTRAINED, partial(untrained, plan), plan.out, 0)
        for setting in chosen:
            for seed in setting.seeds:
                run_record = record(plan, setting.label, seed)
                folder, steps = plan.folder(setting, seed), plan.recipe_of(setting, seed).train.steps
                steps = 0 if run_record or setting.folders else steps
                complete = run_record and {key(pair) for pair in plan.grid} <= run_record["fronts"][SELECTION].keys()
                if not judged and not complete:
                    call = partial(make, plan, setting, seed)
                elif judged and run_record and complete and (pairs := missing(plan, setting, run_record)):
                    call = partial(judge, plan, setting, seed, pairs)
                else:
                    continue
                if folder in tasks:  # a setting and the longer run that contains it
                    call, steps = partial(in_order, tasks[folder].call, call), max(steps, tasks[folder].steps)
                tasks[folder] = ParallelRun(f"{slug(setting.label)}-{seed}", call, folder, steps)
        with errors.collected():
            run_all([*tasks.values()], plan.out / "logs", jobs)
    errors.raise_found()


def check_records(plan: Plan) -> None:
    """DiverError if a record is of another recipe or of other problems: it would be shown as a run of this plan."""
    stored = {name: r for name, r in records.read(plan.records).items() if name.startswith(plan.prefix)}
    parts = plan.problems(plan.base_recipe) if stored and not plan.measure else {}
    digests = {part: digest(*map(problem_digest, loaded.problems)) for part, loaded in parts.items()}
    runs = {name_of(plan, setting.label, seed): (setting, seed) for setting in plan.settings for seed in setting.seeds}
    for name, r in stored.items():
        theirs, mine = (r["recipe"], about(plan, *runs[name])) if name in runs else ({}, {})
        changed = {k for k in theirs.keys() & mine.keys() if mine[k] != theirs[k]}
        if r["samples"] != plan.samples:
            reason = f"has {r['samples']} samples, not {plan.samples}"
        elif any(digests.get(part, v) != v for part, v in r["problems"].items()):
            reason = "has other evaluation problems"
        elif changed:
            k = min(changed, key=lambda k: (k != "method.name", k))  # the method also decides the loss
            reason = f"is a run with {k} = {theirs[k]!r}, now {mine[k]!r}"
        else:
            continue
        raise DiverError(f"{plan.records}: {name} {reason}; give another --out")


def about(plan: Plan, setting: Setting, seed: int) -> dict[str, Any]:
    """What identifies a run in its record: its settings in JSON's types, without the seed, and its steps."""
    recipe, steps = plan.trained(setting, seed), setting.step
    settings = recipe.identity()
    if seed in setting.folders:
        # Older folders lack settings that came later. Settings of the method come from the run alone.
        earlier = {k: v for k, v in earlier_identity().items() if not k.startswith("method.")}
        settings = earlier | read_json(plan.folder(setting, seed) / "config.json")["identity"]
        steps = checkpoint(plan, setting, seed)[0]
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items() if k not in ("run.seed", "engine")}
    return {k: v for k, v in plain.items() if v is not None} | {"train.steps": steps or recipe.train.steps}


def name_of(plan: Plan, label: str, seed: int | None = None) -> str:
    return f"{plan.prefix}{label}" if seed is None else f"{plan.prefix}{label}/seed_{seed}"


def record(plan: Plan, label: str, seed: int | None = None) -> dict[str, Any] | None:
    line = records.lines(plan.records).get(name_of(plan, label, seed))
    return None if line is None else json.loads(line)


def missing(plan: Plan, setting: Setting, stored: Mapping[str, Any]) -> list[Pair]:
    """The chosen pairs of a setting that are not yet sampled on the held-out problems; none before the choice."""
    if plan.measure:
        return []
    sampled = stored["fronts"][HELD_OUT]
    wanted = pairs_of(plan, records.read(plan.records), setting.label)
    return [pair for pair in wanted if pair.alpha and key(pair) not in sampled]


# ---- in the process of a run


def in_order(*calls: Callable[[], object]) -> None:
    for call in calls:
        call()


def make(plan: Plan, setting: Setting, seed: int) -> None:
    """Train, sample the grid on the selection problems, and add the record."""
    if seed not in setting.folders:
        train(plan.trained(setting, seed), plan.trainer)
    folder = plan.folder(setting, seed)
    step = checkpoint(plan, setting, seed)[0]
    rows = [row for _, row in read_jsonl(folder / "metrics.jsonl", appended=True) if row["step"] <= step]
    config = read_json(folder / "config.json")
    cpu = [row.get("time/cpu", np.nan) for row in rows]
    run_record: dict[str, Any] = {
        "setting": setting.label,
        "seed": seed,
        "recipe": about(plan, setting, seed),
        "steps": step,
        **{k: config.get(k) for k in ("command", "commit", "versions", "engine")},
        "cpu_seconds": None if np.isnan(np.sum(cpu)) else float(np.sum(cpu)),
        "metrics": {name: thinned([row.get(name) for row in rows]) for name in sorted({n for r in rows for n in r})},
        "samples": plan.samples,
        "fronts": {SELECTION: {}, HELD_OUT: {}},
        "problems": {},
        "evaluated_at": provenance().get("commit"),
    }
    if plan.measure:
        add(plan, {**run_record, **plan.measure(plan.recipe_of(setting, seed), folder)}, [])
    else:
        add(plan, run_record, [counts(plan, setting, seed, SELECTION, plan.grid)])


def judge(plan: Plan, setting: Setting, seed: int, pairs: Sequence[Pair]) -> None:
    """Sample pairs on the held-out problems, and add them to the record."""
    run_record = record(plan, setting.label, seed)
    assert run_record is not None
    add(plan, run_record, [counts(plan, setting, seed, HELD_OUT, pairs)])


def untrained(plan: Plan) -> None:
    """Sample the untrained policy at every temperature on all problems, and add its record."""
    setting = plan.setting(plan.baseline)
    seed = setting.seeds[0]
    run_record: dict[str, Any] = {"setting": UNTRAINED, "samples": plan.samples, "problems": {}, **provenance()}
    run_record["fronts"] = {SELECTION: {}, HELD_OUT: {}}
    if plan.measure:
        add(plan, {**run_record, **plan.measure(plan.recipe_of(setting, seed), None)}, [])
    else:
        add(plan, run_record, [counts(plan, setting, seed, part, plan.untrained) for part in (SELECTION, HELD_OUT)])


def train(recipe: Recipe, trainer: "type[Trainer] | None" = None) -> None:
    """Train to the last step."""
    from diver.train.trainer import Trainer

    with contextlib.closing(open_run(recipe)) as folder:
        if folder.saved_step() < recipe.train.steps:
            (trainer or Trainer)(recipe, folder).run()


def checkpoint(plan: Plan, setting: Setting, seed: int) -> tuple[int, Path]:
    """The step and the folder of the checkpoint that is judged: the last one, or that of `setting.step`."""
    saved = by_step(plan.folder(setting, seed) / "checkpoints")
    step = setting.step or max(saved, default=0)
    if step not in saved:
        hint = f"of step {step}; raise train.save_total_limit" if step else "(checkpoints/step_NNNN)"
        raise DiverError(f"{plan.folder(setting, seed)}: has no checkpoint {hint}")
    return step, saved[step]


def counts(plan: Plan, setting: Setting, seed: int, part: str, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Correct samples of each problem of a part at each pair: {"fronts": {part: {pair: [problems]}}, "problems": ...}.

    A problem with unscored responses has [correct, scored] in place of the number of correct samples.
    """
    recipe = plan.recipe_of(setting, seed)
    problems = plan.problems(recipe)[part]
    config = plan.evaluation(recipe, problems)
    trained_step, trained = 0, recipe.model
    if any(pair.alpha for pair in pairs):
        trained_step, folder = checkpoint(plan, setting, seed)
        trained = dataclasses.replace(trained, path=str(folder), revision=None)
    # Apart from the run folder, which must be empty when its training begins.
    out = plan.out / "fronts" / f"{slug(setting.run or setting.label)}_seed_{seed}" / f"step_{trained_step:04d}" / part
    front = evaluate_front(config, recipe.model, trained, [problems], out, pairs, recipe.verify)
    rows = {key(pair): results[part]["per_problem"] for pair, results in front.items()}
    fronts = {
        name: [r["c"] if r["n"] == plan.samples else [r["c"], r["n"]] for r in problem_rows]
        for name, problem_rows in rows.items()
    }
    return {"fronts": {part: fronts}, "problems": {part: digest(*(r["digest"] for r in next(iter(rows.values()))))}}


def add(plan: Plan, stored: dict[str, Any], new: Iterable[Mapping[str, Any]]) -> None:
    """Add counts to a record, and the record to the file."""
    for update in new:
        for part, value in update["problems"].items():
            stored["problems"][part] = value
            stored["fronts"][part] |= update["fronts"][part]
    records.add(plan.records, {name_of(plan, stored["setting"], stored.get("seed")): stored})


def thinned(column: Sequence[Any]) -> list[float | None]:
    """At most `POINTS` values with four digits: the means of blocks of a column over the steps that have a value."""
    values = np.array([np.nan if not isinstance(v, int | float) else v for v in column], dtype=float)
    blocks = np.array_split(values, min(POINTS, len(values)))
    return [None if np.isnan(block).all() else float(f"{np.nanmean(block):.4g}") for block in blocks]
