"""The columns of foreign files that hold the parts of a rollout, and the parts of a row."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from diver.core.columns import COLUMNS
from diver.core.files import packaged_table
from diver.core.settings import settings
from diver.core.types import Group

DATA = packaged_table("diver.rollouts", "layouts.toml")
Row = Mapping[str, Any]
Names = Mapping[str, Sequence[str]]
"""Dotted paths of columns for each part of a rollout; the first that exists counts."""
PARTS = "response outcome answer step entropy logprobs length truncated advantage".split()
NAMES: dict[str, Sequence[str]] = {
    "problem": [*COLUMNS["prompt"], *COLUMNS["problem_id"]],
    **dict.fromkeys(("id", "group", "source", "by", "grader", "accepted"), ()),
    **{part: COLUMNS[part] for part in PARTS},
}
OUTCOMES = NAMES["outcome"]
SOURCES: Sequence[str] = DATA["layouts"]["named columns"]["source"]

SESSION = re.compile(r"(.+)_\d+_\d+")
"""verl's `uid`: the group, then the numbers of the rollout and of its output."""


@settings
class Columns:
    """The names of a file's columns; an empty name stands for those of its layout. A dot reaches into a column."""

    problem: str = ""
    """The column that identifies the problem."""
    response: str = ""
    """The column of the response, or of a list of them."""
    outcome: str = ""
    """The column of the outcome: true, false or a number."""
    answer: str = ""
    """The column of the reference answer."""
    by: str = ""
    """The column that separates responses, such as model or method. Each value has its own groups."""
    step: str = ""
    """The column of the training step."""
    entropy: str = ""
    """The column of the entropy, in nats: of the response, or of each of its tokens."""
    logprobs: str = ""
    """The column of the log-probabilities of the sampled tokens."""

    keep_prompt: bool = False
    """Keep the prompt in responses that begin with it. By default it is cut off where most responses of a file do."""

    def named(self) -> dict[str, str]:
        """The columns that the user names, by their settings."""
        paths = {field.name: getattr(self, field.name) for field in fields(Columns) if field.name != "keep_prompt"}
        return {name: path for name, path in paths.items() if path}


class File(NamedTuple):
    """The rows of a file, each with its place, and how to read them.

    `notes` are for the user. `outcomes` are the columns that were read as the outcome if the user names none.
    """

    path: Path
    rows: Iterator[tuple[str, Row]]
    notes: list[str]
    outcomes: dict[str, None]
    names: Names = NAMES
    step: int | None = None
    """The step of rows without a step."""
    problem_is_named: bool = False
    """Whether the user names the column of the problem. Rows with the same value in it are then one group."""


class Part(NamedTuple):
    """Responses to one problem. Parts with the same key in the same step are one group."""

    key: str
    group: Group
    ids: Mapping[str, int] | None = None
    """The hash of each id by its column. Ids may tell problems with equal prompts apart.

    None if the key alone names the problem.
    """
    certain: str = ""
    """The column of `ids` that certainly has ids of problems, even if its value differs in every response. Without
    `ids`, the column that the user names."""
    prompt: str = ""
    """The digest of a prompt that has more than its text, such as images."""
    file: Path | None = None
    """The file of the responses, if a problem may have responses in several files."""
