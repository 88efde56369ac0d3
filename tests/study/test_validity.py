import json

import numpy as np
import pytest
from rows import write_rows

from diver.core.statistics import Estimate
from diver.rollouts.problems import ProblemTable, column
from diver_paper.commands import validity as command
from diver_paper.validity import as_json, correlation_table, means_table, pairs, strength, validity
from diver_paper.validity_picture import write_picture


def table(columns):
    arrays = {name: np.array(v, float) for name, v in columns.items()}
    return ProblemTable([str(i) for i in range(len(arrays["textual"]))], arrays)


UP, DOWN = [0.1, 0.2, 0.3, 0.4, 0.5], [0.9, 0.7, 0.5, 0.3, 0.1]
PLAIN = table(
    {"textual": UP, "embedding": [x**2 for x in UP], "equational": [0] * 5, "pass@1": DOWN, "words": [4, 4, 5, 5, 6]}
)


def test_correlations_are_over_problems():
    found = validity({"plain": PLAIN}).correlations["plain"]
    assert found["textual", "embedding"].mean == pytest.approx(1)  # ranks, so a square does not matter
    assert found["textual", "pass@1"] == pytest.approx((-1, -1, -1))
    assert np.isnan(found["textual", "equational"].mean)  # ED does not vary
    assert found["textual", "words"].mean == pytest.approx(np.corrcoef([1, 2, 3, 4, 5], [1.5, 1.5, 3.5, 3.5, 5])[0, 1])


def test_the_length_is_the_control():
    rng = np.random.default_rng(2)
    words = rng.permutation(200)
    near = {name: words + rng.normal(scale=60, size=200) for name in ("textual", "embedding")}
    result = validity({"plain": table({**near, "words": words})})
    pair = ("textual", "embedding")
    assert result.correlations["plain"][pair].low > 0.3 and abs(result.partial["plain"][pair].mean) < 0.2
    assert list(result.partial["plain"]) == [pair]
    assert "… given the length" in correlation_table(result).splitlines()[3]
    assert (
        as_json(result)["plain"]["given the length"]["textual ~ embedding"]["mean"]
        == result.partial["plain"][pair].mean
    )


def test_a_column_with_gaps_has_a_mean_but_no_correlation():
    result = validity({"plain": table({"textual": UP, "pass@8": [*DOWN[:4], np.nan], "words": UP})})
    assert result.means["plain"]["pass@8"].mean == pytest.approx(0.6)
    assert list(result.correlations["plain"]) == [("textual", "words")]


def test_pairs_of_metrics_come_first_and_pairs_without_one_are_left_out():
    assert pairs(validity({"plain": PLAIN})) == [
        ("textual", "embedding"), ("textual", "equational"), ("embedding", "equational"), ("textual", "pass@1"),
        ("textual", "words"), ("embedding", "pass@1"), ("embedding", "words"), ("equational", "pass@1"),
        ("equational", "words"),
    ]  # fmt: skip


def test_between_methods_the_paper_as_an_example():
    """The means of the paper's table: TD and both similarities order its four methods alike, Pass@8 does not."""
    paper = {
        "DIVER": (0.702, 0.477, 0.936, 0.881, 43.1, 60.8),
        "Clip-Higher": (0.805, 0.575, 0.916, 0.841, 40.7, 57.4),
        "Entropy-RL": (0.549, 0.294, 0.947, 0.954, 41.8, 58.0),
        "Pass@k": (0.441, 0.200, 0.959, 0.967, 41.5, 56.3),
    }
    names = ("textual", "equational", "hidden-state", "embedding", "pass@1", "pass@8")
    tables = {
        method: table(
            {n: [1 - v if n in ("hidden-state", "embedding") else v] for n, v in zip(names, row, strict=True)}
        )
        for method, row in paper.items()
    }
    between = validity(tables).between
    assert between["textual", "equational"] == between["textual", "hidden-state"] == pytest.approx(1)
    assert between["textual", "embedding"] == pytest.approx(1)
    assert between["textual", "pass@8"] == pytest.approx(0.4) and between["textual", "pass@1"] == pytest.approx(-0.2)
    assert validity({"one": PLAIN, "two": PLAIN}).between == {}
    assert "| 3 means |" in correlation_table(validity({"one": PLAIN, "two": PLAIN, "three": PLAIN}))


def test_the_tables():
    result = validity({"plain": PLAIN, "two": table({"textual": DOWN, "words": UP})})
    means = means_table(result).splitlines()
    assert "embedding similarity ↓" in means[0] and "TD ↑" in means[0] and "Pass@1 ↑" in means[0]
    assert "0.890 [" in means[2] and "50.0 [" in means[2] and " – " in means[3]  # 1 - mean of the squares
    rows = correlation_table(result).splitlines()
    assert rows[2].replace(" ", "").startswith("|TD~embedding|+1.00[+1.00,+1.00]strong|")
    assert as_json(result)["plain"]["correlations"]["textual ~ pass@1"]["mean"] == pytest.approx(-1)


def test_cells_and_words():
    assert column("textual").text(Estimate(0.5, 0.25, 0.75)) == "0.500 [0.250, 0.750]"
    assert column("pass@8").text(Estimate(0.5, np.nan, np.nan)) == "50.0" and column("words").text(None) == "–"
    assert strength(Estimate(-0.6, -0.8, -0.4)) == "strong"
    assert strength(Estimate(0.4, -0.1, 0.8)) == "moderate, could be 0"
    assert strength(Estimate(0.2, 0.1, 0.3)) == "weak" and strength(Estimate(0.05, -0.1, 0.2)) == "none"


def test_the_picture_is_a_png(tmp_path):
    write_picture(validity({"plain": PLAIN}), tmp_path / "new" / "validity.png")
    assert (tmp_path / "new" / "validity.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["validity.png"]


def test_the_command(tmp_path, monkeypatch, capsys):
    """What `diver measure` writes, and beside it the correlations, of the same numbers."""
    rows = [
        {
            "problem": p,
            "response": f"{'a b c d e' if (i + n) % (n + 2) else 'we add $1+1=2$ and'} {p}",
            "correct": i % 3 == 0,
        }
        for n, p in enumerate(("one", "two", "three", "four"))
        for i in range(4)
    ]
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "mine.jsonl", rows)
    command(["mine.jsonl", "--k", "1,4", "--metrics", "textual,equational,self-bleu", "--out", "out"])
    printed = capsys.readouterr().out
    assert "| TD ~ ED " in printed and "written: validity.json, validity.md, validity.png in out" in printed
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "groups.jsonl", "summary.json", "index.html", "validity.md", "validity.json", "validity.png",
    }  # fmt: skip
    written = json.loads((tmp_path / "out" / "validity.json").read_text())["mine"]
    measured = json.loads((tmp_path / "out" / "summary.json").read_text())["rollouts"]["mine"]
    ends = ("mean", "low", "high")
    of_measure = {name: {end: found[end] for end in ends} for name, found in measured["means"].items()}
    assert written["means"] == of_measure
    assert written["problems"] == 4
    assert "textual ~ self-bleu" in written["correlations"]
