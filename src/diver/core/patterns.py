"""Regular expressions that are compiled when they are first used."""

import re
from typing import Any, cast


class Later:
    """Stands for a pattern; its methods are those of the compiled one."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = pattern, flags

    def compiled(self) -> re.Pattern[str]:
        pattern, flags = self.__dict__["_given"]
        return re.compile(pattern, flags)

    def __getattr__(self, name: str) -> Any:
        # `re` caches few patterns, so bound methods are cached here.
        compiled = self.compiled()
        for method in ("search", "match", "fullmatch", "finditer", "findall", "sub", "split"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def compile_later(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, at the first use: a pattern of 30,000 characters takes a second, in each process."""
    return cast(re.Pattern[str], Later(pattern, flags))
