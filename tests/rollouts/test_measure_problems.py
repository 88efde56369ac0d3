from dataclasses import replace

import numpy as np
import pytest

from diver.core.types import Group, Problem, Reward, Rollout
from diver.diversity import textual_diversity, with_diversity
from diver.rollouts.measure import table_of
from diver.rollouts.problems import PAIR_KINDS, correct_of, group_row, pair_values, problem_table, summary


def measured(groups, metrics):
    return [with_diversity(group, metrics) for group in groups]


def group(name, responses, outcomes=None, step=None):
    rewards = [None if o is None else Reward(o) for o in (outcomes or [None] * len(responses))]
    rollouts = tuple(Rollout(r, reward=reward) for r, reward in zip(responses, rewards, strict=True))
    return Group(Problem(name, "?", "1", meta={"step": step} if step else {}), rollouts)


A = group("a", ["u v w x y", "u v w x z", "k l m n o"], [1.0, 0.0, 0.6])
B = group("b", ["u v w x", "u v w x"], [0.0, 0.4])


def test_measured_groups_say_what_the_pure_functions_say():
    for before, after in zip([A, B], measured([A, B], ["textual"]), strict=True):
        assert [r.diversity["textual"] for r in after.rollouts] == textual_diversity(before.responses).tolist()
        assert [r.reward for r in after.rollouts] == [r.reward for r in before.rollouts]


def test_the_row_of_a_group_by_hand():
    (a,) = measured([group("a", ["$x$ is $y$", "$x$ so"], [1.0, 0.0])], ["equational"])
    row = group_row(a, ks=(1, 2, 3))
    assert row["equational"] == 0.25 and row["words"] == 2.5
    assert row["pass@1"] == 0.5 and row["pass@2"] == 1 and np.isnan(row["pass@3"])


def test_what_is_correct_is_a_threshold():
    a, b = measured([A, B], ["textual"])
    assert group_row(a, (1,))["pass@1"] == pytest.approx(2 / 3)
    assert group_row(a, (1,), threshold=0.9)["pass@1"] == pytest.approx(1 / 3)
    assert group_row(b, (1,))["pass@1"] == 0
    (unknown,) = measured([group("a", ["u", "v"], [1.0, None])], ["textual"])
    assert group_row(unknown, (1,))["pass@1"] == 1 and np.isnan(group_row(unknown, (2,))["pass@2"])


def test_a_problem_with_several_groups_counts_once():
    first, again = group("a", ["u v", "x y"], step=1), group("a", ["u v", "u v"], step=2)
    table = problem_table(measured([first, again, group("b", ["u", "u"])], ["textual"]))
    assert table.problems == ["a", "b"] and table.columns["textual"].tolist() == [0.5, 0]
    assert table.columns["words"].tolist() == [2, 1]


def test_problems_of_two_benchmarks_are_two_even_if_their_ids_are_the_same():
    aime, amc = group("60", ["u v", "x y"]), group("60", ["u", "u"])
    aime, amc = (replace(g, problem=replace(g.problem, source=name)) for g, name in ((aime, "aime24"), (amc, "amc")))
    table = problem_table(measured([aime, amc], ["textual"]))
    assert table.problems == ["aime24/60", "amc/60"] and table.columns["textual"].tolist() == [1, 0]


def test_a_response_alone_has_no_diversity_and_a_problem_that_of_its_other_groups():
    alone, pair = group("a", ["u v"], step=1), group("a", ["u v", "x y"], step=2)
    table = problem_table(measured([alone, pair, group("b", ["u"])], ["textual"]))
    assert table.columns["textual"].tolist() == pytest.approx([1, np.nan], nan_ok=True)
    assert summary(table)["textual"].mean == 1 and table.columns["words"].tolist() == [2, 1]
    assert "textual" not in summary(problem_table(measured([alone], ["textual"])))


def with_solutions(of, solutions):
    return of.with_each(solution=solutions)


