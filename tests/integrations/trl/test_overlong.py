"""DAPO's penalty for long responses beside TRL's own function of the same formula (`make test-trl`)."""

import numpy as np
import pytest

from diver.methods import method_named
from diver.methods.base import Overlong

rewards = pytest.importorskip("trl.rewards", reason="in the environment of `make test-trl` only")


@pytest.mark.parametrize(("limit", "cache"), [(100, 20), (20480, 4096), (7, 7), (1000, 1)])
def test_the_overlong_penalty_is_trls(limit, cache):
    edges = [1, limit - cache, limit - cache + 1, limit - cache // 2, limit - 1, limit, limit + 1, 2 * limit]
    lengths = np.array([length for length in edges if length > 0])
    theirs = rewards.get_soft_overlong_punishment(limit, cache)(completion_ids=[[1] * n for n in lengths])
    ours = Overlong(buffer=cache / limit, penalty=1.0, max_tokens=limit).reward(lengths)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_dapo_has_the_papers_part_of_the_length_limit():
    overlong = method_named("dapo").limited(20480).overlong
    lengths = np.arange(16000, 21000, 100)
    theirs = rewards.get_soft_overlong_punishment(20480, 4096)(completion_ids=[[1] * n for n in lengths])
    np.testing.assert_allclose(2 * overlong.reward(lengths), theirs, atol=1e-9)  # 0 and 1 are half of -1 and 1
