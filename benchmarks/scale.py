"""How the cost of shaping grows: CPU seconds and memory of `Method.apply` (DIVER-MIX) over rising loads, on one thread.

Three series, from `load.py`: the size of one group, the number of groups, the length of the responses. Each load is
shaped in a process of its own, best of several rounds; memory is the peak of what a further round allocates.
`rows` are what the TRL adapter sends to every process of a run for the load: bytes as pickled, text and token ids.

    python benchmarks/scale.py [--quick]
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy starts its threads

import argparse
import json
import math
import multiprocessing
import pickle
import platform
import time
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from load import group

from diver.core.progress import progress_bar
from diver.core.types import Group, Problem, Reward, Rollout
from diver.methods import method_named

HERE = Path(__file__).resolve().parent


class Load(NamedTuple):
    groups: int
    size: int
    words: int


SERIES = {
    "group size": [Load(1, size, 600) for size in (8, 16, 32, 64, 128, 256, 512, 1024)],
    "number of groups": [Load(groups, 8, 1700) for groups in (16, 32, 64, 128, 256)],
    "length": [Load(128, 8, words) for words in (512, 1024, 2048, 4096, 8192)],
}


def made(load: Load) -> list[Group]:
    """Groups with every second response correct; token ids as many as words and of a vocabulary's size."""
    rng = np.random.default_rng(0)
    groups = []
    for seed in range(load.groups):
        texts = group(seed, load.size, load.words)
        rollouts = tuple(
            Rollout(text, rng.integers(0, 150_000, len(text.split())).tolist(), reward=Reward(float(i % 2)))
            for i, text in enumerate(texts)
        )
        groups.append(Group(Problem(str(seed), "", ""), rollouts))
    return groups


def measure(load: Load, rounds: int) -> dict[str, Any]:
    groups, method = made(load), method_named("diver-mix")
    method.apply(made(Load(1, 64, 50)), 0.0)  # imports
    sent = len(pickle.dumps([(g.problem.prompt, r) for g in groups for r in g.rollouts]))
    best = math.inf
    for _ in range(rounds):
        start = time.process_time()
        shaped = method.apply(groups, 0.0)
        best = min(best, time.process_time() - start)
    tracemalloc.start()  # a round by itself: it is slow
    method.apply(groups, 0.0)
    peak = tracemalloc.get_traced_memory()[1]
    td = float(np.mean([r.diversity["textual"] for g in shaped for r in g.rollouts]))
    return {**load._asdict(), "cpu_seconds": best, "memory_mb": peak / 2**20, "rows_mb": sent / 2**20, "textual": td}


def slope(rows: list[dict[str, Any]], by: str) -> float:
    """The exponent between the last two loads: 1 is linear."""
    last, before = rows[-1], rows[-2]
    return math.log(last["cpu_seconds"] / before["cpu_seconds"]) / math.log(last[by] / before[by])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one round in place of three, without the two largest of each; nothing is written",
    )
    quick = parser.parse_args().quick
    found: dict[str, list[dict[str, Any]]] = {}
    with progress_bar(sum(map(len, SERIES.values())) - quick * 2 * len(SERIES), "scale", "load") as bar:
        for name, loads in SERIES.items():
            found[name] = []
            for load in loads[: -2 if quick else None]:
                bar.set_description(f"{load.groups} x {load.size} x {load.words}")
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    found[name].append(pool.apply(measure, (load, 1 if quick else 3)))
                bar.update()
    for name, by in (("group size", "size"), ("number of groups", "groups"), ("length", "words")):
        print(f"\n{name}: CPU seconds grow with power {slope(found[name], by):.2f} at the end")
        print(f"{'groups x responses x words':>28}{'CPU s':>10}{'memory MB':>12}{'rows MB':>10}{'mean TD':>10}")
        for row in found[name]:
            shape = f"{row['groups']} x {row['size']} x {row['words']}"
            columns = (
                f"{row['cpu_seconds']:>10.3f}{row['memory_mb']:>12.0f}{row['rows_mb']:>10.1f}{row['textual']:>10.2f}"
            )
            print(f"{shape:>28}{columns}")
    if quick:
        return
    machine = {"python": platform.python_version(), "numpy": np.__version__, "processor": platform.machine()}
    out = HERE / "results/scale.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"machine": machine, "series": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
