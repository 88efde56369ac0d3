"""`make train`: clip-higher and DIVER-MIX side by side on two cores, then base, baseline and DIVER in one table.

Both train by recipes/quickstart.toml. A stopped run is resumed and a finished one kept when the same command is given
again. `--seeds 0 1 2 3 4` trains both methods once for each seed, shows the means and writes them to
docs/results/quickstart-seeds.json; a run of one seed is shown beside these means.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.files import write_text
from diver.core.statistics import paired_interval, pass_at_k
from diver.core.tables import markdown
from diver.evaluate.evaluate import Task, duration, evaluate
from diver.recipe.load import load_recipe
from diver.recipe.recipe import Recipe

RECIPE = Path("recipes/quickstart.toml")
FOLDER = Path("runs/quickstart")
SEEDS, SEEDS_FILE = [0, 1, 2, 3, 4], Path("docs/results/quickstart-seeds.json")
METHODS = ("clip-higher", "diver-mix")
TEMPERATURES, SAMPLES, KS = (0.6, 1.0), 64, (1, 4, 16, 64)
NOTE = """
Per cent of 256 held-out problems, 64 samples each; distinct: different correct solutions among the 64.
difference: DIVER-MIX minus clip-higher, paired, with its 95 % interval over {over}.
"""
ONE_SEED = (
    '\nColumns with "{n} seeds" are means over seeds {seeds} on the authors\' machine. One seed can show the '
    "contrary of these means:\n"
    "seeds, versions and processors each move a value by several points. `python scripts/quickstart.py --seeds "
    "{words}` runs them here.\n"
)
MEASURED = 4  # steps of each method, without the first, by which the time is estimated
TREE = 0.4  # seconds of an evaluation by the prefix tree, per second of the same evaluation by the sampler of training


def folder_of(method: str, seed: int) -> Path:
    name = FOLDER.name if method == METHODS[1] else f"{FOLDER.name}-{method}"
    return FOLDER.with_name(name if not seed else f"{name}-seed{seed}")


def metrics(folder: Path) -> list[dict[str, float]]:
    """The rows of a run so far; a row that is being written is left out."""
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def steps_of(rows: Sequence[Mapping[str, float]]) -> list[float]:
    """Seconds of each rollout step, without the first, which is slower, and without evaluations."""
    parts = [{k: v for k, v in row.items() if k.startswith("time/")} for row in rows if row["step"] > 1]
    return [sum(times.values()) - times.get("time/evaluate", 0.0) for times in parts]


def time_left(rows: Mapping[str, Sequence[Mapping[str, float]]], recipe: Recipe, num_seeds: int) -> str:
    """How long all that is left takes, by the steps and the first evaluation of both methods (method -> rows)."""
    evaluation = recipe.evaluate
    later = [*range(evaluation.every, recipe.train.steps, evaluation.every)] if evaluation.every else []
    share = evaluation.num_samples_in_training / evaluation.num_samples
    left, whole, evaluated = 0.0, 0.0, 0.0
    for of_method in rows.values():
        done, seconds = max(row["step"] for row in of_method), float(np.mean(steps_of(of_method)))
        first = next((row["time/evaluate"] for row in of_method if row["step"] == 0), 0.0)
        evaluated = max(evaluated, first)
        rest = (recipe.train.steps - done) * seconds + first * (1 + share * sum(step > done for step in later))
        left = max(left, rest)
        whole = max(whole, recipe.train.steps * seconds + first * (2 + share * len(later)))
    training = left + (num_seeds - 1) * whole
    table = TREE * evaluated * math.ceil(len(TEMPERATURES) * (len(METHODS) * num_seeds + 1) / 2)  # two at a time
    return (
        f"About {duration(training + table)} from here, by {MEASURED} steps and one evaluation on this machine: "
        f"training {duration(training)}, evaluations for the table {duration(table)}."
    )


def train(seed: int, seeds_left: int = 1) -> None:
    """Both methods at once; DIVER-MIX shows its progress, clip-higher writes a log beside its folder.

    `seeds_left` counts this one; how long they take is printed after the first steps.
    """
    running = {}
    for method in METHODS:
        folder = folder_of(method, seed)
        folder.parent.mkdir(parents=True, exist_ok=True)
        arguments = ["--method", method, "--run.seed", str(seed), "--run.folder", str(folder)]
        log = None if method == METHODS[1] else open(folder.with_suffix(".log"), "wb")  # noqa: SIM115
        command = [sys.executable, "-m", "diver", "train", str(RECIPE), *arguments]
        running[method] = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        told = False
        while all(process.poll() is None for process in running.values()):
            time.sleep(0.5)
            measured = {m: metrics(folder_of(m, seed)) for m in METHODS if not told}
            if not told and all(len(steps_of(rows)) >= MEASURED for rows in measured.values()):
                told = True
                print(f"\n{time_left(measured, load_recipe(RECIPE), seeds_left)}", flush=True)
        for method, process in reversed(running.items()):
            if process.wait():
                sys.exit(f"{method}: exit code {process.returncode}; see {folder_of(method, seed).with_suffix('.log')}")
    finally:
        for process in running.values():
            process.terminate()


def evaluation(path: str, temperature: float) -> list[dict[str, Any]]:
    """One row per problem of a checkpoint ("": the base policy), sampled at a temperature, beside the checkpoints."""
    from diver.recipe.sections import Model
    from diver.sample.policy import load_policy
    from diver.sample.prefix_tree import PrefixTreeGenerator
    from diver.tasks.splits import load
    from diver.tasks.templates import prompted

    folder = Path(path).parents[1] if path else FOLDER
    stored = folder / f"{Path(path).name or 'base'}-temperature-{temperature}.json"  # of a longer run: another step
    if stored.exists():
        return json.loads(stored.read_text())
    recipe = load_recipe(RECIPE)
    policy = load_policy(Model(path="countdown", threads=1), Path(path) if path else None)
    _, problems, _ = load(recipe.data, recipe.evaluate.source, recipe.evaluate.problems)
    kept = prompted(problems, recipe.data.template, policy.tokenizer, recipe.sample.max_prompt_tokens)
    task = Task(
        name="held-out",
        problems=kept.problems,
        template=kept.template,
        temperature=temperature,
        max_tokens=recipe.sample.max_tokens,
        samples=SAMPLES,
        ks=KS,
    )
    rows = evaluate(task, lambda: PrefixTreeGenerator(policy, seed=0), progress=False)["per_problem"]
    write_text(stored, json.dumps(rows))
    return rows


def columns(rows: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Measure -> float64 [problems], in per cent but for the number of solutions."""
    n, c, distinct = (np.array([row[key] for row in rows]) for key in ("n", "c", "distinct"))
    return {**{f"Pass@{k}": 100 * pass_at_k(n, c, k) for k in KS}, f"distinct of {SAMPLES}": distinct.astype(float)}


