"""Records made by hand: what a measure is, how variants are paired, and when a claim holds."""

import numpy as np
import pytest

from diver.core.types import Grade, Group, Problem, Rollout
from diver.grading import verify
from diver_paper.aggregate import Study, claim_status, difference, level, values
from diver_paper.custom_pages import distinct
from diver_paper.experiments import EXPERIMENTS, INITIAL, Claim, Experiment
from diver_paper.measure import signal
from diver_paper.plan import runs_of

TINY = Experiment(name="x", title="", reproduces="", varied="", variants={"a": {}, "b": {}}, paper_variants={})


def record(solutions, metrics=None, samples=4):
    return {"metrics": metrics or {}, "evaluations": {"5": {}, "10": {"samples": samples, "solutions": solutions}}}


def test_measures_by_hand():
    run = record([[2, 1], [], [4]], {"policy/entropy": [9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 0.25, 0.75], "none": [None]})
    np.testing.assert_allclose(values(run, "pass@1"), [0.75, 0.0, 1.0])
    np.testing.assert_allclose(values(run, "pass@2"), [1.0, 0.0, 1.0])
    # of the 6 pairs of 4 samples, all but the one without it hold the first solution 5/6, the second 3/6
    np.testing.assert_allclose(values(run, "distinct@2"), [5 / 6 + 3 / 6, 0.0, 1.0])
    np.testing.assert_allclose(values(run, "policy/entropy"), [0.5])  # the last quarter
    run["evaluations"]["10"]["diversity"] = {"textual": [0.5, 0.25, 0.0]}
    np.testing.assert_allclose(values(run, "held-out/textual"), [0.5, 0.25, 0.0])
    assert len(values(run, "held-out/equational")) == 0
    np.testing.assert_allclose(values(run, "pass@2 - pass@1"), [0.25, 0.0, 0.0])
    assert len(values(run, "pass@8 - pass@1")) == len(values(run, "saved/embedding")) == 0
    run["at"] = {"0.6": {"samples": 2, "solutions": [[1, 1], [1], []]}}
    np.testing.assert_allclose(values(run, "pass@1 at 0.6"), [1.0, 0.5, 0.0])
    np.testing.assert_allclose(values(run, "distinct@2 at 0.6"), [2.0, 1.0, 0.0])
    np.testing.assert_allclose(values(run, "pass@1 at 0.6 - pass@1"), [0.25, 0.5, -1.0])
    assert len(values(run, "pass@1 at 0.3")) == len(values(run, "pass@4 at 0.6")) == 0
    assert len(values(run, "pass@8")) == len(values(run, "none")) == len(values(run, "unknown")) == 0


def test_differences_are_paired_over_the_seeds_that_both_have():
    study = Study(
        TINY, {"a": {0: record([[4], [2]]), 1: record([[3], [1]])}, "b": {1: record([[1], [1]]), 2: record([[4], [4]])}}
    )
    assert difference(study, "a", "b", "pass@1").mean == pytest.approx((0.5 + 0.0) / 2)
    assert level(study, "b", "pass@1").mean == pytest.approx((0.25 + 0.25 + 1 + 1) / 4)
    assert np.isnan(difference(study, "a", "c", "pass@1")).all()


def test_a_claim_is_supported_where_the_interval_is_above_zero_and_only_there():
    def study(high):
        rng = np.random.default_rng(0)
        draw = lambda top: record([[int(c)] if c else [] for c in rng.integers(0, top, 200)], samples=100)  # noqa: E731
        return Study(TINY, {"a": {s: draw(high) for s in range(4)}, "b": {s: draw(50) for s in range(4)}})

    claim = Claim("", "pass@1", "a", "b")
    assert claim_status(study(90), claim)[0] == "supported"
    assert claim_status(study(20), claim)[0] == "contradicted"
    assert claim_status(study(50), claim)[0] == "inconclusive"
    assert claim_status(Study(TINY, {}), claim)[0] == "not run"
    one = Study(TINY, {name: {0: runs[0]} for name, runs in study(90).runs.items()})
    assert claim_status(one, claim)[0] == "one seed"


def test_runs_come_seed_by_seed():
    made = [(variant, seed) for variant, _, seed in runs_of(EXPERIMENTS["main"], 2)]
    assert made[0] == (INITIAL, 0) and [seed for _, seed in made[1:]] == [0] * 8 + [1] * 8


def test_signal_by_hand():
    groups = [
        (np.array([1.0, 1.0]), np.array([1.0, -1.0])),
        (np.array([1.0, 0.0]), np.array([3.0, -3.0])),
        (np.array([0.0, 0.0]), np.array([0.0, 0.0])),
    ]
    assert signal(groups) == {"signal/all_correct": 0.25, "signal/mixed": 0.75, "signal/none_correct": 0.0}
    assert set(signal(groups[2:]).values()) == {0.0}


def test_one_solution_written_in_two_ways_is_one():
    problem = Problem("p", "Use 2 and 3 to make 5.", "5", "", "countdown", {"numbers": [2, 3], "target": 5})
    texts = (r"\( 2 + 3 = 5 \) \boxed{ 5 }", r"\( 3 + 2 = 5 \) \boxed{ 5 }", r"\( 3 - 2 = 1 \) \boxed{ 1 }")
    (group,) = verify([Group(problem, tuple(Rollout(response=text) for text in texts))])
    assert [r.grade for r in group.rollouts] == [Grade.CORRECT, Grade.CORRECT, Grade.WRONG]
    assert distinct(group) == 1
