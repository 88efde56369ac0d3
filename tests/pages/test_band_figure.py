"""The band over k on the page: where its lines stand, its words, and that a name stays text."""

import re

import numpy as np

from diver.core.bands import Band, simultaneous
from diver.core.statistics import UNKNOWN, Estimate
from diver.evaluate.comparison import BEFORE
from diver.pages.band_figure import band_figures, pass_figure


def test_places_by_hand():
    """x: 1, 2 and 4 at 38, 195 and 352, equal octaves. y: 10 points at 12, -10 at 158, and so 0 at 85."""
    low, high = np.array([0.0, -0.05, -0.1]), np.array([0.1, 0.05, 0.0])
    band = Band(np.array([1, 2, 4]), (low + high) / 2, low, high, 0.99, (low + 0.02, high - 0.02))
    drawn = band_figures({"b": band}, {"b": "b is higher for k = 1"})
    assert "M38.0 12.0L195.0 48.5L352.0 85.0L352.0 158.0L195.0 121.5L38.0 85.0Z" in drawn  # the band, there and back
    assert "M38.0 26.6L195.0 63.1L352.0 99.6L352.0 143.4L195.0 106.9L38.0 70.4Z" in drawn  # the interval, 2 points less
    assert 'class="thick" d="M38.0 48.5L195.0 85.0L352.0 121.5"' in drawn
    assert re.findall(r">([^<>]+)</text>", drawn) == ["−10", "−5", "0", "+5", "+10", "k = 1", "2", "4"]
    assert "b is higher for k = 1" in drawn


def test_accuracies_by_hand():
    """y: 100 % at 12 and 0 at 158. A k of which nothing is known has no point; an unknown end is the mean."""
    lines = {BEFORE: [UNKNOWN] * 3, "<b>": [Estimate(0.5, 0.25, 0.75), UNKNOWN, Estimate(1.0, np.nan, np.nan)]}
    drawn = pass_figure([1, 2, 4], lines)
    assert '<path class="band" d="M38.0 48.5L352.0 12.0L352.0 12.0L38.0 121.5Z"/>' in drawn
    assert 'class="thick" d="M38.0 85.0L352.0 12.0"' in drawn and 'class="line r0"' in drawn
    assert "before training" not in drawn and "<b>" not in drawn.replace("<b><span>", "") and "&lt;b&gt;" in drawn
    grey = pass_figure([1, 2], {BEFORE: [Estimate(0.5, 0.4, 0.6)] * 2, "a": [Estimate(0.5, 0.4, 0.6)] * 2})
    assert re.findall(r'class="line (\w+)"', grey) == ["base", "r0"]
    assert pass_figure([1], {"a": [UNKNOWN]}) == pass_figure([1, 2], {"a": [UNKNOWN] * 2}) == ""


def test_a_name_is_only_text_and_without_a_band_there_is_no_figure():
    band = simultaneous(np.eye(3), [1, 2, 3])
    drawn = band_figures({"<b>": band}, {"<b>": "<i>"})
    assert "<b>" not in drawn and "<i>" not in drawn and "&lt;b&gt;" in drawn
    assert band_figures({}, {}) == ""


def test_no_difference_at_any_k_is_drawn_too():
    drawn = band_figures({"a": simultaneous(np.zeros((2, 4)), [1, 2])}, {"a": "no significant difference"})
    assert "nan" not in drawn and 'class="zero"' in drawn
