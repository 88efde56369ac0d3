"""MaxRL by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import diver
from diver.core.types import DiverError
from diver.methods.grpo import group_advantage


def max_rl(outcomes):
    n = len(outcomes)
    return diver.advantages([""] * n, outcomes, [0] * n, method="max-rl")


def test_by_hand():
    """One of four correct: p = 1/4, (1 - 1/4) / (1/4) = 3 and (0 - 1/4) / (1/4) = -1. Three of four: p = 3/4."""
    assert max_rl(np.array([1.0, 0, 0, 0])).tolist() == [3, -1, -1, -1]
    np.testing.assert_allclose(max_rl(np.array([1.0, 1, 0, 1])), [1 / 3, 1 / 3, -1, 1 / 3])


def test_groups_without_a_signal_have_exact_zeros():
    assert not max_rl(np.zeros(5)).any() and not max_rl(np.ones(3)).any()
    for rewards in ([-1.0, 0.0], [1.0, 1.0, 1.0, -1.0], [-1.0, -1.0]):
        with pytest.raises(DiverError, match="must be at least 0 .0 wrong, 1 correct., not -1$"):
            max_rl(np.array(rewards))


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=16))
def test_mean_zero_and_grpo_times_the_square_root_of_the_odds_of_failure(outcomes):
    """GRPO is (r - p) / sqrt(p (1 - p)), so MaxRL is GRPO times sqrt((1 - p) / p)."""
    r = np.array(outcomes)
    found, p = max_rl(r), r.mean()
    assert abs(found.sum()) < 1e-9
    if 0 < p < 1:
        np.testing.assert_allclose(found, group_advantage(r) * np.sqrt((1 - p) / p))
