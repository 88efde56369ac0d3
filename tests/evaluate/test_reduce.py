"""Estimates from grades, by hand."""

import json

import numpy as np
import pytest

from diver.cli.compare import write_evaluations
from diver.core.figures import write_pass_curves
from diver.core.files import to_json
from diver.core.seeds import digest
from diver.core.settings import parse_ks
from diver.core.tables import Export, markdown
from diver.core.types import DiverError, Grade, Problem
from diver.evaluate.comparison import comparisons, digests, other_problems
from diver.evaluate.evaluate import Sample, answer, reduce
from diver.evaluate.results import benchmark_table, estimate, table_of

C, W, N, T = Grade.CORRECT, Grade.WRONG, Grade.NO_ANSWER, Grade.TIMEOUT
PROBLEMS = [Problem("a", "1+1?", "2"), Problem("b", "3+4?", "7")]
A = [Sample(C, "2", "x"), Sample(C, "2", "y"), Sample(W, "3", None), Sample(N, None, None)]
B = [Sample(W, "8", None), Sample(W, "8", None), Sample(C, "7", "x"), Sample(T, None, None)]


def test_only_countdowns_grader_knows_whether_two_solutions_are_one():
    countdown = [Problem("a", "?", "2", verifier="countdown")]
    assert reduce(countdown, {"a": A}, [1], "auto")["exact_solutions"] is True
    assert reduce([*countdown, PROBLEMS[1]], {"a": A, "b": B}, [1], "auto")["exact_solutions"] is False


def test_by_hand():
    result = reduce(PROBLEMS, {"a": A, "b": B}, [1, 2, 3, 4], "auto")
    mean = {name: e["mean"] for name, e in result["estimates"].items()}
    assert mean["avg@4"] == mean["pass@1"] == pytest.approx((2 / 4 + 1 / 3) / 2)
    assert mean["pass@2"] == pytest.approx((1 - 1 / 6 + 1 - 1 / 3) / 2)  # a misses in C(2,2)/C(4,2), b in C(2,2)/C(3,2)
    assert mean["pass@4"] == 1.0 and result["estimates"]["pass@4"]["problems"] == 1  # b has three scored samples
    assert mean["maj@2"] == pytest.approx(((1 + 0) / 2 + 0) / 2)  # a: "2 2", then "3 -"; b: "8 8"
    assert mean["maj@3"] == pytest.approx((1 + 0) / 2)
    assert mean["distinct@4"] == 2.0 and mean["distinct@1"] == pytest.approx((2 / 4 + 1 / 3) / 2)
    assert result["grades"] == {"correct": 3, "wrong": 3, "no_answer": 1, "timeout": 1} and result["unscored"] == 1
    assert result["per_problem"] == [
        {"id": "a", "digest": digest("1+1?", "2"), "n": 4, "c": 2, "distinct": 2, "pair_diversity": 1},
        {"id": "b", "digest": digest("3+4?", "7"), "n": 3, "c": 1, "distinct": 1},
    ]


def test_two_mazes_that_are_asked_alike_are_two_problems():
    """An environment reads `meta`, so the text of the problem does not tell them apart."""
    mazes = [
        Problem("a", "Go to d3.", "", verifier="diver.tasks.maze_cells:MazeCells", meta={"start": cell})
        for cell in ("a1", "b2")
    ]
    first, second = (reduce([maze], {"a": A}, [1], "auto") for maze in mazes)
    assert first["per_problem"][0]["digest"] == digest("Go to d3.", "", {"start": "a1"})
    assert other_problems(digests(first), digests(second)) == {"a"}
    asked = [Problem("a", "1+1?", "2", meta={"subject": subject}) for subject in ("sums", "algebra")]
    first, second = (reduce([problem], {"a": A}, [1], "auto") for problem in asked)
    assert not other_problems(digests(first), digests(second))


def test_counts_stand_for_samples():
    """As `test_by_hand`, with a's correct responses three times each and b's wrong answer twice in one row."""
    a = [Sample(C, None, "x", 3), Sample(C, None, "y", 3), Sample(W, None, None), Sample(N, None, None)]
    b = [Sample(W, None, None, 2), Sample(C, None, "x"), Sample(T, None, None, 5)]
    result = reduce(PROBLEMS, {"a": a, "b": b}, [1, 2, 4], "auto", solutions=True)
    mean = {name: e["mean"] for name, e in result["estimates"].items()}
    assert mean["avg@8"] == mean["pass@1"] == pytest.approx((6 / 8 + 1 / 3) / 2)
    assert mean["distinct@2"] == pytest.approx((2 * (1 - 10 / 28) + 2 / 3) / 2)  # x is missed in C(5, 2) of C(8, 2)
    assert not any(name.startswith("maj") for name in mean)  # which needs the samples in order
    pairs = result["estimates"]["pair_diversity"]
    assert (pairs["mean"], pairs["problems"]) == (1 - 6 / 15, 1)  # b has one correct sample, and so no pair
    assert result["effective_solutions"] == pytest.approx(15 / 6)
    assert result["grades"] == {"correct": 7, "wrong": 3, "no_answer": 1, "timeout": 5} and result["unscored"] == 5
    assert result["per_problem"] == [
        {"id": "a", "digest": digest("1+1?", "2"), "n": 8, "c": 6, "distinct": 2}
        | {"pair_diversity": 1 - 6 / 15, "solutions": [3, 3]},  # 3 + 3 of the 15 pairs are alike
        {"id": "b", "digest": digest("3+4?", "7"), "n": 3, "c": 1, "distinct": 1, "solutions": [1]},
    ]


