"""Multiple choice as a text: how options are listed, shuffled with a seed, and what guessing gives.

Which of these is a plant?      (an empty line, then a line an option)
A) salt
B) moss
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Mapping, Sequence

from diver.io.seeds import stream_seed
from diver.types import Problem
from diver.verify.options import Listed, listed, options_of


def prompt_with_options(question: str, options: Mapping[str, str]) -> str:
    """A question and its options, label -> text; an option of several lines becomes one line."""
    lines = {label: re.sub(r"\s*\n\s*", " ", text.strip()) for label, text in options.items()}
    return Listed(f"{question.strip()}\n\n", lines, "", ("", ")")).prompt()


def shuffled(problem: Problem, seed: int) -> Problem | None:
    """The problem with its options in an order drawn from (seed, problem id), and its answer moved along.

    `meta["options"]` becomes label -> text as it is shown, `meta["shuffle"]` says the seed and, label by label, where
    each option stood before. None where the prompt lists no options or the answer is not one of their labels.
    """
    parts = listed(problem.prompt) if isinstance(problem.prompt, str) else None
    if parts is None or problem.answer not in parts.options:
        return None
    labels = list(parts.options)
    came_from = random.Random(stream_seed(seed, "options", problem.id)).sample(labels, len(labels))
    options = {new: parts.options[old] for new, old in zip(labels, came_from, strict=True)}
    return dataclasses.replace(
        problem,
        prompt=parts._replace(options=options).prompt(),
        answer=labels[came_from.index(problem.answer)],
        meta={
            **problem.meta,
            "options": options,
            "shuffle": {"seed": seed, "from": dict(zip(labels, came_from, strict=True))},
        },
    )


def random_baseline(problems: Sequence[Problem]) -> float | None:
    """The score of guessing: the mean of 1/(number of options), over the problems that list some; None if none does."""
    counts = [len(options) for problem in problems if (options := options_of(problem))]
    return sum(1 / n for n in counts) / len(counts) if counts else None
