"""The base class of graders. One file defines one grader, or a few that share their rules."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from importlib.metadata import version
from typing import Any, NamedTuple

from diver.core.formulas import formulas
from diver.core.types import UNANSWERED, DiverError, Grade, Problem, Rollout
from diver.grading.bounds import PendingComparison
from diver.grading.extraction import after_thought, stated
from diver.grading.workers import Function

LONGEST_KEY = 64
"""Longest key in characters; a longer one is replaced by a digest."""


class PendingCall(NamedTuple):
    """A response to be graded by `function` in a worker process; `problem` is JSON."""

    function: Function
    response: str
    problem: str
    warm: Function
    """A module or function that the worker loads before its first job; see `workers.Pool`."""


def defer(function: Function, response: str, problem: Problem, warm: Function) -> PendingCall:
    return PendingCall(function, response, json.dumps(dataclasses.asdict(problem), default=_plain), warm)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)


class Verdict(NamedTuple):
    """The judgement of a verifier on a response."""

    grade: Grade
    answer_end: int | None = None
    """Characters up to the end of the first place that states the graded answer; None if that is unknown."""


class Grader:
    """Judges the responses to a problem.

    The methods read one response to one problem. They run in this process, in time proportional to the length of the
    response. `grade` passes work that may take longer or run code to a worker.
    """

    name: str
    rules: int | str
    """Version of the grader's rules. Raise it with every change that can change a grade."""
    packages: tuple[str, ...] = ()
    """Packages whose version can change a grade."""
    template = "chat"
    """Prompt template for a chat model if none is named: `boxed` asks for a box, `chat` for nothing."""
    meta: tuple[str, ...] = ()
    """The keys of `Problem.meta` that the grader reads."""
    testbed = ""
    """The testbed whose generated problems the grader needs."""
    votes = True
    """Whether maj@k counts votes by `final_answer`."""
    exact_solutions = False
    """Whether `solution` differs for any two solutions. Otherwise one solution may be written in two ways."""
    note = ""
    """A line for the console about which responses the grader judges."""

    @cached_property
    def version(self) -> str:
        """Name, rules and packages, by which a stored grade is recognised: "math@20+math-verify-0.9.0"."""
        return "+".join([f"{self.name}@{self.rules}", *(f"{package}-{version(package)}" for package in self.packages)])

    def posed(self, problem: Problem) -> Problem:
        """The problem with the prompt that the policy sees."""
        return problem

    def check(self, problem: Problem, where: str = "") -> None:
        """Refuse a problem that the grader cannot judge.

        Raises:
            DiverError: The problem lacks a key of `meta`, or no response to it could be correct. `where` begins the
                message.
        """
        if missing := [key for key in self.meta if key not in problem.meta]:
            keys = ", ".join(missing)
            raise DiverError(f"{where}problem {problem.id!r}: verifier {self.name} needs {keys} in its meta")
        try:
            self.check_answer(problem)
        except ValueError as error:
            raise DiverError(f"{where}problem {problem.id!r}: {error}, which verifier {self.name} needs") from None

    def check_answer(self, problem: Problem) -> None:
        """Raise ValueError if no response could be graded or be correct."""

    def holds_answer(self, response: str) -> bool:
        """Whether a response has a complete explicit answer, so that it is graded even if it was cut at its limit."""
        statement = stated(after_thought(response))
        return statement is not None and statement.finished

    def grade(self, response: str, problem: Problem) -> Grade | PendingComparison | PendingCall:
        """The grade, or what a worker process must decide."""
        raise NotImplementedError

    def final_answer(self, response: str, problem: Problem) -> str | None:
        """The answer for which the response votes in maj@k; None without one."""
        return None

    def reached(self, response: str, problem: Problem) -> str:
        """A key that is equal for wrong responses with the same answer; "" without an answer."""
        return self.final_answer(response, problem) or ""

    def solution(self, response: str, problem: Problem) -> str:
        """A key that is equal for correct responses with the same solution: here, with the same formulas."""
        return same_formulas(response, formulas(response))

    def key(self, rollout: Rollout, problem: Problem) -> str:
        """A key that is equal for responses that count as the same: `Rollout.key`.

        The key of a correct response is its solution if the verifier has `exact_solutions`, else the reference answer.
        The key of another response is its answer. It is "" without an answer, also if the response was cut or ends
        inside its thought.
        """
        if rollout.grade in UNANSWERED:
            return ""
        if rollout.grade is not Grade.CORRECT:
            text = self.reached(rollout.response, problem)
        else:
            text = self.solution(rollout.response, problem) if self.exact_solutions else problem.answer
        return text if len(text) <= LONGEST_KEY else hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def answer_end(self, response: str, problem: Problem, correct: bool) -> int | None:
        """Characters up to the end of the graded answer, `correct` or not; None if unknown. See `answer_end`."""
        return None


def same_formulas(response: str, written: Iterable[str]) -> str:
    """The formulas of a response, as a key of its solution; without formulas, its words."""
    return "\n".join(sorted({"".join(formula.split()) for formula in written})) or " ".join(response.split())
