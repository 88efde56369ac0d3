"""The problems of each stage, as functions that a recipe names: `data.path = "verified_replay.problems:maze_final"`.

All come from the streams of the testbeds with seed 0. Tuning and final runs have alternate problems of one range of a
stream, so that their mix of levels is the same. The comparison of methods evaluated on none of the held-out problems.
"""

from __future__ import annotations

from functools import cache, partial

from diver.core.types import Problem
from diver.recipe.data import Source
from diver.recipe.recipe import make_recipe
from diver.tasks.testbeds import generate
from method_comparison.plan import load_plan

TRAINED = {"countdown": (0, 16384), "maze": (1024, 2048), "large": (2048, 10240)}
HELD_OUT = 1024
TURN = {"tuning": 0, "final": 1}


@cache
def stream(testbed: str, first: int, end: int) -> list[Problem]:
    """Training problems `first` to `end` of a testbed."""
    data = make_recipe(load_plan().regime(testbed)).data
    return generate(Source(path=testbed), data, end, held_out=False)[first:end]


@cache
def held_out_stream(testbed: str) -> list[Problem]:
    """2 x HELD_OUT held-out problems on which the comparison of methods did not evaluate.

    Problems of testbeds like this one are left out, too.
    """
    plan = load_plan()
    similar = [name for name, bed in plan.testbeds.items() if bed.rates_of == testbed]
    count = plan.evaluation.problems
    data_by_testbed = {name: make_recipe(plan.regime(name)).data for name in similar}
    source, testbed_data = Source(path=testbed), data_by_testbed.pop(testbed)
    seen = {p.id for data in data_by_testbed.values() for p in generate(source, data, count, held_out=True)}
    # The comparison evaluated on the first `count` of this stream; at most `len(seen)` later ones are left out.
    candidates = generate(source, testbed_data, count + len(seen) + 2 * HELD_OUT, held_out=True)[count:]
    return [problem for problem in candidates if problem.id not in seen][: 2 * HELD_OUT]


def trained(testbed: str, stage: str) -> list[Problem]:
    return stream(testbed, *TRAINED[testbed])[TURN[stage] :: 2]


def held_out(testbed: str, stage: str) -> list[Problem]:
    return held_out_stream(testbed)[TURN[stage] :: 2]


countdown_tuning = partial(trained, "countdown", "tuning")
countdown_tuning_held_out = partial(held_out, "countdown", "tuning")
countdown_final = partial(trained, "countdown", "final")
countdown_final_held_out = partial(held_out, "countdown", "final")
maze_tuning = partial(trained, "maze", "tuning")
maze_tuning_held_out = partial(held_out, "maze", "tuning")
maze_final = partial(trained, "maze", "final")
maze_final_held_out = partial(held_out, "maze", "final")
maze_large = partial(stream, "maze", *TRAINED["large"])
maze_large_held_out = maze_final_held_out
