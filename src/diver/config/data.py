"""Where problems come from, and how they become prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, NamedTuple

from diver.settings import settings


@settings
class Source:
    """A set of problems."""

    path: str = ""
    """A .jsonl or .parquet file, a folder of them, the id of a data set on the hub (owner/name), or
    "my_module:my_function", which gives the problems."""
    config: str | None = None
    """Hub: the configuration, such as "main" of openai/gsm8k."""
    split: str = "train"
    """Hub: the split."""
    revision: str | None = None
    """Hub: the commit, tag or branch; the newest where none is given."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """What the columns are called here: names for "prompt", "answer", "id", "source"."""
    verifier: str = "auto"
    """How answers are graded: math, gsm8k, rule, choice, countdown, or "my_module:my_function"; auto: gsm8k for GSM8K,
    choice for one letter with lettered options, else math."""
    limit: int | None = None
    """Only so many problems from the beginning, counted without repeated ones."""


class Level(NamedTuple):
    """How many numbers, each drawn from 1..largest, and the largest target."""

    numbers: int
    largest: int
    target: int


LEVELS = {"three": Level(3, 20, 100), "four": Level(4, 13, 100)}


@settings
class Countdown:
    """The generator's settings."""

    mix: Mapping[str, float] | None = None
    """Weight of each level, for instance {three = 0.5, four = 0.5}; none given: equal shares."""
    problems: int = 4096
    """How many different training problems."""
    seed: int = 0
    """Of the problems; run.seed is that of the training."""

    def __post_init__(self) -> None:
        if self.problems < 1:
            raise ValueError("countdown.problems must be at least 1")
        for level, share in (self.mix or {}).items():
            if level not in LEVELS:
                raise ValueError(f"countdown.mix: no level {level!r}; there are {', '.join(LEVELS)}")
            if not share >= 0:
                raise ValueError(f"countdown.mix: the share of {level!r} must not be negative")
        if self.mix and not any(self.mix.values()):
            raise ValueError("countdown.mix: at least one share must be positive")


@settings
class Data(Source):
    """Problems to train on."""

    path: str = "countdown"
    """countdown, a .jsonl or .parquet file, a folder of them, the id of a data set on the hub, or "my_module:my_function"."""
    template: str = "plain"
    """How a problem becomes a prompt: plain, chat, boxed, paper, paper-chat or paper-llama."""
    messages: Literal["as-they-are", "question"] = "as-they-are"
    """Prompts that are chat messages: used as they are, or only the last user message, as the template's question."""
    countdown: Countdown = Countdown()
    """The generator's settings, for path = "countdown"."""
