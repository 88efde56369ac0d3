"""Problems to choose learning rates on: `data.path = "method_comparison.problems:countdown"`, a function a testbed.

They come after the training problems in the stream of the testbed, and are as many. No other run of the testbed trains
on them, and none is held out. A testbed that shares its rates with another may have other problems. Some of those may
be among these (study.toml has the number).
"""

from __future__ import annotations

from diver.core.types import Problem
from diver.recipe.data import Source
from diver.recipe.recipe import make_recipe
from diver.tasks.testbeds import generate
from method_comparison.plan import load_plan


def countdown() -> list[Problem]:
    return _after_training("countdown")


def maze() -> list[Problem]:
    return _after_training("maze")


def _after_training(testbed: str) -> list[Problem]:
    data = make_recipe(load_plan().regime(testbed)).data
    trained = getattr(data, data.path.partition(":")[0].replace("-", "_")).problems
    return generate(Source(path=data.path), data, 2 * trained, held_out=False)[trained:]
