"""What makes two correct solutions the same."""

from __future__ import annotations

from diver.data import countdown
from diver.diversity import formulas
from diver.types import Problem


def solution(problem: Problem, response: str) -> str:
    """What makes two correct solutions the same: Countdown's canonical form, otherwise the formulas written."""
    if problem.verifier == "countdown":
        return countdown.solution(response, list(problem.meta["numbers"]), int(problem.meta["target"])) or ""
    return "\n".join(sorted(formulas(response, ignore_space=True))) or " ".join(response.split())
