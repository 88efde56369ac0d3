"""What a layout is: its columns, and what it calls the parts of a rollout."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from diver.core.settings import settings
from diver.core.types import Group

PROBLEMS = (
    "problem", "question", "prompt", "messages", "input", "responses_create_params.input",
    "problem_id", "question_id", "example_id", "unique_id", "task_id",
)  # fmt: skip
RESPONSES = (
    "response", "responses", "completion", "completions", "output", "outputs", "generation", "generations", "text",
    "model_output", "model_outputs", "full_model_response", "generated_text",
)  # fmt: skip
OUTCOMES = ("outcome", "correct", "is_correct", "score", "reward", "accuracy")
BENCHMARKS = ("benchmark", "data_source", "dataset", "task")
SOURCES = (*BENCHMARKS, "source", "env")
"""Whose a problem is that is no more than a number. `source` and `env` may be those of a response: they tell apart
nothing else."""
ANSWERS = (
    "answer", "solution", "ground_truth", "reward_model.ground_truth", "gold", "target",
    "expected_answer", "reference_answer", "correct_answer", "answerKey",
)  # fmt: skip

_NUMBERED = r"_?(?:ng_)?(?:problem|question|prompt|example|unique|task|item|instance|doc|group|query|puzzle|challenge)"
PROBLEM_ID = re.compile(_NUMBERED + r"[_ -]?(?:id|idx|index|uid|uuid|hash|number)", re.IGNORECASE)
ROW_ID = re.compile(
    r"uid|uuid|qid|pid|id|idx|index|(?:sample|episode)[_-]?id|"
    r"(?:record|row|game|case|source|orig|original|data|dataset)[_-]?(?:id|idx|index)",
    re.IGNORECASE,
)
"""Columns that may number the problems, or rows (ROW_ID). `diver.look.read.grouping` says when they number problems."""
OF_PROBLEMS = {"_ng_task_index": ("_ng_rollout_index",), "example_id": ("task", "completion")}
"""Columns that number problems and nothing else, where others say whose file it is: NeMo-Gym's, verifiers'."""
INSIDE = ("extra_info", "extra", "metadata", "meta_data", "meta", "info", "state", "doc", "task", "example")
"""Columns that may have such a column inside."""
IMAGES = ("image", "images", "image_path", "image_paths", "multi_modal_data.image", "multi_modal_data.images")
"""Columns of what a prompt shows."""
CONTEXTS = (
    "input", "context", "passage", "system", "system_prompt", "instruction", "background", "premise", "article",
    "document",
)  # fmt: skip
"""Columns of what else a problem asks about, beside a prompt that may be a template."""
ROW_NUMBER = re.compile(r"|Unnamed: \d+|index|level_\d+|__index_level_\d+__")
"""Columns in which pandas writes the number of the row: no measure of a response."""

SESSION = re.compile(r"(.+)_\d+_\d+")
"""verl's `uid`: the group, then the numbers of the rollout and of its output."""

Row = Mapping[str, Any]
Names = Mapping[str, Sequence[str]]
"""Where each part of a rollout may stand, the first that exists: dotted paths of columns."""

NAMES: Names = {
    "problem": PROBLEMS,
    "response": RESPONSES,
    "outcome": OUTCOMES,
    "answer": ANSWERS,
    "step": ("step", "global_step"),
    "entropy": ("entropy",),
    "logprobs": ("logprobs", "log_probs"),
    "length": ("num_tokens", "response_length"),
    "truncated": ("truncated", "is_truncated"),
    "advantage": ("advantage",),
    "id": (),
    "group": (),
    "source": (),
    "by": (),
    "grader": (),
    "accepted": (),
}
NO_OUTCOMES = frozenset({"epoch", "seed", "length"}).union(
    *(names for part, names in NAMES.items() if part != "outcome")
)
"""Columns of numbers that are no outcome, even where no other column is of numbers."""


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

    @property
    def columns(self) -> "Columns":
        """These names alone, of settings that have others, too."""
        return Columns(**{field.name: getattr(self, field.name) for field in fields(Columns)})


class File(NamedTuple):
    """The rows of a file, each with its place, and how to read them.

    `notes` are what a user should know, `outcomes` the columns that were taken for the outcome where nobody says which
    it is.
    """

    path: Path
    rows: Iterator[tuple[str, Row]]
    notes: list[str]
    outcomes: dict[str, None]
    names: Names = NAMES
    step: int | None = None
    """The step of rows that do not say it."""
    problem_is_named: bool = False
    """Whether the user says which column names the problem: rows with the same value in it are then one group."""


class Part(NamedTuple):
    """Responses to one problem. Parts with the same key in the same step are one group."""

    key: str
    group: Group
    ids: Mapping[str, int] | None = None
    """What may tell apart problems with equal prompts: the hash of each id, by its column.

    None where the key alone names the problem.
    """
    certain: str = ""
    """The column of `ids` that is of problems, even if each response has another value of it."""
    prompt: str = ""
    """The digest of a prompt that has more than its text, such as images."""


class Layout(NamedTuple):
    required: frozenset[str]
    """The columns by which it is recognised; every row has them."""
    names: Names = MappingProxyType({})
    """What it calls the parts of a rollout, where that is not among `NAMES`."""
    plain: Callable[[str, Row], Iterator[Row]] | None = None
    """From its row to plain ones."""
    read: Callable[[File], Iterator[Part]] | None = None
    """Its reader, where names are not enough."""
    numbered: bool = False
    """The number in the name of a file is the step."""
    numbered_by_word: bool = False
    """It is where the name says step, iteration or rollout: another number may be that of a part of a step."""
    repeats: bool = False
    """A file may repeat the completions of an earlier file."""
