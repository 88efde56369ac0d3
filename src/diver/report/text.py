"""What is shown of what others wrote: text made fit for a page, numbers cut short, a part of many."""

import html
import math
import re
from typing import Any

import numpy as np

# What must not reach a terminal or a page as it is: controls but for newline and tab, halves of surrogate pairs,
# the signs that turn the writing direction of all that follows, and two code points that are no characters.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def clean(value: Any) -> str:
    """Anything as text that can be written and shown: what cannot becomes U+FFFD."""
    return _UNSAFE.sub("\ufffd", str(value).replace("\r\n", "\n"))


def short(value: float) -> float | None:
    """A number with the digits that a page shows; None where it is not known."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


def evenly_spaced(total: int, count: int) -> list[int]:
    """At most `count` of the indices 0..total-1, evenly spaced, the first and the last among them."""
    return np.linspace(0, total - 1, min(total, count)).round().astype(int).tolist()


def text(value: Any) -> str:
    """Anything as HTML text: cleaned, escaped."""
    return html.escape(clean(value))
