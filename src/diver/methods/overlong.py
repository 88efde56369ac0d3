"""DAPO's soft overlong punishment (arXiv 2503.14476, eq. 13): the last part of the length limit costs reward."""

import numpy as np

from diver.core.settings import at_least, between, settings


@settings
class Overlong:
    """A penalty that rises linearly over the last part of the length limit L and is full at L."""

    buffer: float = 0.0
    """The part of L over which it rises; 0 is no penalty. The source has 4,096 of 20,480 tokens, 0.2."""
    penalty: float = 0.5
    """The penalty at L. The source has 1 with rewards of 1 and -1, which is half of their range, as this is of 1 and
    0."""
    max_tokens: int = 0
    """L, in policy tokens; 0 is the limit of the engine, sample.max_tokens."""

    def __post_init__(self) -> None:
        between(0, 1, buffer=self.buffer)
        at_least(0, penalty=self.penalty, max_tokens=self.max_tokens)

    def __bool__(self) -> bool:
        return self.buffer > 0 and self.penalty > 0

    def reward(self, lengths: np.ndarray) -> np.ndarray:
        """-penalty clip((T - (1 - buffer) L) / (buffer L), 0, 1) of lengths T in policy tokens: float64 [G]."""
        if not self.max_tokens:
            raise ValueError("overlong.max_tokens, the length limit, is 0: give it where no engine does")
        start = (1 - self.buffer) * self.max_tokens
        return -self.penalty * np.clip((np.asarray(lengths) - start) / (self.max_tokens - start), 0.0, 1.0)
