"""Regular expressions that are compiled when they are first used."""

import re
from functools import cached_property
from typing import Any, cast


class Later:
    """A stand-in for a pattern. Its attributes are those of the compiled pattern."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = pattern, flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        return re.compile(*self._given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)


def compile_later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile` at the first use: compiling 30,000 characters takes a second in each process."""
    return cast(re.Pattern[str], Later(pattern, flags))
