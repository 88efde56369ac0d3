"""One run of the comparison: train, sample from the checkpoints at every temperature, save what the page needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.files import MemoryLog
from diver.core.run_folder import by_step
from diver.core.seeds import stream_seed
from diver.core.settings import read
from diver.core.types import Problem
from diver.evaluate.evaluate import Task, evaluate
from diver.grading import EnvironmentGrader, get_grader
from diver.recipe.recipe import Recipe
from diver.sample.hf import HFGenerator
from diver.sample.policy import Policy, load_policy
from diver.sample.prefix_tree import PrefixTreeGenerator
from diver.tasks.splits import load
from diver.tasks.templates import prompted
from diver_paper.records import Records, rounded
from diver_paper.worker import make_record
from method_comparison.plan import Evaluation, StudyJob

POINTS = 60  # of a curve of the training that a record keeps: means of as many blocks of steps


def run(
    job: Mapping[str, Any],
    folder: Path,
    regime: Mapping[str, Any],
    records: Records,
    provenance: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
    baseline: bool,
    own_code: Mapping[str, str] | None = None,
) -> None:
    """One run, in a process of its own. Without an `evaluation` the record has the metrics of the training alone."""

    def evaluations(recipe: Recipe, metrics: Mapping[str, Any]) -> dict[str, Any]:
        saved = by_step(folder / "checkpoints")  # those of the regime, and not what a run saved when it was stopped
        checkpoints = {step: path for step, path in saved.items() if step % recipe.train.save_steps == 0}
        plan = read(Evaluation, evaluation, "evaluation") if evaluation else None
        return {
            "evaluation": evaluation,
            "baseline": baseline,
            **({"own_code": own_code} if own_code else {}),
            "metrics": {name: thinned(column) for name, column in metrics.items()},
            "evaluations": evaluate_all(recipe, checkpoints, plan, baseline) if plan else {},
        }

    make_record(StudyJob(**job), regime, folder, records, provenance, evaluations)


def thinned(column: Sequence[float | None]) -> list[float | None]:
    """At most `POINTS` values: the mean of each block of a column, without the steps that have no value."""
    blocks = np.array_split(np.array(column, dtype=float), min(POINTS, len(column)))
    return [None if np.isnan(block).all() else rounded(float(np.nanmean(block))) for block in blocks]


def evaluate_all(
    recipe: Recipe, checkpoints: Mapping[int, Path], plan: Evaluation, baseline: bool
) -> dict[str, dict[str, Any]]:
    """The evaluations of a run by name: `final T`, `large T` of the last checkpoint, and `STEP T` of those before.

    `solutions` has, of the last checkpoints' and the earlier ones' samples, which solutions of a problem were found
    when.
    """
    _, held_out, _ = load(recipe.data, recipe.evaluate.source, plan.problems)
    last = max(checkpoints, default=0)
    found: dict[str, dict[str, Any]] = {}
    solutions: dict[int, list[Counter[str]]] = {}
    for step in checkpoints or (0,):
        policy = load_policy(recipe.model, checkpoints.get(step))
        kept = prompted(held_out, recipe.data.template, policy.tokenizer, recipe.sample.max_prompt_tokens)
        if step == last:
            for t in plan.temperatures:
                found[f"final {t:g}"], counts = sample(recipe, policy, kept.problems, kept.template, plan.samples, t)
                if t == 1:
                    solutions[step] = counts[: plan.checkpoint_problems]
            some = kept.problems[: plan.large_problems]
            found["large 1"], _ = sample(recipe, policy, some, kept.template, plan.large_samples, 1.0)
        else:
            some = kept.problems if baseline else kept.problems[: plan.checkpoint_problems]
            for t in plan.checkpoint_temperatures if baseline else (1.0,):
                found[f"{step} {t:g}"], counts = sample(recipe, policy, some, kept.template, plan.samples, t)
                if t == 1:
                    solutions[step] = counts[: plan.checkpoint_problems]
    found["solutions"] = {
        "steps": list(solutions),
        "shared": shared(list(solutions.values())),
        "shown": [
            [dict(at[i].most_common()) for at in solutions.values()]
            for i in range(min(plan.shown_problems, *map(len, solutions.values())))
        ],
    }
    return found


def sample_last(
    recipe: Recipe, folder: Path, problems: Mapping[str, Sequence[Problem]], samples: int, temperatures: Sequence[float]
) -> dict[str, dict[str, Any]]:
    """`NAME T`: what `sample` finds in the last checkpoint of a run at each temperature, on the problems of that name.

    Without a checkpoint it is the policy before training.
    """
    policy = load_policy(recipe.model, max(by_step(folder / "checkpoints").items(), default=(0, None))[1])
    found = {}
    for name, some in problems.items():
        kept = prompted(some, recipe.data.template, policy.tokenizer, recipe.sample.max_prompt_tokens)
        for t in temperatures if some else ():
            found[f"{name} {t:g}"], _ = sample(recipe, policy, kept.problems, kept.template, samples, t)
    return found


def sample(
    recipe: Recipe, policy: Policy, problems: Sequence[Problem], template: str, samples: int, temperature: float
) -> tuple[dict[str, Any], list[Counter[str]]]:
    """How many samples of each problem are correct, `c`, and how many distinct solutions they are; and the solutions.

    At temperature 0 there is one sample. More than 64 samples: instead of `distinct`, how often each `solutions` came.
    The prefix tree does not sample trajectories, which the trainer's generator does.
    """
    n, plays = samples if temperature else 1, isinstance(get_grader(problems[0].verifier), EnvironmentGrader)
    seed = stream_seed(recipe.run.seed, "evaluate", f"{temperature:g} {n}")
    task = Task(
        name="held-out",
        problems=problems,
        template=template,
        temperature=temperature,
        max_tokens=recipe.sample.max_tokens,
        samples=n,
        ks=[1],
        seed=seed,
    )
    grades, generator = MemoryLog(), HFGenerator(policy) if plays else PrefixTreeGenerator(policy, seed=seed)
    result = evaluate(task, lambda: generator, MemoryLog(), grades, progress=False)
    counts: dict[str, Counter[str]] = {problem.id: Counter() for problem in problems}
    for row in grades.rows():
        if row["solution"] is not None:
            counts[row["problem"]][row["solution"]] += row.get("count", 1)
    header = {"samples": n, "temperature": temperature, "c": [row["c"] for row in result["per_problem"]]}
    if n > 64:
        many = [sorted(found.values(), reverse=True) for found in counts.values()]
        return {**header, "solutions": many}, list(counts.values())
    return {**header, "distinct": [len(found) for found in counts.values()]}, list(counts.values())


def shared(solutions: Sequence[Sequence[Counter[str]]]) -> list[list[int]]:
    """[checkpoints, checkpoints]: how many solutions, over all problems, were sampled after both."""
    return [
        [sum(len(a.keys() & b.keys()) for a, b in zip(one, other, strict=True)) for other in solutions]
        for one in solutions
    ]
