"""How a coefficient falls over a run."""

import math
from typing import Literal

from diver.core.settings import at_least, settings
from diver.core.types import Progress


@settings
class Schedule:
    """How lambda falls over a run, by ROLLOUT step: the number of batches of groups already done.

    The factor is 1 up to `start` and `final` from `end` on. A run's length is fixed when it first starts: with unit
    "run" a run that is extended later keeps the value of its end.
    """

    kind: Literal["constant", "linear", "cosine", "step"] = "cosine"
    """constant: always 1; linear or cosine: from 1 down to `final`; step: 1 until `end`, `final` from there on."""
    start: float = 0.0
    """Where lambda begins to fall."""
    end: float = 1.0
    """Where the factor reaches `final`; unit = "steps" needs one of its own."""
    unit: Literal["run", "steps"] = "run"
    """What `start` and `end` count: fractions of the run's rollout steps, or rollout steps."""
    final: float = 0.0
    """The factor of lambda from `end` on."""

    def __post_init__(self) -> None:
        if self.unit == "steps" and self.end <= 1 and self.kind != "constant":  # the default: off after one batch
            raise ValueError(
                f'unit = "steps" needs an end above 1, the rollout step from which the factor is final, not {self.end}'
            )
        if not 0 <= self.start <= self.end:
            raise ValueError(
                f"start and end must satisfy 0 <= start <= end, not start = {self.start}, end = {self.end}"
            )
        if self.unit == "run" and self.end > 1:
            raise ValueError(f'end must be at most 1 with unit = "run" (a fraction of the run), not {self.end}')
        at_least(0, final=self.final)

    def factor(self, progress: Progress | float) -> float:
        """What lambda is multiplied by at `progress`: a `Progress`, or the fraction t/T of the run that is done."""
        if self.kind == "constant":
            return 1.0
        if isinstance(progress, Progress):
            position = progress.fraction if self.unit == "run" else progress.step
        elif self.unit == "steps":
            raise ValueError('a schedule with unit = "steps" needs Progress(step, steps), not a fraction of the run')
        elif not 0 <= progress <= 1:
            raise ValueError(f"progress is the fraction t/T of the run, from 0 to 1, not {progress}")
        else:
            position = progress
        if position >= self.end:
            return self.final
        if position <= self.start or self.kind == "step":
            return 1.0
        elapsed = (position - self.start) / (self.end - self.start)
        left = 1 - elapsed if self.kind == "linear" else (1 + math.cos(math.pi * elapsed)) / 2
        return self.final + (1 - self.final) * left
