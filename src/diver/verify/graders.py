"""Graders by name, for evaluation: whatever a problem says of its verifier, one grader judges all of a benchmark.

Several graders may judge the same responses; each grade is stored with `str(grader)`, name and version, so that one
made by other rules is never taken for it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING

from diver.types import DiverError, Grade, Problem

if TYPE_CHECKING:
    from diver.verify.bounds import Claim

Judge = Callable[[str, Problem], "Grade | Claim"]


@dataclass(frozen=True)
class Grader:
    """`function` is "module:name" of a (response, problem) -> Grade, or Claim for a worker to decide.

    `rules` counts the versions of our own rules: raise it with every change that can change a grade. `packages` are
    those whose version can.
    """

    name: str
    function: str
    rules: int
    packages: tuple[str, ...] = ()

    @cached_property
    def version(self) -> str:
        """Such as "2+math-verify-0.9.0+sympy-1.14.0"."""
        return "+".join([str(self.rules), *(f"{package}-{version(package)}" for package in self.packages)])

    @cached_property
    def judge(self) -> Judge:
        module, _, function = self.function.partition(":")
        return getattr(importlib.import_module(module), function)

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


_ALGEBRA = ("math-verify", "latex2sympy2-extended", "sympy")

GRADERS = {
    grader.name: grader
    for grader in (
        Grader("math-verify", "diver.verify.mathematics:judge", 4, _ALGEBRA),
        Grader("gsm8k", "diver.verify.mathematics:judge_gsm8k", 3, _ALGEBRA),
        Grader("rule", "diver.verify.rule:judge", 1),
        Grader("choice", "diver.verify.choice:judge", 1),
        Grader("countdown", "diver.verify.countdown:judge", 1),
    )
}

VERIFIERS = {"math": "math-verify", "gsm8k": "gsm8k", "choice": "choice", "countdown": "countdown"}
"""`Problem.verifier` -> the grader that judges in training."""


def grader_of(name: str) -> Grader:
    if name not in GRADERS:
        raise DiverError(f"unknown grader {name!r}; choose one of {', '.join(GRADERS)}")
    return GRADERS[name]
