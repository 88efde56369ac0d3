"""The data types: a `Problem` has a `Group` of `Rollout`s, each with a `Grade` and a `Reward`.

All are immutable. A stage (sample, verify, shape) takes groups and returns new ones with more attributes set.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

import numpy as np

from diver.core.turns import Action, Turn, marked_actions


class DiverError(Exception):
    """Invalid input: a one-line error that names the file, key or row and what is valid.

    An error with several arguments stands for several errors, one for each argument.
    """

    def __str__(self) -> str:
        return "; ".join(map(str, self.args))


class Diverged(DiverError):
    """The policy has diverged: its gradient or its probabilities are not finite."""


TRUTH = {"true": 1.0, "false": 0.0}
State = dict[str, Any]
"""The state of a method between steps: JSON values, and arrays of int32 [n] as leaves.
The trainer holds it and saves it with every checkpoint."""


class Grade(StrEnum):
    """The result of grading a response. Unscored (timeout, error) is not wrong."""

    CORRECT = "correct"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"
    TRUNCATED = "truncated"
    TIMEOUT = "timeout"
    ERROR = "error"


UNANSWERED = (Grade.NO_ANSWER, Grade.TRUNCATED)
SCORED = frozenset({Grade.CORRECT, Grade.WRONG, *UNANSWERED})
"""Grades that measure the model. Timeout and error do not, so such a sample is left out of n."""


class Reward(NamedTuple):
    """The named parts of a reward. Only `total` adds them up.

    `other` is the sum of further reward functions of the trainer, such as one for the format. It says nothing about
    correctness.
    """

    outcome: float
    diversity: float = 0.0
    length: float = 0.0
    other: float = 0.0

    @property
    def total(self) -> float:
        return self.outcome + self.diversity + self.length + self.other

    def row(self) -> dict[str, float]:
        """The parts by name, `other` if it is not 0, and their total."""
        parts = {name: value for name, value in self._asdict().items() if value or name != "other"}
        return {**parts, "total": self.total}


class Progress(NamedTuple):
    """The progress of a run, for schedules.

    Attributes:
        step: rollout steps done.
        steps: rollout steps over which schedules run; 0 if unknown. The fraction is then 0, so lambda keeps its
            initial value.
    """

    step: int
    steps: int

    @property
    def fraction(self) -> float:
        return min(1.0, self.step / self.steps) if self.steps > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Problem:
    """A question with a reference answer.

    Attributes:
        id: identifies the problem in its data set.
        prompt: the bare question, which a template renders, or a list of chat messages, which are used unchanged.
        answer: the reference answer.
        source: the data set.
        verifier: the name of the grader (`diver.grading`).
        meta: further columns of the data set.
    """

    id: str
    prompt: str | tuple[Mapping[str, str], ...]
    answer: str
    source: str = ""
    verifier: str = "math"
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def question(self) -> str:
        """The prompt, or the last message of the user in a chat."""
        if isinstance(self.prompt, str):
            return self.prompt
        return next((str(m.get("content") or "") for m in reversed(self.prompt) if m.get("role") == "user"), "")


@dataclass(frozen=True, slots=True)
class Rollout:
    """One response of the policy: a text, or a trajectory of several turns with an environment (`of_turns`).

    Only `turns` has the text of the environment. It does not count in length, entropy or diversity.

    Attributes:
        response: the text that the policy wrote; the texts of its turns are joined by newlines.
        tokens ([T]): the policy's token ids, with the end token if it was sampled.
        logprobs ([T]): float32, the sampler's, at its temperature.
        entropy: the sampler's, at its temperature, mean over the T tokens, nats.
        truncated: whether the response reached the length limit.
        index: the index among the sampled responses of the problem. A selection does not change it.
        num_tokens: T if the tokens are not stored.
        grade: the result of the verifier.
        key: equal for responses with the same answer or solution.
        solution: equal for correct responses with the same solution; None if the verifier cannot tell.
        age: steps since a replayed rollout was sampled.
        answer_end: characters of `response` up to the end of the graded answer; None if that is unknown.
        reward: the parts of the reward.
        diversity: each metric by name.
        advantage: A; where a method has one per token, their mean.
        token_advantages ([T]): float32, where a method has an advantage per token.
        turns: the turns of the policy and of the environment in order; empty for a response that is one turn.
        trained: whether an update trains on it; None before that is decided, and if a file does not record it.
        place: the file, the row number and the row id of a stored response.
    """

    response: str
    tokens: Sequence[int] | None = None
    logprobs: np.ndarray | None = None
    entropy: float = math.nan
    truncated: bool = False
    index: int = 0
    num_tokens: int | None = None
    grade: Grade | None = None
    key: str | None = None
    solution: str | None = None
    age: int = 0
    answer_end: int | None = None
    reward: Reward | None = None
    diversity: Mapping[str, float] = field(default_factory=dict)
    advantage: float = math.nan
    token_advantages: np.ndarray | None = None
    turns: tuple[Turn, ...] = ()
    trained: bool | None = None
    place: tuple[str, int, str | int | None] | None = None

    @classmethod
    def of_turns(cls, turns: Iterable[Turn], **known: Any) -> Self:
        """The trajectory of these turns; `known` are further attributes.

        Its tokens are those of the policy's turns, if all of these turns have tokens.
        """
        turns = tuple(turns)
        policy_turns = [turn for turn in turns if turn.by_policy]
        if policy_turns and all(turn.tokens is not None for turn in policy_turns):
            known = {"tokens": [token for turn in policy_turns for token in turn.tokens or ()], **known}
        return cls("\n".join(turn.text for turn in policy_turns), turns=turns, **known)

    @property
    def policy_turns(self) -> int:
        """How many of the turns are the policy's; 0 for a response that is one turn."""
        return sum(turn.by_policy for turn in self.turns)

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions of the policy in all its turns. In a response of one turn, they are read from its tags."""
        if not self.turns:
            return marked_actions(self.response)
        return tuple(action for turn in self.turns if turn.by_policy for action in turn.actions)

    @property
    def sequence(self) -> tuple[np.ndarray, np.ndarray]:
        """All token ids after the prompt, int64 [S], and which of them the policy wrote, bool [S].

        Raises:
            ValueError: a turn has no token ids.
        """
        segments = [(turn.tokens, turn.by_policy) for turn in self.turns] or [(self.tokens, True)]
        ids = [np.array(tokens, np.int64) for tokens, _ in segments if tokens is not None]
        if len(ids) < len(segments):
            raise ValueError("a turn of this rollout has no token ids: give `tokens` with `masks`")
        return np.concatenate(ids), np.repeat([by_policy for _, by_policy in segments], [len(row) for row in ids])

    @property
    def length(self) -> int:
        """T, in policy tokens. ValueError if it is not known."""
        if self.known_length is None:
            raise ValueError("this rollout has no policy tokens, so its length T is unknown: give `tokens`")
        return self.known_length

    @property
    def known_length(self) -> int | None:
        return self.num_tokens if self.tokens is None else len(self.tokens)

    @property
    def until_answer(self) -> str:
        """The response up to the end of its answer; the whole response where that end is unknown."""
        return self.response[: self.answer_end]

    def replace(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Group:
    """The G rollouts of one problem: the unit of diversity, shaping, selection and advantage.

    Attributes:
        problem: the question.
        rollouts ([G]): the responses.
        prompt: the rendered text that the policy saw, if it is known.
        prompt_tokens: its token ids, if they are known.
    """

    problem: Problem
    rollouts: tuple[Rollout, ...]
    prompt: str = ""
    prompt_tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.rollouts:
            raise ValueError(f"problem {self.problem.id!r}: a group needs at least one rollout")

    def __len__(self) -> int:
        return len(self.rollouts)

    @property
    def responses(self) -> list[str]:
        return [r.response for r in self.rollouts]

    @property
    def characters(self) -> int:
        """The number of characters of all responses and turns, which is about what the group takes in memory."""
        return sum(len(r.response) + sum(len(turn.text) for turn in r.turns) for r in self.rollouts)

    @property
    def truncated(self) -> np.ndarray:
        """Which responses were cut at the length limit, bool [G]."""
        return np.array([r.truncated for r in self.rollouts])

    @property
    def outcomes(self) -> np.ndarray:
        """r, float64 [G]: NaN if a rollout has no reward yet."""
        return np.array([math.nan if r.reward is None else r.reward.outcome for r in self.rollouts])

    @property
    def rewards(self) -> np.ndarray:
        """r', float64 [G]: the sum of the parts."""
        return np.array([math.nan if r.reward is None else r.reward.total for r in self.rollouts])

    @property
    def advantages(self) -> np.ndarray:
        """A, float64 [G]."""
        return np.array([r.advantage for r in self.rollouts])

    def only(self, selected: Iterable[bool]) -> Self | None:
        """The group of the rollouts for which `selected` is True, in their order; None if there are none."""
        rollouts = tuple(r for r, k in zip(self.rollouts, selected, strict=True) if k)
        return dataclasses.replace(self, rollouts=rollouts) if rollouts else None

    def joined(self, more: Self) -> Self:
        """This group with further responses to the same problem."""
        rollouts = [r.replace(index=len(self) + i) for i, r in enumerate(more.rollouts)]
        return dataclasses.replace(self, rollouts=(*self.rollouts, *rollouts))

    def with_each(self, **columns: Sequence[Any]) -> Self:
        """This group with `name=values`: rollout i gets values[i]."""
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        return dataclasses.replace(
            self, rollouts=tuple(r.replace(**row) for r, row in zip(self.rollouts, rows, strict=True))
        )