def test_without_a_pair_of_correct_samples_the_diversity_is_unknown_and_not_0():
    result = reduce(PROBLEMS, {"a": B, "b": A[2:]}, [1], "auto")
    pairs = result["estimates"]["pair_diversity"]
    assert pairs["problems"] == 0 and np.isnan(pairs["mean"]) and np.isnan(result["effective_solutions"])
    assert not any("pair_diversity" in row for row in result["per_problem"])
    table = benchmark_table({"sums": json.loads(to_json(results(B, A[2:])))})
    lines = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in table.splitlines()[2:] if "|" in line}
    assert lines["correct pairs written differently"] == lines["effective sets of formulas"] == "–"
    assert lines["problems with such pairs"] == "0"


def pairs_of(counts):
    """An evaluation of problems whose correct samples have these counts of solutions."""
    samples = {
        name: [Sample(C, None, f"{name} {i}", n) for i, n in enumerate(of)] + [Sample(W, None, None)]
        for name, of in counts.items()
    }
    problems = [Problem(name, "?", "2", verifier="countdown") for name in counts]
    return {"samples": 9, **reduce(problems, samples, [1], "auto")}


def test_the_diversity_of_correct_pairs_is_compared_where_both_sides_have_it():
    """a: 1/3 of 3 pairs are alike, then none; b: all, then 4 of 6; c has one correct sample, d none on the left."""
    left = pairs_of({"a": [2, 1], "b": [2], "c": [1], "d": []})
    right = pairs_of({"a": [1, 1], "b": [2, 2], "c": [1, 1], "d": [2]})
    *_, pairs, effective = comparisons(left, right)
    assert pairs.label == "Correct pairs distinct (2 problems)" and pairs.support == 2
    assert pairs.base.mean == pytest.approx((2 / 3 + 0) / 2) and pairs.trained.mean == pytest.approx((1 + 4 / 6) / 2)
    assert pairs.change.mean == pytest.approx((1 / 3 + 4 / 6) / 2)
    assert pairs.change.low < pairs.change.mean < pairs.change.high
    assert effective.base.mean == pytest.approx(1 / (1 - 1 / 3)) and effective.trained.mean == pytest.approx(6)
    assert not effective.significant and not pairs.is_pass and not effective.is_pass
    alone, _ = comparisons(left, {})[-2:]
    assert alone.support == 2 and alone.base.mean == pairs.base.mean and np.isnan(alone.change.mean)
    *_, only, _ = comparisons(pairs_of({"a": [1]}), right)
    assert (
        np.isnan(only.base.mean) and only.support == 4 and only.trained.mean == pytest.approx((1 + 4 / 6 + 1 + 0) / 4)
    )


def test_countdown_is_not_voted_on():
    problem = Problem("c", "Use 1 and 2 to make 3.", "3", verifier="countdown", meta={"numbers": [1, 2], "target": 3})
    result = reduce([problem], {"c": A}, [1, 4], "auto")
    assert not any(name.startswith("maj") for name in result["estimates"])


def test_what_a_response_votes_for():
    mathematics, options = PROBLEMS[0], {"A": "one", "B": "two"}
    choice = Problem("d", "?", "B", verifier="choice", meta={"options": options})
    assert answer(mathematics, r"So \boxed{ \dfrac{1}{2} }", "auto") == answer(
        mathematics, r"\boxed{\frac{1}{2}}", "auto"
    )
    assert answer(mathematics, "we get 41, then 42", "auto") == "42" and answer(mathematics, "no idea", "auto") is None
    assert len(answer(mathematics, rf"\boxed{{{'9' * 500}}}", "auto")) == 16
    assert answer(choice, "The answer is (A).", "auto") == "A" and answer(choice, "two", "auto") == "B"
    assert answer(choice, "Hm.", "auto") is None


