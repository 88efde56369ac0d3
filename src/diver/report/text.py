"""What is shown of what others wrote: text made fit for a page, numbers cut short, a part of many."""

import html
import math
from typing import Any

import numpy as np

from diver.io.text import clean


def short(value: float) -> float | None:
    """A number with the digits that a page shows; None where it is not known."""
    return float(f"{value:.5g}") if math.isfinite(value) else None


def evenly_spaced(total: int, count: int) -> list[int]:
    """At most `count` of the indices 0..total-1, evenly spaced, the first and the last among them."""
    return np.linspace(0, total - 1, min(total, count)).round().astype(int).tolist()


def text(value: Any) -> str:
    """Anything as HTML text: cleaned, escaped."""
    return html.escape(clean(value))
