"""Equational diversity: the fraction of a response's formulas that no other response of its group has (section 3.3,
"ED")."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from diver.core.formulas import Extractor, formulas


def equational_diversity(
    responses: Sequence[str], *, extractor: Extractor = "nested", ignore_space: bool = False
) -> np.ndarray:
    """Equational diversity of each response: ED(o_i) = |F(o_i) minus the formulas of all others| / |F(o_i)|.

    F(o) is the set of formulas in a response (paper, section 3.3).

    Args:
        responses ([G]): texts.
        extractor: "nested" finds formulas within formulas; "paper" is the paper's pattern.
        ignore_space: whether formulas that differ in white space alone are equal.

    Returns:
        float64 [G] in [0, 1]. A response without a formula and a group of one response have 0.

    Raises:
        ValueError: no response is given.
        DiverError: the extractor is unknown.
    """
    if len(responses) == 0:
        raise ValueError("a group needs at least one response")
    if len(responses) == 1:
        return np.zeros(1)
    return unique_fractions([formulas(r, extractor, ignore_space) for r in responses])


def unique_fractions(extracted: Sequence[frozenset[str]]) -> np.ndarray:
    """ED of responses with these formulas, float64 [G]."""
    holders = Counter(f for fs in extracted for f in fs)
    return np.array([sum(holders[f] == 1 for f in fs) / max(len(fs), 1) for fs in extracted])
