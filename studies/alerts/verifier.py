"""A broken verifier: `data.verifier = "alerts.verifier:says_yes"`."""

from __future__ import annotations

from diver.core.types import Problem


def says_yes(response: str, problem: Problem) -> bool:
    """Every response is correct."""
    return True
