"""Settings of the data: the source of the problems, and how they become prompts."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, NamedTuple

from pydantic import NonNegativeFloat

from diver.core.extras import STUDIES
from diver.core.settings import PositiveInt, settings


@settings
class Source:
    """A set of problems."""

    path: str = ""
    """A file, a folder of files, the id of a data set on the hub, or "my_module:my_function". Files are .jsonl, .json,
    .csv or .parquet. A function returns the problems."""
    config: str | None = None
    """The configuration of a data set on the hub, such as "main" of openai/gsm8k."""
    split: str = "train"
    """The split of a data set on the hub."""
    revision: str | None = None
    """The commit, tag or branch of a data set on the hub. Default: the newest commit."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Names of the columns that have "prompt", "answer", "id" and "source",
    where they differ from the known layouts."""
    verifier: str = "auto"
    """Grader of the answers, "my_module:my_function", or an environment, "my_module:MyEnvironment". Graders are math,
    gsm8k, choice, math-verify, countdown, maze, reasoning-gym and graph-coloring. With auto, GSM8K has gsm8k, and all
    else math. An answer that is an option of the prompt or of a column has choice. Options in a column are put behind
    the question."""
    limit: PositiveInt | None = None
    """Maximum number of problems, taken from the beginning and counted without duplicates."""
    skip_invalid_rows: bool = False
    """Leave out and count rows that cannot be used (not JSON, no prompt, no answer, ...); by default, an error."""


class Level(NamedTuple):
    """A level of difficulty: how many numbers, each drawn from 1..largest, and the largest and the smallest target."""

    numbers: int
    largest: int
    target: int
    smallest: int = 1


LEVELS = {
    "three": Level(3, 20, 100),
    "four": Level(4, 13, 100),
    "four-large": Level(4, 20, 400, 101),
    "five": Level(5, 13, 100),
}
STANDARD_MIX = {"three": 1.0, "four": 1.0}


@settings
class Generated:
    """Problems that a testbed generates."""

    problems: PositiveInt = 4096
    """Number of distinct training problems."""
    seed: int = 0
    """Seed of the generated problems; the seed of the training is run.seed."""


@settings
class Countdown(Generated):
    """Settings of the generated Countdown problems."""

    mix: Mapping[str, NonNegativeFloat] | None = None
    """Relative frequency of each level, such as {three = 0.5, four = 0.5}; the default is these two."""

    def __post_init__(self) -> None:
        _check_mix(self.mix, LEVELS, "countdown.mix")


class MazeLevel(NamedTuple):
    """A level of difficulty: a square of `size` cells, how many of them are walls, and how far the goal is at least."""

    size: int
    walls: int
    distance: int


MAZES = {
    "five": MazeLevel(5, 6, 3),
    "seven": MazeLevel(7, 14, 5),
    "nine": MazeLevel(9, 26, 7),
    "nine-dense": MazeLevel(9, 32, 9),
    "nine-far": MazeLevel(9, 32, 13),
}
STANDARD_MAZES = {"seven": 1.0, "nine": 1.0}


@settings
class Maze(Generated):
    """Settings of the generated mazes."""

    mix: Mapping[str, NonNegativeFloat] | None = None
    """Relative frequency of each level, such as {seven = 0.5, nine = 0.5}; the default is these two."""

    def __post_init__(self) -> None:
        _check_mix(self.mix, MAZES, "maze.mix")


class HouseLevel(NamedTuple):
    """A level of difficulty: how many rooms, boxes and things a house has, and how many of the things are wanted."""

    rooms: int
    boxes: int
    things: int
    wanted: int


HOUSES = {"two": HouseLevel(3, 1, 3, 2), "three": HouseLevel(4, 2, 4, 3)}


@settings
class TextWorldHouses(Generated):
    """Settings of the generated houses of TextWorld."""

    mix: Mapping[str, NonNegativeFloat] | None = None
    """Relative frequency of each level, such as {two = 0.5, three = 0.5}; the default is these two."""

    def __post_init__(self) -> None:
        _check_mix(self.mix, HOUSES, "textworld.mix")


@settings
class ReasoningGym(Generated):
    """Settings of problems of reasoning-gym."""

    sizes: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    """Keys of the task's own settings, such as {num_colors = 3, max_num_vertices = 12}."""


def _check_mix(mix: Mapping[str, float] | None, levels: Mapping[str, object], where: str) -> None:
    if unknown := [level for level in mix or {} if level not in levels]:
        raise ValueError(f"{where}: no level {unknown[0]!r}; there are {', '.join(levels)}")
    if mix and not any(mix.values()):
        raise ValueError(f"{where}: at least one weight must be positive")


@settings
class Data(Source):
    """Problems to train on."""

    path: str = "countdown"
    """countdown, maze, textworld, reasoning-gym:TASK, a file, a folder, a data set on the hub. Files are .jsonl, .json,
    .csv or .parquet. A data set is named by its id, owner/name. "my_module:my_function" returns the problems."""
    template: str = "auto"
    """The prompt template: plain, chat, boxed, paper, paper-chat, paper-llama, qwen-boxed, qwen-math, ... An unknown
    name lists all. With auto, a chat model has its chat template, and other models have plain. The chat template has
    the instruction to box the answer where the verifier reads a box."""
    messages: Literal["as-they-are", "question"] = "as-they-are"
    """The use of prompts that are chat messages. With question, only the last user message is used, as the question of
    the template."""
    countdown: Countdown = Countdown()
    """Settings of the generated problems, for path = "countdown"."""
    maze: Maze = Maze()
    """Settings of the generated problems, for path = "maze"."""
    textworld: TextWorldHouses = TextWorldHouses()
    """Settings of the generated problems, for path = "textworld"."""
    reasoning_gym: ReasoningGym = ReasoningGym()
    """Settings of the generated problems, for path = "reasoning-gym:graph_color" and the other tasks
    of that library."""


TESTBEDS = {"countdown": False, "maze": False, "textworld": False, "reasoning-gym": True}
"""Tasks whose problems are generated, with an exact verifier and a starting policy -> whether tasks follow a colon.

The section of `data` of the same name has the settings of the problems, and a testbed needs the extra of its name, if
there is one. Its problems are a function in `diver.tasks.testbeds.PROBLEMS`, or an entry point of the group
`diver.testbeds`. Its grader is one of `diver.grading.GRADERS` or an environment.
"""
POLICIES = ("countdown", *STUDIES["policies"])
"""Starting policies, made by `scripts/starting_policy.py`: the first is in this package, the others in `studies/`."""
