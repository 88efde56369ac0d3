"""The band over k: against Sidak's correction, against a published implementation, and by hand."""

import numpy as np
import pytest
from passk_inference.core import compare
from scipy import stats

from diver.core.bands import Band, Range, simultaneous
from diver.core.statistics import ends, pass_at_k, pass_curve
from diver.evaluate.comparison import over_k

HADAMARD = np.array([[1, 1], [1, -1]])
for _ in range(3):
    HADAMARD = np.kron(HADAMARD, [[1, 1], [1, -1]])  # 16 problems


def test_the_curve_is_pass_at_k_for_every_k():
    n, c = np.array([7, 7, 5, 64]), np.array([0, 3, 5, 1])
    curve = pass_curve(n, c, 8)
    assert curve.shape == (8, 4)
    for k in range(1, 9):
        np.testing.assert_allclose(curve[k - 1], pass_at_k(n, c, k), atol=1e-15)
    assert np.isnan(curve[7, 0]) and np.isnan(curve[5, 2]) and not np.isnan(curve[:, 3]).any()


@pytest.mark.parametrize("columns", [1, 4, 15])
def test_independent_columns_need_sidaks_level(columns):
    """Columns without correlation: all K hold together at .95 where each holds at .95 ** (1 / K)."""
    values = HADAMARD[1 : columns + 1]
    assert simultaneous(values, range(1, columns + 1)).pointwise == pytest.approx(0.95 ** (1 / columns), abs=0.004)


def test_equal_columns_need_no_correction():
    values = np.tile(HADAMARD[3], (20, 1))
    band = simultaneous(values, range(1, 21))
    assert band.pointwise == pytest.approx(0.95, abs=0.004)
    low, high = ends(values[:, None], None, band.pointwise)
    np.testing.assert_array_equal(band.low, low)
    np.testing.assert_array_equal(band.high, high)
    np.testing.assert_array_equal(band.single, ends(values[:, None], None, 0.95))


def test_seeds_vary_the_mean_too():
    """Without a difference between problems only the seeds vary, k by k independently: Sidak's level again."""
    values = np.repeat(HADAMARD[1:5][:, :, None], 3, axis=2)  # [4 k, 16 seeds, 3 problems]
    assert simultaneous(values, range(1, 5)).pointwise == pytest.approx(0.95**0.25, abs=0.004)


def test_the_band_is_at_least_students_over_the_seeds():
    """Five seeds with means -.1, -.05, 0, .05 and .1, less than the residual; means of problems are 0."""
    residuals = np.stack([HADAMARD[1], -HADAMARD[1], HADAMARD[2], -HADAMARD[2], 0 * HADAMARD[3]])
    values = residuals + 0.05 * np.arange(-2, 3)[:, None]
    band = simultaneous(values[None], [1])
    half = stats.t.ppf(0.5 + band.pointwise / 2, df=4) * np.sqrt(0.05**2 * 2.5 / 5)
    assert band.high.item() == pytest.approx(half) and band.low.item() == pytest.approx(-half)
    assert simultaneous(values[None], [1], (-0.1, 0.1)).high.item() == 0.1


def test_a_column_that_does_not_vary_needs_no_correction():
    values = np.stack([np.zeros(16), HADAMARD[1]])
    assert simultaneous(values, [1, 2]).pointwise == pytest.approx(0.95, abs=0.004)
    assert simultaneous(np.zeros((2, 16)), [1, 2], (-1, 1)).pointwise == 0.95


def test_the_band_is_that_of_passk_inference():
    """The band of passk-inference 0.3.1 is the mean +- c s, with c of its own bootstrap: 4,000 draws, and normal ends
    where ours are Student's."""
    random = np.random.default_rng(0)
    hard = random.beta(0.4, 0.6, 400)
    before, after = random.binomial(32, hard), random.binomial(32, np.where(hard < 0.3, 0.0, np.sqrt(hard)))
    theirs = compare(before, 32, after, 32)
    ours = simultaneous(pass_curve(32, after, 32) - pass_curve(32, before, 32), range(1, 33))
    np.testing.assert_allclose(ours.mean, theirs["mean"], atol=1e-12)
    np.testing.assert_allclose(ours.low, theirs["lower"], atol=0.0015)
    np.testing.assert_allclose(ours.high, theirs["upper"], atol=0.0015)
    better, worse = theirs["certified_positive_budgets"], theirs["certified_negative_budgets"]
    assert better and worse  # the curves cross
    first, *_, last = [r for r in ours.ranges if r.sign]
    assert (first.sign, last.sign) == (1, -1)
    assert abs(first.last - better[-1]) <= 1 and abs(last.first - worse[0]) <= 1
    assert ours.crossing == (first.last + 1, last.first)


def of(low, high):
    low, high = np.array(low, float), np.array(high, float)
    return Band(np.arange(1, len(low) + 1), (low + high) / 2, low, high, 0.99, (low, high))


def test_ranges_and_crossing_by_hand():
    band = of([0.1, 0.05, -0.1, -0.2, -0.3], [0.2, 0.1, 0.1, 0.0, -0.1])
    assert band.ranges == [Range(1, 2, 1), Range(3, 4, 0), Range(5, 5, -1)]
    assert band.crossing == (3, 5)
    assert band.text("b", "a") == (
        "b is higher for k = 1 to 2; no significant difference for k = 3 to 4; a is higher for k = 5. "
        "The curves cross within k = 3 to 5."
    )
    assert of([-0.1, 0.1], [0.1, 0.2]).crossing is None
    assert of([0.1, 0.1], [0.2, 0.2]).ranges == [Range(1, 2, 1)]


def evaluation(counts, n=4):
    return {"per_problem": [{"id": name, "n": n, "c": c, "digest": name} for name, c in counts.items()]}


def test_a_difference_over_k_pairs_problems_and_seeds():
    """Problem p: 1 of 4 and 3 of 4 correct; q: 2 and 2. Pass@1 differs by 1/2 and 0, Pass@4 by 0 and 0."""
    before, after = evaluation({"p": 1, "q": 2, "x": 4}), evaluation({"q": 2, "p": 3})
    band = over_k([before], [after])
    assert band.ks.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(band.mean, [1 / 4, (1 - 1 / 2) / 2, (1 - 3 / 4) / 2, 0])
    two = over_k([before, before], [after, evaluation({"q": 4, "p": 1})])
    np.testing.assert_allclose(two.mean[0], (1 / 4 + 1 / 4) / 2)
    assert over_k([evaluation({"p": 1})], [after]) is None
    assert over_k([evaluation({"p": 1, "q": 0}, n=1)], [evaluation({"p": 1, "q": 1}, n=1)]) is None


def test_many_samples_are_thinned():
    counts = {str(i): i for i in range(50)}
    band = over_k([evaluation(counts, 1024)], [evaluation(counts, 1024)])
    assert band.ks[0] == 1 and band.ks[-1] == 1024 and len(band.ks) <= 256 and (np.diff(band.ks) > 0).all()
