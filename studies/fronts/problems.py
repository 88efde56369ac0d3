"""The problems on which fronts are compared: `evaluate.source.path = "fronts.problems:countdown"`.

Training problems are those of the final runs of the replay study. The evaluation has problems that neither that study
nor the comparison of methods evaluated on. Each level has the same share as in training. The first `SELECTION` problems
choose weights and temperature; the other `HELD_OUT` judge.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import partial
from pathlib import Path

from diver.core.files import read_jsonl, write_jsonl
from diver.core.types import Problem
from diver.recipe.data import Source
from diver.recipe.recipe import make_recipe
from diver.tasks.testbeds import generate
from method_comparison.plan import load_plan
from verified_replay.problems import held_out_stream, trained

SELECTION, HELD_OUT = 256, 1024
CANDIDATES = {"countdown": 12_000, "maze": 6_000}  # enough that the rarest level of each testbed fills its share
CACHE = Path("runs/fronts")  # every run reads the problems, and 6,000 mazes take minutes to make


def evaluated(testbed: str) -> list[Problem]:
    """`SELECTION` problems, then `HELD_OUT` others; from `CACHE` where an earlier call has stored them."""
    file = CACHE / f"{testbed}.jsonl"
    if not file.exists():
        write_jsonl(file, map(dataclasses.asdict, make(testbed)))
    return [Problem(**row) for _, row in read_jsonl(file)]


def make(testbed: str) -> list[Problem]:
    plan = load_plan()
    similar = [name for name, bed in plan.testbeds.items() if bed.rates_of == testbed]
    data_by_testbed = {name: make_recipe(plan.regime(name)).data for name in similar}
    source, count = Source(path=testbed), plan.evaluation.problems
    seen = {p.id for data in data_by_testbed.values() for p in generate(source, data, count, held_out=True)}
    seen |= {problem.id for problem in held_out_stream(testbed)}
    unseen = [
        p for p in generate(source, data_by_testbed[testbed], CANDIDATES[testbed], held_out=True) if p.id not in seen
    ]
    training = trained(testbed, "final")
    chosen: list[Problem] = []
    for size in (SELECTION, HELD_OUT):
        wanted = shares(training, size)
        for problem in list(unseen):
            if wanted[problem.source]:
                wanted[problem.source] -= 1
                chosen.append(problem)
                unseen.remove(problem)
    return chosen


def shares(problems: list[Problem], size: int) -> Counter[str]:
    """How many of `size` problems each level has at the shares that levels have in `problems` (largest remainders)."""
    exact = {level: size * n / len(problems) for level, n in Counter(p.source for p in problems).items()}
    counts = Counter({level: int(share) for level, share in exact.items()})
    for level in sorted(exact, key=lambda level: counts[level] - exact[level])[: size - counts.total()]:
        counts[level] += 1
    return counts


countdown, maze = partial(evaluated, "countdown"), partial(evaluated, "maze")