def bounds(measure: str) -> tuple[float, float]:
    return (0, SAMPLES) if measure.startswith("distinct") else (0, 100)


Values = dict[str, dict[str, Any]]


def values(results: Mapping[tuple[str, int, float], list[dict[str, Any]]], seeds: Sequence[int]) -> dict[str, Values]:
    """Temperature -> measure -> {"base", each method: the mean over seeds and problems;
    "difference": [mean, low, high]}."""
    found: dict[str, Values] = {}
    for temperature in TEMPERATURES:
        base = columns(results["base", 0, temperature])
        trained = {m: [columns(results[m, seed, temperature]) for seed in seeds] for m in METHODS}
        of_temperature = found[str(temperature)] = {}
        for measure, of_base in base.items():
            each = {m: np.array([c[measure] for c in trained[m]]) for m in METHODS}
            change = paired_interval(each[METHODS[0]], each[METHODS[1]], bounds(measure))
            of_temperature[measure] = {
                "base": float(of_base.mean()),
                **{m: float(each[m].mean()) for m in METHODS},
                "difference": [float(change.mean), float(change.low), float(change.high)],
            }
    return found


def table(mine: Mapping[str, Values], seeds: Sequence[int], known: Mapping[str, Any] | None = None) -> str:
    """A table a temperature: base, each method and the difference; beside it the means over the seeds of a file."""
    beside: Mapping[str, Values] = known["values"] if known else {}
    also = [f"{name}, {len(known['seeds'])} seeds" for name in (*METHODS, "difference")] if known else []
    parts = []
    for temperature, measures in mine.items():
        rows = []
        for measure, value in measures.items():
            digits = 2 if measure.startswith("distinct") else 1
            cells = [f"{value['base']:.{digits}f}", *shown(value, digits)]
            more = beside.get(temperature, {}).get(measure)
            rows.append([measure, *cells, *(shown(more, digits) if more else [""] * len(also))])
        title = f"temperature {temperature}" + " (the paper's evaluation)" * (temperature == "0.6")
        parts.append(markdown([title, "base", *METHODS, "difference", *also], rows))
    over = "problems" if len(seeds) == 1 else f"{len(seeds)} seeds and problems"
    text = "\n".join(parts) + NOTE.format(over=over)
    if known:
        words = [*map(str, known["seeds"])]
        text += ONE_SEED.format(n=len(words), seeds=", ".join(words), words=" ".join(words))
    return text


def shown(value: Mapping[str, Any], digits: int) -> list[str]:
    """Both methods and their difference with its interval."""
    mean, low, high = value["difference"]
    levels = [f"{value[m]:.{digits}f}" for m in METHODS]
    return [*levels, f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    seeds = parser.parse_args().seeds
    for i, seed in enumerate(seeds):
        train(seed, len(seeds) - i)
    steps = load_recipe(RECIPE).train.steps
    jobs = {
        (m, seed, t): (str(folder_of(m, seed) / "checkpoints" / f"step_{steps:04d}"), t)
        for t in TEMPERATURES
        for seed in seeds
        for m in METHODS
    }
    jobs |= {("base", 0, t): ("", t) for t in TEMPERATURES}
    with ProcessPoolExecutor(2) as pool:
        results = dict(zip(jobs, pool.map(evaluation, *zip(*jobs.values(), strict=True)), strict=True))
    mine = values(results, seeds)
    known = json.loads(SEEDS_FILE.read_text()) if len(seeds) == 1 and SEEDS_FILE.exists() else None
    if seeds == SEEDS:
        write_text(SEEDS_FILE, json.dumps({"steps": steps, "seeds": seeds, "values": mine}, indent=1) + "\n")
    text = table(mine, seeds, known)
    write_text(FOLDER / ("table.md" if seeds == [0] else f"table-{len(seeds)}-seeds.md"), text)
    page = FOLDER / "comparison.html"
    folders = [str(folder_of(m, seeds[0])) for m in METHODS]
    report = [sys.executable, "-m", "diver", "browse", *folders, "--out", str(page)]
    subprocess.run(report, check=True, stdout=subprocess.DEVNULL)
    print(f"\n{text}\nReports: {FOLDER / 'report.html'}, side by side {page}")


if __name__ == "__main__":
    main()