def trained_on(groups: Iterable[Group]) -> list[Group]:
    """The groups that an update trains on, each with only its rollouts that are `trained`."""
    return [subgroup for group in groups if (subgroup := group.only(r.trained is True for r in group.rollouts))]


def without_surplus(groups: Sequence[Group], size: int) -> tuple[list[Group], bool]:
    """The groups, of which an update trains on at most the first `size`, and whether it trains on `size` groups.

    The last of several batches may have more groups than a step needs.
    """
    selected = [i for i, group in enumerate(groups) if any(r.trained for r in group.rollouts)]
    return left_out(groups, selected[size:]), len(selected) >= size


def left_out(groups: Sequence[Group], indices: Iterable[int]) -> list[Group]:
    """The groups, where an update does not train on those at `indices`."""
    result = list(groups)
    for i in indices:
        size = len(result[i])
        result[i] = result[i].with_each(trained=[False] * size, advantage=[math.nan] * size)
    return result


def sampling_metrics(groups: Iterable[Group]) -> dict[str, float]:
    """The metrics of all sampled rollouts: their length and the fraction with each grade, where all have one."""
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    grades = [rollout.grade for rollout in rollouts]
    lengths = [rollout.known_length for rollout in rollouts]
    turns = [rollout.policy_turns for rollout in rollouts if rollout.turns]
    return {
        **({} if None in grades else {f"grade/{grade}": grades.count(grade) / len(grades) for grade in Grade}),
        **({} if None in lengths else {"response/length_mean": sum(map(int, filter(None, lengths))) / len(rollouts)}),
        "response/truncated": sum(rollout.truncated for rollout in rollouts) / len(rollouts),
        **({"response/turns_mean": sum(turns) / len(turns)} if turns else {}),
    }
