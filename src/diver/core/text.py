"""What others wrote, made fit to be shown: models and data sets write escape sequences, too."""

import re
from typing import Any

# Characters that must not reach a terminal or a page: controls except newline and tab, surrogates, marks that change
# the direction of the following text, and two noncharacters.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def counted(number: int, noun: str) -> str:
    """`1 step`, `2 steps`, `1,024 responses`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def clean(value: Any) -> str:
    """Anything as text that can be written and shown: what cannot becomes U+FFFD."""
    return _UNSAFE.sub("\ufffd", str(value).replace("\r\n", "\n"))
