"""Which problems are trained on, which are held out, and the text the policy sees of them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from diver.run import stream_seed
from diver.sample.embedded import encode
from diver.tasks import countdown
from diver.tasks.countdown import Countdown
from diver.tasks.sources import Source, load_problems
from diver.tasks.templates import render
from diver.types import DiverError, Problem, settings


@settings
class Data(Source):
    """Problems to train on: `countdown`, a JSONL or parquet file, or a hub name."""

    path: str = "countdown"
    """`countdown`, a JSONL or parquet file, or a hub id."""
    template: str = "plain"
    """How a problem becomes a prompt: plain, chat, boxed, paper, paper-chat or paper-llama."""
    messages: Literal["as-they-are", "question"] = "as-they-are"
    """Prompts that are chat messages: used as they are, or only the last user message, as the template's question."""
    countdown: Countdown = Countdown()
    """The generator's settings, for path = "countdown"."""


class Prompted(NamedTuple):
    """Problems with their rendered prompts and the token ids by problem id; `skipped` prompts were too long."""

    problems: list[Problem]
    texts: list[str]
    ids: dict[str, list[int]]
    skipped: int


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


def prompted(problems: Sequence[Problem], template: str, tokenizer: Any, longest: int) -> Prompted:
    """Render and tokenise; prompts of more than `longest` tokens are left out."""
    texts = [render(p, template, tokenizer) for p in problems]
    ids = encode(tokenizer, texts)
    kept = [i for i, row in enumerate(ids) if len(row) <= longest]
    return Prompted(
        [problems[i] for i in kept],
        [texts[i] for i in kept],
        {problems[i].id: list(ids[i]) for i in kept},
        len(problems) - len(kept),
    )


def draw_indices(step: int, batch: int, size: int, seed: int) -> list[int]:
    """The problems of rollout step `step` (from 1): each epoch goes through all of them in a seeded order."""
    first, end = (step - 1) * batch, step * batch
    orders = {
        epoch: random.Random(stream_seed(seed, "order", epoch)).sample(range(size), size)
        for epoch in range(first // size, (end - 1) // size + 1)
    }
    return [orders[i // size][i % size] for i in range(first, end)]
