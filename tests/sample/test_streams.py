"""Philox against its published answers, and streams that are uniform and apart."""

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from diver.core.seeds import philox, stream_seed, uniform


def words(counter, key):
    return [int(w) for w in philox(*(np.array(x, np.uint64)[:, None] for x in (counter, key)))[:, 0]]


@pytest.mark.parametrize(
    "counter, key, expected",
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([2**32 - 1] * 4, [2**32 - 1] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_known_answers_of_the_authors(counter, key, expected):
    assert words(counter, key) == expected


def test_a_row_draws_the_same_whichever_others_are_there():
    seeds = np.array([stream_seed(0, i) for i in range(100)], np.uint64)
    whole = uniform(seeds, 7)
    assert (uniform(seeds[40:60], 7) == whole[40:60]).all() and uniform(seeds[5:6], 7) == whole[5]
    assert (uniform(seeds[::-1], 7) == whole[::-1]).all()


def test_no_two_of_problem_sample_and_token_have_the_same_number():
    """500,000 numbers of 53 bits: were they chance, one pair of them would agree in 70,000 such tests."""
    seeds = np.array([stream_seed(0, problem, sample) for problem in range(50) for sample in range(100)], np.uint64)
    numbers = np.stack([uniform(seeds, token) for token in range(100)])
    assert len(np.unique(seeds)) == 5000 and len(np.unique(numbers)) == 500_000


@pytest.mark.parametrize("seeds", [np.arange(2000), np.array([stream_seed(1, i) for i in range(2000)])])
def test_uniform_along_rows_and_tokens_and_independent_of_the_row_and_token_before(seeds):
    numbers = np.stack([uniform(seeds.astype(np.uint64), token) for token in range(100)])
    assert numbers.min() > 0 and numbers.max() <= 1 and (numbers * 2.0**53 % 1 == 0).all()
    assert kstest(numbers.ravel(), "uniform").pvalue > 1e-4
    cells = np.floor(np.minimum(numbers, 1 - 2.0**-53) * 16).astype(int)
    for one, next_ in ((cells[:-1], cells[1:]), (cells[:, :-1], cells[:, 1:])):
        assert chisquare(np.bincount((16 * one + next_).ravel(), minlength=256)).pvalue > 1e-4
