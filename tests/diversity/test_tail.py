"""The example of docs/diver.md, "Text after the answer", whose numbers are worked out there by hand."""

import math

import numpy as np
import pytest

from diver import textual_diversity
from diver.methods.grpo import group_advantage

ANSWER = "the two trains meet at noon after three full hours"  # ten words, each once


def test_equal_answers_are_told_apart_by_the_text_after_them():
    """Four stop after the answer; four go on with ten words each that occur nowhere else."""
    padded = [" ".join([ANSWER, *(f"{n}-{i}" for i in range(10))]) for n in range(4)]
    d = textual_diversity([ANSWER] * 4 + padded)
    short = (
        4 * (1 - math.exp(1 - 20 / 10)) / 7
    )  # BLEU 1 against three others; every n-gram, but half as long, against four
    long = 1 - (10 / 20 * 9 / 19 * 8 / 18 * 7 / 17) ** (1 / 4)  # the n-grams of the answer, against all seven
    np.testing.assert_allclose(d, [short] * 4 + [long] * 4)
    assert (short, long) == pytest.approx((0.361, 0.544), abs=5e-4)
    for coef in (0.1, 1e-4):  # the advantage is the same however far lambda has fallen
        np.testing.assert_allclose(group_advantage(1 + coef * d), [-1] * 4 + [1] * 4)
