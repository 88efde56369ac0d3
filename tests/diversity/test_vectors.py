import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist

from diver.diversity.vectors import cosine_diversity, encode_once

finite = st.floats(-10, 10).map(lambda x: x if abs(x) > 1e-3 else 0.0)
vectors = st.integers(1, 5).flatmap(lambda g: arrays(np.float64, (g, 3), elements=finite))


def test_by_hand():
    # right angles: 1 - cos is 1 for the pairs of the second, 2 for the first and the third
    assert cosine_diversity([[1, 0], [0, 2], [-3, 0]]).tolist() == [1.5, 1, 1.5]


def test_degenerate_groups():
    assert cosine_diversity([[1, 2]]).tolist() == [0]
    assert cosine_diversity([[0, 0], [0, 0], [1, 0]]).tolist() == [0.5, 0.5, 1]  # a response without a token


@given(vectors)
def test_scipy_agrees(v):
    some = v[np.linalg.norm(v, axis=1) > 0]
    if len(some) > 1:
        expected = cdist(some, some, "cosine").sum(axis=1) / (len(some) - 1)
        np.testing.assert_allclose(cosine_diversity(some), expected, atol=1e-12)


@pytest.mark.parametrize("bad", [[], [1, 2], [[1, np.nan], [1, 2]]])
def test_what_is_no_vectors(bad):
    with pytest.raises(ValueError, match=r"at least one response|not finite"):
        cosine_diversity(bad)


def test_equal_texts_are_encoded_once():
    seen = []

    def encode(texts):
        seen.extend(texts)
        return np.array([[len(t)] for t in texts])

    assert encode_once(["aa", "b", "aa"], encode).tolist() == [[2], [1], [2]] and seen == ["aa", "b"]
    encode_once(["\ud83d!"], encode)
    assert seen[2:] == ["?!"]  # half an emoji, as JSON may hold it
