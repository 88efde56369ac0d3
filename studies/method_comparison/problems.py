"""Problems to choose learning rates on: `data.path = "method_comparison.problems:countdown"`, a function a testbed.

They are of the testbed's own levels, from another seed, and none is among its training problems; those that are held out
are of other hashes.
"""

from __future__ import annotations

import dataclasses
from itertools import islice

from diver.config.recipe import make_recipe
from diver.data import countdown as task
from diver.types import Problem
from method_comparison.plan import load_plan

COUNT = 8192


def countdown() -> list[Problem]:
    settings = make_recipe(load_plan().regime("countdown")).data.countdown
    trained = {problem.id for problem in task.problems(settings, settings.problems, held_out=False)}
    other = dataclasses.replace(settings, seed=settings.seed + 1)
    return list(islice((p for p in task.generate(other, held_out=False) if p.id not in trained), COUNT))
