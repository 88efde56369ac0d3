import math

import numpy as np
import pytest

from diver_paper.judge.ranks import by_position, standings, unranked
from diver_paper.judge.tables import OVERALL, ranks_latex, ranks_markdown


def test_by_hand():
    ranks = {"p": np.array([[1, 2], [1, 2]]), "q": np.array([[2, 1], [1, 1]])}
    first, second = standings(ranks, {"p": "x", "q": "x"})
    assert first.rank.mean == pytest.approx((1 + 1.5) / 2)
    assert second.rank.mean == pytest.approx((2 + 1) / 2)
    assert [s.mean for s in first.shares] == pytest.approx([(1 + 0.5) / 2, 0.25])
    assert [s.mean for s in second.shares] == pytest.approx([0.5, 0.5])
    # Student: 1.25 +- t_1 s / sqrt(2), s = .5 / sqrt(2), t_1 = 12.706
    assert first.rank[1:] == pytest.approx((1.25 - 3.1766, 1.25 + 3.1766), abs=1e-3)


def test_overall_is_the_mean_over_benchmarks():
    ranks = {"p": np.array([[1, 2]]), "q": np.array([[1, 2]]), "r": np.array([[2, 1]])}
    first, _ = standings(ranks, {"p": "x", "q": "x", "r": "y"})
    assert first.rank.mean == pytest.approx((1 + 2) / 2)
    assert first.shares[0].mean == pytest.approx(0.5)


def test_nothing_ranked():
    assert standings({}, {}) == [] and by_position([]) == []
    assert math.isnan(unranked(3).rank.mean) and len(unranked(3).shares) == 3


def test_places():
    assert by_position([[1, 2], [1, 2], [2, 1], [1, 2]]) == [1.25, 1.75]


def test_tables():
    ranks = {str(i): np.array([[1, 2], [1, 2]]) for i in range(3)}
    blocks = {OVERALL: standings(ranks, dict.fromkeys(ranks, "x")), "a_b": [unranked(2)] * 2}
    table = " ".join(ranks_markdown(blocks, ["ours", "the|other"]).split())
    assert r"| Overall Avg.: the\|other | 2.00 (2.00–2.00) | 0.0% (0.0–0.0) | 100.0% (100.0–100.0) |" in table
    assert "Rank 1 (best)" in table and "Rank 2 (worst)" in table and "a\\_b: ours" in table
    latex = ranks_latex(blocks, ["ours", "the_other"])
    assert r"\multirow{2}{*}{Overall Avg.}" in latex and r" & ours & \textbf{1.00} & 100.0\% & 0.0\% \\" in latex
    assert r" & the\_other & 2.00 & 0.0\% & 100.0\% \\" in latex and r" & ours & – & – & – \\" in latex
