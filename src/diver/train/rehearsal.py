"""A group of made-up responses through a method, so that what would stop the run later stops it before its first step."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from diver.config.recipe import Recipe
from diver.data.templates import Prompted
from diver.types import Grade, Group, Progress, Reward, Rollout


def rehearse(recipe: Recipe, train: Prompted, tokenizer: Any) -> None:
    """Raises what the method raises: a model that it measures with and that is not here, or an error of one's own method."""
    problem = train.problems[0]
    prompt = train.ids[problem.id]
    tokens = [
        [*prompt[: 1 + i % len(prompt)]] for i in range(recipe.sample.group_size * recipe.method.selection.multiplier)
    ]
    texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in tokens]
    rollouts = tuple(_rollout(i, text, ids) for i, (text, ids) in enumerate(zip(texts, tokens, strict=True)))
    group = Group(problem, rollouts, prompt=train.texts[0], prompt_tokens=tuple(prompt))

    def decode(ids: Sequence[int]) -> str:
        return str(tokenizer.decode(ids, skip_special_tokens=True))

    recipe.method.limited(recipe.sample.max_tokens).apply([group], Progress(0, recipe.train.steps), decode, {})


def _rollout(index: int, text: str, tokens: Sequence[int]) -> Rollout:
    """Every other one is correct."""
    correct = index % 2 == 0
    return Rollout(
        text,
        tokens=tokens,
        logprobs=np.full(len(tokens), -1.0, np.float32),
        index=index,
        grade=Grade.CORRECT if correct else Grade.WRONG,
        key=text,
        reward=Reward(float(correct)),
    )