@pytest.mark.parametrize(
    ("text", "ks"),
    [
        ("1,8,64", [1, 8, 64]),
        ("8,1", [1, 8]),
        ("", []),
        ("1,...,8", [1, 2, 4, 8]),
        ("1,2,...,1024", [2**i for i in range(11)]),
        ("3,…,20", [3, 6, 12, 20]),
    ],
)
def test_ks(text, ks):
    assert parse_ks(text) == ks


@pytest.mark.parametrize("text", ["x", "1,...", "...,4", "0", "-1,2", "1;2", "0,...,4"])
def test_ks_that_are_none(text):
    with pytest.raises(DiverError, match="--k"):
        parse_ks(text)


def results(a, b, ks=(1, 2)):
    reduced = reduce(PROBLEMS, {"a": a, "b": b}, ks, "auto")
    how = {"title": "Sums", "problems": 2, "samples": 4, "k": list(ks), "random_baseline": 0.25, "template": "plain",
           "temperature": 1.0, "max_tokens": 8, "graders": ["math"]}  # fmt: skip
    return json.loads(to_json({**how, **reduced}))  # as results.json has them


def test_changes_are_paired_and_over_shared_problems(tmp_path):
    left, right = results(A, A), results(A, [Sample(C, "7", "x")] * 4)
    pass_1, *_, distinct, pairs, effective = comparisons(left, right)
    assert (pass_1.label, *(e.mean for e in pass_1[1:4])) == ("Pass@1", 0.5, 0.75, 0.25)
    assert (pairs.label, pairs.change.mean) == ("Correct pairs written differently (2 problems)", -0.5)
    assert (effective.label, effective.trained.mean) == ("Effective sets of formulas", 2)
    assert np.isnan(effective.base.mean)  # no pair of the left is alike
    assert (distinct.label, distinct.change.mean) == ("Written differently", -0.5)  # a has x and y, b all in x
    assert comparisons({**left, "exact_solutions": True}, {})[-2].label == "Distinct@4"
    right["per_problem"][0]["n"] = 3  # another number of samples: more of them find more solutions
    assert comparisons(left, right)[-3].change[0] == -1.0  # of b alone
    right["per_problem"] = right["per_problem"][1:]
    assert [e.mean for e in comparisons(left, right)[0][1:3]] == [0.5, 1.0]
    right["per_problem"] = []
    for name, found in (("left", left), ("right", right)):
        (tmp_path / name).write_text(json.dumps({"model": name, "benchmarks": {"sums": found}}))
    with pytest.raises(DiverError, match="no problem of Sums in common"):
        write_evaluations([tmp_path / "left", tmp_path / "right"], Export(), None)


def test_a_problem_of_the_same_id_and_another_text_is_another_problem(tmp_path, capsys):
    """Rows without an id are called after their file: file-1, file-2, ... in any file of that name."""
    left, right = results(A, A), results(A, [Sample(C, "7", "x")] * 4)
    right["per_problem"][0]["digest"] = digest("another question", "2")
    assert [e.mean for e in comparisons(left, right)[0][1:3]] == [0.5, 1.0]  # of b alone
    for name, found in (("left", left), ("right", right)):
        (tmp_path / name).write_text(json.dumps({"model": name, "benchmarks": {"sums": found}}))
    write_evaluations([tmp_path / "left", tmp_path / "right"], Export(), None)
    told = capsys.readouterr().out
    assert "Sums: 1 problems of the same id have another text or answer and are left out" in told
    assert "Written differently: sets of formulas that the correct samples write." in told
    right["per_problem"][1]["digest"] = "0" * 16
    (tmp_path / "right").write_text(json.dumps({"model": "right", "benchmarks": {"sums": right}}))
    with pytest.raises(DiverError, match=r"no problem of Sums in common \(same id, text and answer\)"):
        write_evaluations([tmp_path / "left", tmp_path / "right"], Export(), None)
    del left["per_problem"][0]["digest"], left["per_problem"][1]["digest"]  # by an earlier version: ids alone decide
    assert comparisons(left, right)[0].trained.mean == 0.75


def test_ids_that_may_be_other_problems_are_told(tmp_path, capsys):
    """Rows without an id are called after their file, and the order of options is drawn by the seed."""
    paths = []
    for name, source, seed in (("algebra", "algebra/test.jsonl", 0), ("geometry", "geometry/test.jsonl", 1)):
        found = results(A, A) | {"source": {"path": source, "notes": []}, "seed": seed}
        paths.append(tmp_path / name)
        paths[-1].write_text(json.dumps({"model": name, "benchmarks": {"sums": found}}))
    paths.append(tmp_path / "of_training")  # which does not say its source
    paths[-1].write_text(json.dumps({"model": "m", "benchmarks": {"sums": results(A, A)}}))
    write_evaluations(paths, Export(), None)
    other, trained = capsys.readouterr().out.split("of_training (m)")
    assert "Sums: source differs: algebra/test.jsonl and geometry/test.jsonl\nSums: seed differs: 0 and 1" in other
    assert "differs" not in trained


