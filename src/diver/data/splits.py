"""Which problems are trained on, which are held out, and the text the policy sees of them."""

from __future__ import annotations

import dataclasses
import random

from diver.config.data import Data, Source
from diver.data import countdown
from diver.data.sources import load_problems
from diver.io.seeds import stream_seed
from diver.types import DiverError, Problem


def load(data: Data, held: Source | None, held_count: int, seed: int) -> tuple[list[Problem], list[Problem], list[str]]:
    """Training problems, `held_count` held-out ones, and what there is to tell about them.

    Without a source for the held-out ones they are Countdown's, or a seeded part of the training data, which then
    leaves the training.
    """
    notes: list[str] = []
    if data.path == "countdown":
        train = countdown.problems(data.countdown, data.countdown.problems, held=False)
    else:
        loaded = load_problems(data)
        notes += loaded.notes
        train = list(loaded)
    if not held_count:
        apart = []
    elif held is not None and held.path != "countdown":
        loaded = load_problems(held)
        notes += loaded.notes
        apart = list(loaded)[:held_count]
    elif data.path == "countdown" or held is not None:
        apart = countdown.problems(data.countdown, held_count, held=True)
    else:
        order = random.Random(stream_seed(seed, "held out")).sample(range(len(train)), len(train))
        if len(train) <= held_count:
            raise DiverError(
                f"{data.path}: {len(train)} problems are too few to hold out {held_count}; set evaluate.problems lower, "
                "or name other data in evaluate.source"
            )
        notes.append(
            f"{data.path}: {held_count} of {len(train)} problems are set aside for evaluation (evaluate.problems)"
        )
        apart = [train[i] for i in sorted(order[:held_count])]
        train = [train[i] for i in sorted(order[held_count:])]
    if data.messages == "question":
        train, apart = [[_bare(p) for p in problems] for problems in (train, apart)]
    return train, apart, notes


def _bare(problem: Problem) -> Problem:
    """The problem with its last user message as the question."""
    if isinstance(problem.prompt, str):
        return problem
    asked = [m["content"] for m in problem.prompt if m["role"] == "user"]
    if not asked:
        raise DiverError(f'problem {problem.id!r}: its prompt has no user message; set data.messages = "as-they-are"')
    return dataclasses.replace(problem, prompt=asked[-1])


def draw_indices(step: int, batch: int, size: int, seed: int) -> list[int]:
    """The problems of rollout step `step` (from 1): each epoch goes through all of them in a seeded order."""
    first, end = (step - 1) * batch, step * batch
    orders = {
        epoch: random.Random(stream_seed(seed, "order", epoch)).sample(range(size), size)
        for epoch in range(first // size, (end - 1) // size + 1)
    }
    return [orders[i // size][i % size] for i in range(first, end)]
