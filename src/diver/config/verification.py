"""How answers are graded, and what the grader may see."""

from __future__ import annotations

from diver.settings import settings


@settings
class Bounds:
    """What SymPy may see of one answer."""

    length: int = 4096
    """Characters."""
    nesting: int = 64
    """Depth of braces, brackets and parentheses."""
    digits: int = 256
    """Digits of any one number."""
    exponent: int = 100_000
    """The largest numeric exponent, after evaluating a tower such as 2^{2^{10}}."""


@settings
class Verification:
    """How answers are graded."""

    timeout_s: float = 5.0
    """Seconds for grading one answer, from when a worker begins with it; then the worker is killed."""
    workers: int = 0
    """Worker processes at most; 0 for as many as there are cores, at most 8."""
    memory_mb: int = 900
    """Address space of a worker, in MiB."""
    bounds: Bounds = Bounds()
    """What SymPy may see."""

    def __post_init__(self) -> None:
        if not self.timeout_s > 0 or self.workers < 0 or self.memory_mb < 256:
            raise ValueError("timeout_s must be above 0, workers at least 0, memory_mb at least 256")
