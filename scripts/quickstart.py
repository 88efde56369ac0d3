"""`make train`: clip-higher and DIVER-MIX side by side on two cores, then base, baseline and DIVER in one table.

Both train by recipes/quickstart.toml. A stopped run is resumed and a finished one kept when the same command is given
again. `--seeds 0 1 2 3 4` trains both methods once for each seed and shows the means.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from diver.config.load import load_recipe
from diver.evaluate.evaluate import evaluate
from diver.evaluate.task import Task
from diver.io.files import write_text
from diver.render.tables import markdown
from diver.stats import Estimate, paired_interval, pass_at_k

RECIPE = Path("recipes/quickstart.toml")
FOLDER = Path("runs/quickstart")
METHODS = ("clip-higher", "diver-mix")
TEMPERATURES, SAMPLES, KS = (0.6, 1.0), 64, (1, 4, 16, 64)
NOTE = """
Per cent of 256 held-out problems, 64 samples each; distinct: different correct solutions among the 64.
difference: DIVER-MIX minus clip-higher, paired, with its 95 % interval over {over}.
"""


def folder_of(method: str, seed: int) -> Path:
    name = FOLDER.name if method == METHODS[1] else f"{FOLDER.name}-{method}"
    return FOLDER.with_name(name if not seed else f"{name}-seed{seed}")


def train(seed: int) -> None:
    """Both methods at once; DIVER-MIX shows its progress, clip-higher writes a log beside its folder."""
    running = {}
    for method in METHODS:
        folder = folder_of(method, seed)
        folder.parent.mkdir(parents=True, exist_ok=True)
        arguments = ["--method", method, "--run.seed", str(seed), "--run.folder", str(folder)]
        log = None if method == METHODS[1] else open(folder.with_suffix(".log"), "wb")  # noqa: SIM115
        command = [sys.executable, "-m", "diver", "train", str(RECIPE), *arguments]
        running[method] = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        for method, process in reversed(running.items()):
            if process.wait():
                sys.exit(f"{method}: exit code {process.returncode}; see {folder_of(method, seed).with_suffix('.log')}")
    finally:
        for process in running.values():
            process.terminate()


def evaluation(path: str, temperature: float) -> list[dict[str, Any]]:
    """A row a problem of a checkpoint ("": the base policy), sampled at a temperature; kept beside the checkpoints."""
    from diver.config.sections import Model
    from diver.data.splits import load
    from diver.data.templates import prompted
    from diver.generate.policy import load_policy
    from diver.generate.prefix_tree import PrefixTreeGenerator

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


def table(results: dict[tuple[str, int, float], list[dict[str, Any]]], seeds: Sequence[int]) -> str:
    """A table a temperature: base, each method's mean over seeds, and the difference."""
    parts = []
    for temperature in TEMPERATURES:
        base = columns(results["base", 0, temperature])
        trained = {m: [columns(results[m, seed, temperature]) for seed in seeds] for m in METHODS}
        rows = []
        for measure, values in base.items():
            each = {m: np.array([c[measure] for c in trained[m]]) for m in METHODS}
            change = paired_interval(each[METHODS[0]], each[METHODS[1]], bounds(measure))
            levels = [values.mean(), *(each[m].mean() for m in METHODS)]
            digits = 2 if measure.startswith("distinct") else 1
            rows.append([measure, *(f"{level:.{digits}f}" for level in levels), shown(change, digits)])
        title = f"temperature {temperature}" + " (the paper's evaluation)" * (temperature == 0.6)
        parts.append(markdown([title, "base", *METHODS, "difference"], rows))
    over = "problems" if len(seeds) == 1 else f"{len(seeds)} seeds and problems"
    return "\n".join(parts) + NOTE.format(over=over)


def shown(e: Estimate, digits: int) -> str:
    return f"{e.mean:+.{digits}f} [{e.low:+.{digits}f}, {e.high:+.{digits}f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    seeds = parser.parse_args().seeds
    for seed in seeds:
        train(seed)
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
    text = table(results, seeds)
    write_text(FOLDER / ("table.md" if seeds == [0] else f"table-{len(seeds)}-seeds.md"), text)
    page = FOLDER / "comparison.html"
    folders = [str(folder_of(m, seeds[0])) for m in METHODS]
    report = [sys.executable, "-m", "diver", "report", *folders, "--out", str(page)]
    subprocess.run(report, check=True, stdout=subprocess.DEVNULL)
    print(f"\n{text}\nReports: {FOLDER / 'report.html'}, side by side {page}")


if __name__ == "__main__":
    main()
