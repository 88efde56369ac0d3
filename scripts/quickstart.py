"""`make train`: clip-higher and DIVER-MIX side by side on two cores, by the commands of docs/quickstart.md.

A stopped run is resumed and a finished one kept when the same command is given again. The table of `diver compare` has
the evaluations that the runs made at their end, as their pages do. The means over five seeds stand below it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.tables import markdown
from diver.evaluate.evaluate import duration
from diver.recipe.load import load_recipe
from diver.recipe.recipe import Recipe

RECIPE = Path("recipes/quickstart.toml")
FOLDERS = {"clip-higher": Path("runs/quickstart-clip-higher"), "diver-mix": Path("runs/quickstart")}
SHOWN = "diver-mix"  # its progress is shown; the other run writes a log beside its folder
SEEDS_FILE = Path("docs/results/quickstart-seeds.json")
TEMPERATURE = "0.6"  # that of the recipe, of the two in SEEDS_FILE
COMPARISON = Path("runs/quickstart/comparison.html")
MEASURED = 4  # steps of each method, without the first, by which the time is estimated
DIVER = (sys.executable, "-m", "diver")


def metrics(folder: Path) -> list[dict[str, float]]:
    """The rows of a run so far; a row that is being written is left out."""
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def steps_of(rows: Sequence[Mapping[str, float]]) -> list[float]:
    """Seconds of each rollout step, without the first, which is slower, and without evaluations."""
    parts = [{k: v for k, v in row.items() if k.startswith("time/")} for row in rows if row["step"] > 1]
    return [sum(times.values()) - times.get("time/evaluate", 0.0) for times in parts]


def time_left(rows: Mapping[str, Sequence[Mapping[str, float]]], recipe: Recipe) -> str:
    """How long all that is left takes, by the steps and the first evaluation of both methods (method -> rows)."""
    evaluation = recipe.evaluate
    later = [*range(evaluation.every, recipe.train.steps, evaluation.every)] if evaluation.every else []
    share = evaluation.num_samples_in_training / evaluation.num_samples
    left = 0.0
    for of_method in rows.values():
        done, seconds = max(row["step"] for row in of_method), float(np.mean(steps_of(of_method)))
        first = next((row["time/evaluate"] for row in of_method if row["step"] == 0), 0.0)
        rest = (recipe.train.steps - done) * seconds + first * (1 + share * sum(step > done for step in later))
        left = max(left, rest)
    return f"About {duration(left)} from here, by {MEASURED} steps and one evaluation on this machine."


def train() -> None:
    """Both methods at once; how long they take is printed after the first steps."""
    running = {}
    for method, folder in FOLDERS.items():
        folder.parent.mkdir(parents=True, exist_ok=True)
        log = None if method == SHOWN else open(folder.with_suffix(".log"), "wb")  # noqa: SIM115
        words = ["train", str(RECIPE), "--method", method, "--run.folder", str(folder)]
        running[method] = subprocess.Popen([*DIVER, *words], stdout=log, stderr=log)
    try:
        told = False
        while all(process.poll() is None for process in running.values()):
            time.sleep(0.5)
            measured = {method: metrics(folder) for method, folder in FOLDERS.items() if not told}
            if not told and all(len(steps_of(rows)) >= MEASURED for rows in measured.values()):
                told = True
                print(f"\n{time_left(measured, load_recipe(RECIPE))}", flush=True)
        for method, process in reversed(running.items()):
            if process.wait():
                sys.exit(f"{method}: exit code {process.returncode}; see {FOLDERS[method].with_suffix('.log')}")
    finally:
        for process in running.values():
            process.terminate()


def over_seeds(known: Mapping[str, Any]) -> str:
    """The means of SEEDS_FILE as a table: base, each method, and the difference with its interval."""
    rows = []
    for measure, value in known["values"][TEMPERATURE].items():
        digits = 2 if measure.startswith("distinct") else 1
        mean, low, high = value["difference"]
        levels = [f"{value[name]:.{digits}f}" for name in ("base", *FOLDERS)]
        rows.append([measure, *levels, f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"])
    title = f"means over {len(known['seeds'])} seeds"
    return markdown([title, "base", *FOLDERS, "difference"], rows)


def main() -> None:
    train()
    folders = [str(folder) for folder in FOLDERS.values()]
    page = [*DIVER, "browse", *folders, "--out", str(COMPARISON)]
    subprocess.run(page, check=True, stdout=subprocess.DEVNULL)
    print(flush=True)
    subprocess.run([*DIVER, "compare", *folders], check=True)
    print(f"\n{over_seeds(json.loads(SEEDS_FILE.read_text()))}")
    print("Those means are of the authors' machine. One seed can show the contrary:")
    print("seeds, versions and processors each move a value by several points.")
    print(f"\nReports: {FOLDERS[SHOWN] / 'report.html'}, side by side {COMPARISON}")


if __name__ == "__main__":
    main()
