"""docs/trajectories.md: its snippets run in order, with the numbers that follow by hand."""

import re
from pathlib import Path

import numpy as np

from diver.diversity import METRICS
from diver.diversity.metrics import OF_TURNS

PAGE = (Path(__file__).parents[1] / "docs" / "trajectories.md").read_text(encoding="utf-8")


def test_the_snippets_run():
    """Three of four are correct: 1/4 / (sqrt(3) / 4). GiGPO at discount 0.95: the returns of the first turns are 0.95,
    0.95, 0.9025 and 0, and that of the second turn after Rome are 0.95 and 0, in a state of their own."""
    given = {}
    for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        exec(code, given)
        if "grpo" not in given:
            given["grpo"] = given["advantages"]
    np.testing.assert_allclose(given["grpo"], np.array([1, 1, 1, -3]) / np.sqrt(3))
    shaped = given["advantages"]
    assert shaped[0] == shaped[1] < shaped[2] and shaped[3] < 0
    first = np.array([0.95, 0.95, 0.9025, 0]) - 0.700625
    after_rome = np.array([0.95, 0]) - 0.475
    after_oslo = np.zeros(3)  # 1, 1 and 1: the last turns of the first three
    expected = [
        [0.25 + first[0]] * 2 + [0, 0] + [0.25 + after_oslo[0]],
        [0.25 + first[1]] * 2 + [0, 0] + [0.25 + after_oslo[1]],
        [0.25 + first[2], 0, 0.25 + after_rome[0], 0, 0.25 + after_oslo[2]],
        [-0.75 + first[3]] * 2 + [0, -0.75 + after_rome[1]],
    ]
    for found, row in zip(given["per_token"], expected, strict=True):
        np.testing.assert_allclose(found, row, rtol=1e-6)


def test_the_metrics_of_the_page_are_those_of_the_package():
    assert {*re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)} == OF_TURNS <= METRICS.keys()
