import numpy as np
import pytest
from scipy import stats

from model_judge.ranks import OVERALL, by_position, ranks_latex, ranks_markdown, standings


def test_by_hand():
    ranks = {"p": np.array([[1, 2], [1, 2]]), "q": np.array([[2, 1], [1, 1]])}
    first, second = standings(ranks, {"p": "x", "q": "x"}, 2)
    assert first.rank.mean == pytest.approx((1 + 1.5) / 2)
    assert second.rank.mean == pytest.approx((2 + 1) / 2)
    assert [s.mean for s in first.shares] == pytest.approx([(1 + 0.5) / 2, 0.25])
    assert [s.mean for s in second.shares] == pytest.approx([0.5, 0.5])
    # Student: 1.25 +- t_1 s / sqrt(2), s = .5 / sqrt(2), t_1 = 12.706: beyond the ranks 1 and 2 that there are
    assert first.rank[1:] == (1, 2) and first.shares[0][1:] == (0, 1)


def test_overall_is_the_mean_over_benchmarks():
    ranks = {"p": np.array([[1, 2]]), "q": np.array([[1, 2]]), "r": np.array([[2, 1]])}
    first, _ = standings(ranks, {"p": "x", "q": "x", "r": "y"}, 2)
    assert first.rank.mean == pytest.approx((1 + 2) / 2)
    assert first.shares[0].mean == pytest.approx(0.5)


def test_the_interval_is_of_problems_within_benchmarks():
    """x: ranks 1 and 2, variance 1/2 of two; y: 1, 1, 2, 2, variance 1/3 of four. (1/4 + 1/12) / 4 = 1/12, and 1.8
    degrees."""
    rows = {"p": [1, 2], "q": [2, 1], "r": [1, 2], "s": [1, 2], "t": [2, 1], "u": [2, 1]}
    ranks = {name: np.array([row]) for name, row in rows.items()}
    first, _ = standings(ranks, dict(zip(ranks, "xxyyyy", strict=True)), 2)
    freedom = (1 / 12) ** 2 / ((1 / 16) ** 2 / 1 + (1 / 48) ** 2 / 3)
    half = stats.t.ppf(0.975, freedom) / 12**0.5
    assert 0.5 < half < 1.5
    assert first.rank == (1.5, 1, 2)
    many = {f"{name}{i}": rank for name, rank in ranks.items() for i in range(100)}
    first, _ = standings(many, {name: "x" if name[0] in "pq" else "y" for name in many}, 2)
    x, y = (
        1 / 4 / 199 / 4,
        1 / 4 / 399 / 4,
    )  # the variance of 200 and of 400 ranks, half of them 1, over n and over 2 squared
    half = stats.t.ppf(0.975, (x + y) ** 2 / (x**2 / 199 + y**2 / 399)) * (x + y) ** 0.5
    assert first.rank == pytest.approx((1.5, 1.5 - half, 1.5 + half))
    same = {str(i): np.array([[2, 1]]) for i in range(40)}
    assert standings(same, {name: "x" if int(name) < 4 else "y" for name in same}, 2)[0].rank == (2, 2, 2)


def test_nothing_ranked():
    assert by_position([]) == []
    unranked = standings({}, {}, 3)
    assert len(unranked) == 3
    assert all(np.isnan([*s.rank, *np.ravel(s.shares)]).all() and len(s.shares) == 3 for s in unranked)


def test_places():
    assert by_position([[1, 2], [1, 2], [2, 1], [1, 2]]) == [1.25, 1.75]


def test_tables():
    ranks = {str(i): np.array([[1, 2], [1, 2]]) for i in range(3)}
    blocks = {OVERALL: standings(ranks, dict.fromkeys(ranks, "x"), 2), "a_b": standings({}, {}, 2)}
    table = " ".join(ranks_markdown(blocks, ["ours", "the|other"]).split())
    assert r"| Overall Avg.: the\|other | 2.00 (2.00–2.00) | 0.0% (0.0–0.0) | 100.0% (100.0–100.0) |" in table
    assert "Rank 1 (best)" in table and "Rank 2 (worst)" in table and "a\\_b: ours" in table
    latex = ranks_latex(blocks, ["ours", "the_other"])
    assert r"\multirow{2}{*}{Overall Avg.}" in latex and r" & ours & \textbf{1.00} & 100.0\% & 0.0\% \\" in latex
    assert r" & the\_other & 2.00 & 0.0\% & 100.0\% \\" in latex and r" & ours & – & – & – \\" in latex