def test_correct_pairs_by_hand():
    """Solutions x x y: 1 of 3 pairs is alike. Formulas of the same responses: $1$, $1$ and $2$, so 1 of 3 too; of the
    words of a group without a formula, the textual dissimilarity of the pair."""
    outcomes = [1.0, 1.0, 1.0, 0.0, None]
    texts = ["so $1$", "thus $1$", "thus $2$", "$3$", "$4$"]
    bare = group("a", texts, outcomes)
    assert pair_values(correct_of(bare, 0.5)) == pytest.approx(
        {"pair_diversity": np.nan, "pair_diversity:formulas": 2 / 3, "pair_diversity:textual": np.nan}, nan_ok=True
    )
    keyed = with_solutions(bare, ["x", "y", "x", None, None])
    assert pair_values(correct_of(keyed, 0.5))["pair_diversity"] == pytest.approx(2 / 3)
    assert np.isnan(pair_values(correct_of(keyed, 0.5))["pair_diversity:formulas"])
    words = group("w", ["a b c d e", "a b c d f", "g"], [1.0, 1.0, 0.0])
    found = pair_values(correct_of(words, 0.5))
    assert found["pair_diversity:textual"] == pytest.approx(textual_diversity(words.responses[:2]).mean())
    assert np.isnan([found["pair_diversity"], found["pair_diversity:formulas"]]).all()


def test_one_correct_response_is_no_pair_and_not_0():
    for of in (group("a", ["$1$", "$2$"], [1.0, 0.0]), group("a", ["$1$", "$2$"])):
        assert np.isnan([*pair_values(correct_of(of, 0.5)).values()]).all()
        assert not any(name in summary(problem_table(measured([of], ["textual"]))) for name in PAIR_KINDS)


def test_the_table_says_over_how_many_problems_correct_pairs_are_known():
    """a: x y, so 1, and at another step x x, so 0; b: x x y, so 2/3; c has one correct response."""
    groups = [
        with_solutions(group("a", ["$1$", "$2$"], [1.0, 1.0], step=1), ["x", "y"]),
        with_solutions(group("a", ["$1$", "$2$"], [1.0, 1.0], step=2), ["x", "x"]),
        with_solutions(group("b", ["$1$", "$2$", "$3$"], [1.0, 1.0, 1.0]), ["x", "x", "y"]),
        with_solutions(group("c", ["$1$", "$2$"], [1.0, 0.0]), ["x", None]),
        group("d", ["$1$", "$2$"], [1.0, 1.0]),  # by its formulas, as fewer problems are
    ]
    (record,) = table_of({"mine": problem_table(measured(groups, ["textual"]))}).records()
    assert record["pair_diversity"] == pytest.approx((1 / 2 + 2 / 3) / 2) and record["pair_diversity_problems"] == 2
    assert record["pair_diversity_effective"] == pytest.approx(1 / (1 - 7 / 12))
    assert "pair_diversity:formulas" not in record
    header = table_of({"mine": problem_table(measured(groups, ["textual"]))}).text()[0]
    assert header[-3:] == ["correct pairs distinct", "problems with such pairs", "effective solutions"]


def test_an_interval_ends_where_a_value_can_lie():
    """Student's interval of 0 and 1 is 0.5 +- 12.7 * 0.5."""
    table = problem_table(measured([group("a", ["u v", "x y"]), group("b", ["u", "u"])], ["textual", "equational"]))
    assert summary(table)["textual"] == (0.5, 0, 1) and summary(table)["equational"] == (0, 0, 0)
    assert summary(table)["words"].low == 0 and summary(table)["words"].high == pytest.approx(
        1.5 + 12.7062 * 0.5, abs=1e-4
    )
    one = summary(problem_table(measured([B], ["textual"])))["textual"]
    assert one.mean == 0 and np.isnan(one.low) and np.isnan(one.high)


def test_the_summary_has_intervals_over_problems_and_no_empty_columns():
    table = problem_table(measured([A, B, group("c", ["u", "v"])], ["textual"]), ks=(1, 9))
    found = summary(table)
    assert set(found) == {"textual", "pass@1", "pair_diversity:textual", "words"}  # no group has 9
    assert found["textual"].mean == pytest.approx(table.columns["textual"].mean())
    assert found["textual"].low <= found["textual"].mean <= found["textual"].high
    assert found["pass@1"].mean == pytest.approx(1 / 3)  # of the two problems whose outcomes are known
