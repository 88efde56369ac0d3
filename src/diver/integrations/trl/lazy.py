"""A reward function by its dotted path, `diver.integrations.trl.lazy.reward`, for a trainer that is configured by a
file, such as Axolotl.

Its settings are those of `diver.integrations.configured`; the trainer's configuration and tokenizer are read from the
trainer at the first call.
"""

import functools
from collections.abc import Sequence
from typing import Any

from diver.core.types import DiverError
from diver.integrations.configured import configured
from diver.integrations.trl.adapter import GroupAdvantage
from diver.integrations.trl.trained import calling_trainer


def reward(
    prompts: Sequence[Any], completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **inputs: Any
) -> list[float]:
    """The advantage of each completion: TRL calls it."""
    trainer = calling_trainer(inputs)
    if trainer is None:
        raise DiverError("diver.integrations.trl.lazy.reward: is called by TRL's GRPOTrainer only")
    return adapter(trainer)(prompts, completions, completion_ids, **inputs)


@functools.lru_cache(maxsize=1)
def adapter(trainer: Any) -> GroupAdvantage:
    """The adapter of the calling trainer. Another trainer gets another adapter."""
    recipe = configured()
    options: Any = {"verifier": recipe.data.verifier, "verification": recipe.verify}
    function = GroupAdvantage(recipe.method, trainer.args, trainer.processing_class, **options)
    function.entry = reward
    return function
