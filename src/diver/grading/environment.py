"""An environment (`diver.core.environment`) as the grader of the trajectories that it answered."""

import hashlib
import inspect
from dataclasses import replace
from functools import partial
from pathlib import Path

from diver.core.environment import Environment, in_time
from diver.core.seeds import action_key
from diver.core.settings import call_own
from diver.core.types import DiverError, Problem, Rollout
from diver.grading.base import Grader


class EnvironmentGrader(Grader):
    """The environment judges while it answers, so a text alone cannot be graded.

    Its rewards are the outcome, its actions the key. The version is a digest of the file that defines its class.
    """

    votes = False
    exact_solutions = True

    def __init__(self, name: str, kind: type[Environment]) -> None:
        self.name, self.kind = name, kind
        content = Path(inspect.getfile(kind)).read_bytes()
        self.rules = hashlib.blake2b(content, digest_size=4).hexdigest()
        self._said: dict[str, str] = {}

    def posed(self, problem: Problem) -> Problem:
        """The problem with the first text of the environment as its prompt."""
        return replace(problem, prompt=self.start(problem)[1])

    def start(self, problem: Problem) -> tuple[Environment, str]:
        """A new environment for a trajectory, and its first text.

        Raises:
            DiverError: it fails, is late, or returns no text or another text than before.
        """
        what = f"environment {self.name}, problem {problem.id!r}"
        environment = call_own(what, self.kind)
        observation = call_own(what, in_time, partial(environment.reset, problem), environment.timeout_s)
        if not isinstance(observation, str):
            raise DiverError(f"{what}: reset must return a text, not {type(observation).__name__}")
        if self._said.setdefault(repr(problem), observation) != observation:
            raise DiverError(f"{what}: reset must return the same text at each call; draw from the problem alone")
        return environment, observation

    def grade(self, response: str, problem: Problem) -> None:  # type: ignore[override]
        """Refuse a response whose turns the environment did not answer."""
        raise DiverError(
            f"environment {self.name} answers in turns: only diver train and diver eval with transformers do"
        )

    def key(self, rollout: Rollout, problem: Problem) -> str:
        return action_key(rollout)
