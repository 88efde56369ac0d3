"""Settings of grading: time, memory, and the limits of what is passed to SymPy."""

from typing import Annotated

from diver.core.settings import Bound, NonNegativeInt, Positive, settings


@settings
class Bounds:
    """Limits on an answer that is passed to SymPy; beyond them, an answer that needs algebra is graded as wrong."""

    length: int = 4096
    """Maximum number of characters."""
    nesting: int = 64
    """Maximum depth of nested braces, brackets and parentheses."""
    digits: int = 256
    """Maximum number of digits of a single number."""
    exponent: int = 100_000
    """Maximum numeric exponent, after evaluation of a power tower such as 2^{2^{10}}."""


@settings
class Verification:
    """How answers are graded."""

    timeout_s: Positive = 5.0
    """Time limit for grading one answer in seconds. It begins when a worker starts on the answer. The worker is killed
    after it."""
    workers: NonNegativeInt = 0
    """Maximum number of worker processes; 0: one per core, and at most 8."""
    memory_mb: Annotated[int, Bound("at least 256", lambda x: x >= 256)] = 900
    """Limit of the address space of a worker, in MiB."""
    bounds: Bounds = Bounds()
    """Limits on an answer that is passed to SymPy."""
