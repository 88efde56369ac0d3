"""Spearman's correlation against SciPy; its intervals against what theory says of them."""

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr

from diver_paper.correlations import rank_correlations


def test_rank_correlations_are_spearmans():
    rng = np.random.default_rng(3)
    x = rng.integers(0, 6, (40, 3)).astype(float)  # with ties
    x[:, 1] += x[:, 0]
    found = rank_correlations(x, resamples=200)
    np.testing.assert_allclose(found.rho, spearmanr(x).statistic, atol=1e-12)
    assert (found.low <= found.rho + 1e-9).all() and (found.rho <= found.high + 1e-9).all()
    assert found.low[0, 1] > 0 > found.low[0, 2]  # one is real


def test_rank_correlations_of_several_runs_are_the_mean_of_theirs():
    rng = np.random.default_rng(4)
    hard = rng.normal(size=(40, 1))
    runs = hard + rng.normal(size=(6, 40, 2))
    found = rank_correlations(runs)
    assert found.rho[0, 1] == pytest.approx(np.mean([spearmanr(run).statistic for run in runs]))
    alone = rank_correlations(runs[0])
    # what the runs have of their own is averaged; that they share the problems leaves the interval its width
    assert 0 < found.high[0, 1] - found.low[0, 1] < alone.high[0, 1] - alone.low[0, 1]
    one_flat = np.concatenate([runs, np.ones((1, 40, 2))])
    np.testing.assert_allclose(rank_correlations(one_flat, resamples=10).rho, found.rho)
    np.testing.assert_array_equal(rank_correlations(runs[:1], resamples=50), rank_correlations(runs[0], resamples=50))


def test_intervals_of_rank_correlations_cover_what_is_true():
    """Of 100 samples of independent columns, about 95 have 0 inside."""
    rng = np.random.default_rng(0)
    found = [rank_correlations(rng.normal(size=(60, 2)), resamples=300, seed=i) for i in range(100)]
    assert 88 <= sum(f.low[0, 1] <= 0 <= f.high[0, 1] for f in found) <= 100


def test_rank_correlations_of_what_does_not_vary():
    found = rank_correlations([[1, 5], [2, 5], [3, 5], [4, 5]])
    assert found.rho[0, 0] == 1 and np.isnan(found.rho[0, 1]) and np.isnan(found.high[1, 1])
    assert np.isnan(rank_correlations([[1, 2], [2, 1]]).rho).all()
    with pytest.raises(ValueError, match="finite"):
        rank_correlations([[1, np.nan]] * 4)


def test_a_control_column_leaves_what_the_others_share_besides():
    """The formula of the partial correlation, and by residuals of ranks."""
    rng = np.random.default_rng(1)
    length = rng.normal(size=300)
    x = np.column_stack([length + rng.normal(size=300), length + rng.normal(size=300), length])
    found = rank_correlations(x, control=2, resamples=100)
    ranks = rankdata(x, axis=0)
    line = np.column_stack([np.ones(300), ranks[:, 2]])
    rest = ranks[:, :2] - line @ np.linalg.lstsq(line, ranks[:, :2], rcond=None)[0]
    assert found.rho[0, 1] == pytest.approx(np.corrcoef(rest.T)[0, 1])
    assert rank_correlations(x).rho[0, 1] > 0.4 and abs(found.rho[0, 1]) < 0.15
    assert np.isnan(found.rho[2]).all() and found.low[0, 1] < found.rho[0, 1] < found.high[0, 1]
