"""The entries of a run's record: the metrics of its training, and evaluations of every checkpoint."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.files import Log, MemoryLog, read_jsonl
from diver.core.run_folder import by_step, groups_from_rows
from diver.core.seeds import stream_seed
from diver.core.types import Group, Problem, Rollout, trained_on
from diver.diversity import Diversity, measure
from diver.evaluate.evaluate import Task
from diver.evaluate.evaluate import evaluate as evaluate_task
from diver.methods import OBSERVED
from diver.recipe.recipe import Recipe
from diver.sample.policy import load_policy
from diver.sample.prefix_tree import PrefixTreeGenerator
from diver.tasks.splits import load
from diver.tasks.templates import prompted
from diver_paper.runs import rounded

CURVE = (1, 4, 16)  # k of the evaluations during training
SHOWN = 32  # problems of which 8 responses are saved
SHOWN_RESPONSES = 8


def measured(recipe: Recipe, folder: Path | None, *, temperatures: Sequence[float] = ()) -> dict[str, Any]:
    """Evaluate every checkpoint, the last one also at `temperatures`; without a folder, the untrained policy."""
    start = time.process_time()
    checkpoints: Mapping[int, Path | None] = by_step(folder / "checkpoints") if folder else {0: None}
    last = max(checkpoints)
    evaluations = {step: evaluate(recipe, path, last=step == last) for step, path in checkpoints.items()}
    extra = {
        f"{t:g}": evaluate(
            dataclasses.replace(recipe, evaluate=dataclasses.replace(recipe.evaluate, temperature=t)),
            checkpoints[last],
        )
        for t in temperatures
    }
    metrics = columns(folder) if folder else {}
    seconds = {"train": sum(metrics.get("time/cpu", ())), "evaluate": time.process_time() - start}
    return {"metrics": metrics, "evaluations": evaluations, "cpu_seconds": seconds, **({"at": extra} if extra else {})}


# ---- metrics of the training -----------------------------------------------------------------------------------------


def columns(folder: Path) -> dict[str, list[Any]]:
    """The columns of metrics.jsonl, by metric, and the `signal` of each step."""
    rows = []
    for _, row in read_jsonl(folder / "metrics.jsonl", appended=True):
        if "time/update" in row:
            groups = groups_from_rows(read_jsonl(folder / "rollouts" / f"step_{row['step']:04d}.jsonl"))
            rows.append({**row, **signal([(group.outcomes, group.advantages) for group in trained_on(groups)])})
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [rounded(row.get(name)) for row in rows] for name in names}


def signal(groups: Sequence[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """The fraction of the sum of |A| that comes from groups all correct, mixed, and with none correct; 0 of nothing.

    groups: (outcomes [G], advantages [G]). In a group all correct or all wrong the outcome gives no advantage. So all
    advantage there comes from the diversity reward, and does not depend on lambda.
    """
    weight = dict.fromkeys(("all_correct", "mixed", "none_correct"), 0.0)
    for outcomes, advantages in groups:
        correct = outcomes >= 0.5
        kind = "all_correct" if correct.all() else "mixed" if correct.any() else "none_correct"
        weight[kind] += float(np.abs(advantages).sum())
    total = sum(weight.values())
    return {f"signal/{kind}": value / total if total else 0.0 for kind, value in weight.items()}


# ---- evaluation of a policy ------------------------------------------------------------------------------------------


def evaluate(recipe: Recipe, checkpoint: Path | None, *, last: bool = True) -> dict[str, Any]:
    """Many samples of the held-out problems from a checkpoint (None: the initial policy).

    During training only the estimates of `CURVE`. After training: `solutions`, how often each distinct correct solution
    of a problem was sampled; the `diversity` of 8 responses to each problem; and some `responses` to read.
    """
    config = recipe.evaluate
    samples = config.num_samples if last else config.num_samples_in_training
    _, held_out, _ = load(recipe.data, config.source, config.problems)
    policy = load_policy(recipe.model, checkpoint)
    fitting = prompted(held_out, recipe.data.template, policy.tokenizer, recipe.sample.max_prompt_tokens)
    task = Task(
        name="held-out",
        problems=fitting.problems,
        template=fitting.template,
        temperature=config.temperature,
        max_tokens=recipe.sample.max_tokens,
        samples=samples,
        ks=[k for k in CURVE if k <= samples],
    )
    seed = stream_seed(recipe.run.seed, "evaluate", checkpoint.name if checkpoint else "initial")
    generations = MemoryLog()
    result = evaluate_task(
        task, lambda: PrefixTreeGenerator(policy, seed=seed), generations, solutions=True, progress=False
    )
    header = {"samples": samples, "temperature": config.temperature, "problems": len(fitting.problems)}
    if not last:
        names = [*(f"pass@{k}" for k in task.ks), f"distinct@{max(task.ks)}"]
        return {**header, **{name: rounded(result["estimates"][name]["mean"]) for name in names}}
    groups = draw(fitting.problems, generations, recipe.run.seed)
    return {
        **header,
        "solutions": [row["solutions"] for row in result["per_problem"]],
        "diversity": _diversity(groups),
        "responses": [group.responses for group in groups[:SHOWN]],
        "ids": [group.problem.id for group in groups[:SHOWN]],
    }


def draw(problems: Sequence[Problem], generations: Log, seed: int) -> list[Group]:
    """A group of 8 random samples of each problem, with the distribution of 8 separate samples."""
    pools: dict[str, list[str]] = {problem.id: [] for problem in problems}
    for row in generations.rows():
        pools[row["problem"]] += [row["response"]] * row.get("count", 1)
    groups = []
    for problem in problems:
        pool = pools[problem.id]
        responses = random.Random(stream_seed(seed, "shown", problem.id)).sample(pool, min(SHOWN_RESPONSES, len(pool)))
        groups.append(Group(problem, tuple(Rollout(response) for response in responses)))
    return groups


def _diversity(groups: Sequence[Group]) -> dict[str, list[float]]:
    """Mean TD and ED of the complete responses to each problem, with the paper's settings, not the recipe's."""
    measured = [measure(group, OBSERVED, Diversity(until="end")) for group in groups]
    return {name: [rounded(float(m[name].mean())) for m in measured] for name in OBSERVED}