def test_compare_needs_two_runs(tmp_path):
    with pytest.raises(DiverError, match="two results or more"):
        write_evaluations([tmp_path], Export(), None)


def test_table_and_curves(tmp_path):
    table = benchmark_table({"sums": results(A, B, (1, 2, 4))})
    lines = {
        line.split("|")[1].strip(): line.split("|")[2].strip() for line in table.splitlines() if line.startswith("|")
    }
    assert lines["Avg@n"].startswith("41.7 [") and lines["Pass@4"] == "100.0"  # one problem has a value: no interval
    # two formulas written may be one solution: only Countdown's grader knows
    assert lines["written differently@4"] == "2.0" and "distinct@4" not in lines
    exact = benchmark_table({"sums": results(A, B, (1, 2, 4)) | {"exact_solutions": True}})
    assert "| distinct@4" in exact and "| written differently" not in exact
    assert lines["correct pairs written differently"] == "100.0" and lines["problems with such pairs"] == "1"
    assert "| correct pairs distinct" in exact and "| effective solutions" in exact
    assert lines["random baseline"] == "25.0" and lines["unscored"] == "1" and lines["problems x samples"] == "2 x 4"
    curves = {"Sums": {k: estimate(results(A, B), f"pass@{k}") for k in (1, 2)}}
    write_pass_curves(curves, tmp_path / "pass_at_k.png", tmp_path / "pass_at_k.svg")
    assert (tmp_path / "pass_at_k.png").read_bytes().startswith(b"\x89PNG")
    svg = (tmp_path / "pass_at_k.svg").read_text()
    assert "Sums" in svg and "Pass@k" in svg
    write_pass_curves(curves, tmp_path / "pass_at_k.png", tmp_path / "pass_at_k.svg")
    assert (tmp_path / "pass_at_k.svg").read_text() == svg


def test_markdown_is_aligned():
    assert markdown(["", "x"], [["a", "10"], ["bb", "3"]]) == "|    |  x |\n| -- | -: |\n| a  | 10 |\n| bb |  3 |\n"


def test_problems_that_pass_at_k_leaves_out_are_counted(tmp_path, capsys):
    """B has 3 scored samples of 4, so Pass@4 and the solutions of 4 samples are those of the other problem alone."""
    left, right = results(A, B, ks=(1, 4)), results(A, A, ks=(1, 4))
    assert {row.label: row.left_out for row in comparisons(left, right) if row.left_out} == {
        "Pass@4": 1, "Written differently": 1,
    }  # fmt: skip
    for name, found in (("left", left), ("right", right)):
        (tmp_path / name).write_text(json.dumps({"model": name, "benchmarks": {"sums": found}}))
    write_evaluations([tmp_path / "left", tmp_path / "right"], Export(), None)
    few = "Sums Pass@4 leaves out 1 problem, Sums Written differently leaves out 1 problem."
    assert f"Too few scored samples: {few}" in capsys.readouterr().out
    write_evaluations([tmp_path / "right", tmp_path / "right"], Export(), None)
    assert "Too few" not in capsys.readouterr().out
    assert not any(row.left_out for row in comparisons(left, {}) + comparisons(left, {**right, "per_problem": []}))


def test_unscored_problems_have_no_estimate(tmp_path):
    result = reduce(PROBLEMS, {"a": [Sample(T, None, None)] * 2, "b": B[:2]}, [1, 2], "auto")
    assert result["estimates"]["pass@1"]["problems"] == 1 and result["estimates"]["pass@1"]["mean"] == 0.0
    assert np.isnan(result["estimates"]["pass@2"]["low"])
    unscored = results([Sample(T, None, None)] * 2, [Sample(T, None, None)] * 2)
    curves = {"Sums": {k: estimate(unscored, f"pass@{k}") for k in unscored["k"]}}
    assert write_pass_curves(curves, tmp_path / "pass_at_k.png") == () and not [*tmp_path.iterdir()]


def test_the_table_of_a_folder_says_where_its_benchmarks_have_different_temperatures():
    cool, warm = ({**results(A, B), "title": title, "temperature": t} for title, t in (("Cool", 0.6), ("Warm", 1.0)))
    both = benchmark_table({"cool": cool, "warm": warm})
    assert [[cell.strip() for cell in row.split("|")[1:-1]] for row in both.splitlines() if "temperature" in row] == [
        ["temperature", "0.60", "1.00"]
    ]
    assert [row["temperature"] for row in table_of({"cool": cool, "warm": warm}).records()] == [0.6, 1.0]
    assert "temperature" not in benchmark_table({"cool": cool, "cold": {**cool, "title": "Cold"}})
