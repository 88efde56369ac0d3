"""The methods that ask which responses are the same, and DAPO: by hand, from the papers' formulas."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_methods_by_hand import advantages, decode, trained

import diver
from contrib_methods.outcome_based import answer_tokens
from diver.core.types import DiverError, Group, Problem, Reward, Rollout
from diver.grading import verify, with_keys
from diver.losses import ClipLoss
from diver.methods import method_named

CON, MEAN = (method_named(name, mask_answer=False) for name in ("outcome-ucb-con", "outcome-ucb-mean"))


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


# --- uniqueness-aware; of two correct in four GRPO's advantages are 1 and -1


def test_uniqueness_aware_by_hand():
    close(advantages("uniqueness-aware", [1, 1, 0, 0], keys="abcc"), [1, 1, -1 / 2, -1 / 2])
    close(advantages("uniqueness-aware", [1, 1, 1, 0, 0, 0], keys="aabccc"), [1 / 2, 1 / 2, 1, *[-1 / 3] * 3])
    root = method_named("uniqueness-aware", alpha=0.5)
    close(advantages(root, [1, 1, 0, 0], keys="aacd"), [2**-0.5, 2**-0.5, -1, -1])
    close(advantages(method_named("uniqueness-aware", alpha=0), [1, 1, 0, 0], keys="aacc"), [1, 1, -1, -1])
    assert advantages("uniqueness-aware", [1, 1, 1], keys="aab").tolist() == [0] * 3


# --- Poly-EPO


def poly_epo(k, outcomes, keys):
    return advantages(method_named("poly-epo", k=k), outcomes, keys=keys)


def test_poly_epo_by_hand():
    # pairs 01, 02, 12 are worth 1/2, 1/4, 0: their mean is 1/4, those of each response 3/8, 1/4, 1/8
    close(poly_epo(2, [1, 0, 0], "aba"), [1 / 8, 0, -1 / 8])
    # without an answer in the second: 1/4, 1/4, 0, mean 1/6
    close(poly_epo(2, [1, 0, 0], ["a", "", "a"]), [1 / 12, -1 / 24, -1 / 24])
    # three that are correct and the same are worth 1/3, two of them and the wrong one 2/3 of 2/3
    close(poly_epo(3, [1, 1, 1, 0], "aaab"), [*[-1 / 108] * 3, 1 / 36])
    assert poly_epo(3, [0, 0, 0, 0], "abcd").tolist() == [0] * 4
    assert poly_epo(4, [1] * 7, "aaaaaaa").tolist() == [0] * 7


@given(st.lists(st.tuples(st.sampled_from([0, 0.5, 1]), st.sampled_from(["", *"abcd"])), min_size=3, max_size=9))
def test_poly_epo_is_the_mean_over_all_sets(responses):
    for k in range(2, len(responses)):
        sets = [*combinations(range(len(responses)), k)]
        rows = [[responses[i] for i in members] for members in sets]
        values = [sum(r for r, _ in row) / k * len({key for _, key in row} - {""}) / k for row in rows]
        of_each = [[v for v, s in zip(values, sets, strict=True) if i in s] for i in range(len(responses))]
        expected = [np.mean(of_one) - np.mean(values) for of_one in of_each]
        close(poly_epo(k, [r for r, _ in responses], [key for _, key in responses]), expected)


def test_what_poly_epo_refuses():
    with pytest.raises(DiverError, match="method.k is 4 with G = 4: k must be below G, or no group has a signal"):
        poly_epo(4, [1, 0, 0, 0], "abcd")
    with pytest.raises(DiverError, match="rollout 1 has the outcome -1; give one from 0"):
        poly_epo(2, [1, -1, 0], "abc")
    with pytest.raises(DiverError, match="needs keys"):
        diver.advantages([""] * 3, [1, 0, 0], [0] * 3, method_named("poly-epo", k=2))


# --- outcome-based exploration; of two correct in four GRPO's advantages are 1 and -1


def test_a_response_that_was_cut_or_never_left_its_thought_has_no_key():
    """Whatever number stands in it: that of the correct ones, 18, too."""
    texts = [r"so \boxed{18}", "3 * 6 = 18 and then", r"<think> maybe \boxed{18}", r"\boxed{17}"]
    rollouts = tuple(Rollout(text, truncated=i in (1, 2)) for i, text in enumerate(texts))
    (group,) = with_keys(verify([Group(Problem("p", "Q", "18", verifier="math"), rollouts)]))
    assert [r.grade for r in group.rollouts] == ["correct", "truncated", "truncated", "wrong"]
    assert [r.key for r in group.rollouts] == ["18", "", "", "17"]


def test_outcome_batch_by_hand():
    # b = -(0, 0, 1, 1) / 4, then -(1, 1, 1, 1) / 4
    close(advantages("outcome-batch", [1, 1, 0, 0], keys="abcc"), [1, 1, -1.05, -1.05])
    close(advantages("outcome-batch", [1, 1, 0, 0], keys="aacc"), [0.95, 0.95, -1.05, -1.05])
    close(advantages("outcome-batch", [0, 0, 0, 0], keys="cccd"), [-0.1, -0.1, -0.1, 0])
    close(advantages(method_named("outcome-batch", coef=2), [0, 0, 0, 0], keys="cccd"), [-1, -1, -1, 0])


def test_outcome_ucb_con_by_hand():
    # N = 4, 0, 16, 1: b = 1/2, 1, 1/4, 1, less 1/2
    counts = {"p": {"a": 4, "c": 16, "d": 1}, "q": {"b": 100}}
    found = advantages(CON, [1, 1, 0, 0], keys="abcd", state={"counts": counts})
    close(found, [1, 1 + 0.2 * 0.5, -1 - 0.2 * 0.25, -1 + 0.2 * 0.5])
    harder = method_named("outcome-ucb-con", mask_answer=False, baseline=1, coef=1)
    close(advantages(harder, [0, 0, 0, 0], keys="abcd", state={"counts": counts | {"p": {"a": 4}}}), [-0.5, 0, 0, 0])


def test_outcome_ucb_mean_by_hand():
    # b = 1/2, 1, 1/4, 1; the means of the others are 9/12, 7/12, 10/12, 7/12
    state = {"counts": {"p": {"a": 4, "c": 16, "d": 1}}}
    found = advantages(MEAN, [1, 1, 0, 0], keys="abcd", state=state)
    close(found, [1 - 0.2 * 3 / 12, 1 + 0.2 * 5 / 12, -1 - 0.2 * 7 / 12, -1 + 0.2 * 5 / 12])


@pytest.mark.parametrize("method", [method_named("outcome-batch"), CON, MEAN], ids=lambda m: m.name)
def test_a_group_all_correct_is_not_explored(method):
    state = {"counts": {"p": {"a": 9}}}
    assert advantages(method, [1, 1, 1, 1], keys="aaab", state=state).tolist() == [0] * 4


def test_counts_are_those_of_the_steps_before():
    state = {}
    first = advantages(CON, [0, 0, 0, 0], keys="aaab", state=state)
    close(first, [0.1] * 4)  # none was there before: b = 1 of all
    assert state == {"counts": {"p": {"a": 3, "b": 1}}}
    second = advantages(CON, [1, 0, 0, 0], keys="bccc", state=state)
    close(second - advantages("grpo", [1, 0, 0, 0]), [0.1] * 4)
    assert state == {"counts": {"p": {"a": 3, "b": 2, "c": 3}}}
    close(advantages(CON, [0, 0, 0, 0], keys="abcd", state=state), 0.2 * (np.array([3, 2, 3, 1]) ** -0.5 - 0.5))


def test_a_problem_twice_in_a_step_is_counted_after_both():
    rollouts = tuple(Rollout("", key=key, reward=Reward(0.0)) for key in "ab")
    state = {}
    both = CON.apply([Group(Problem("p", "?", ""), rollouts)] * 2, 0.0, state=state)
    assert both[0].advantages.tolist() == both[1].advantages.tolist() == [0.1, 0.1]
    assert state["counts"] == {"p": {"a": 2, "b": 2}}


def test_the_tokens_of_the_answer_have_grpos_advantage():
    texts = [r"so \boxed{ 24 }.", r"no \boxed{1} \boxed{\frac{1}{2}} it is", r"\boxed{3", "five"]
    group = trained("outcome-ucb-con", [1, 0, 0, 0], keys="abcd", texts=texts, state={"counts": {"p": {"d": 16}}})
    grpo = advantages("grpo", [1, 0, 0, 0])
    explored = [0.1, 0.1, 0.1, -0.05]
    answers = [(3, 15), (13, 32), (0, 8), (0, 0)]
    for text, a, e, rollout, (start, end) in zip(texts, grpo, explored, group.rollouts, answers, strict=True):
        expected = np.full(len(text), a + e)
        expected[start:end] = a
        close(rollout.token_advantages, expected)
        assert rollout.advantage == pytest.approx(expected.mean())
    answer = [text[start:end] for text, (start, end) in zip(texts, answers, strict=True)]
    assert answer == [r"\boxed{ 24 }", r"\boxed{\frac{1}{2}}", r"\boxed{3", ""]


@pytest.mark.parametrize(
    ("pieces", "answer"),
    [
        (["so ", r"\boxed{", " 24", " }", "."], [0, 1, 1, 1, 0]),
        (["so \\", "boxed", "{2", "4}. It", " is"], [1, 1, 1, 1, 0]),
        (["x "] * 100 + ["a \\", "box", "ed{", "5", "} b"] + [" y"] * 100, [0] * 100 + [1] * 5 + [0] * 100),
    ],
)
def test_a_token_that_has_a_part_of_the_answer_is_one_of_its_own(pieces, answer):
    found = answer_tokens(range(len(pieces)), lambda ids: "".join(pieces[i] for i in ids))
    assert found.tolist() == [bool(a) for a in answer]


@given(st.text(), st.text("ab12{} é", max_size=50), st.text())
def test_the_answer_of_any_text(before, content, after):
    """Tokens are bytes, so a prefix of them may end inside a character."""
    before, after = (t.encode("utf-8", "replace").decode().replace("\\", "") for t in (before, after))
    depth = np.cumsum([{"{": 1, "}": -1}.get(c, 0) for c in content])
    content = "" if depth.size and (depth.min() < 0 or depth[-1]) else content
    parts = [part.encode() for part in (before, rf"\boxed{{{content}}}", after)]
    expected = [i == 1 for i, part in enumerate(parts) for _ in part]
    assert answer_tokens(b"".join(parts), decode).tolist() == expected


def test_the_mask_needs_a_decoder():
    with pytest.raises(
        DiverError, match="'outcome-ucb-con' needs decode, which diver.advantages without `decode` does"
    ):
        diver.advantages(["a", "b"], [1, 0], [0, 0], "outcome-ucb-con", tokens=[[1], [2]], keys=["a", "b"], state={})
    rows = diver.advantages(
        ["a", "b"],
        [1, 0],
        ["p", "p"],
        "outcome-ucb-con",
        tokens=[[97], [98, 98]],
        keys=["a", "b"],
        state={},
        decode=decode,
    )
    close(rows[0], [1.1])
    close(rows[1], [-0.9, -0.9])


# --- DARLING


def test_darling_by_hand():
    # classes of 2, 2, 1, 1 in four: d = 2/3, 2/3, 1, 1; r' = 2/3, 2/3, 1, 0 with the mean 7/12
    done = trained("darling", [1, 1, 1, 0], keys="aabc")
    close(done.rewards, [2 / 3, 2 / 3, 1, 0])
    close(done.advantages, [1 / 12, 1 / 12, 5 / 12, -7 / 12])
    assert done.outcomes.tolist() == [1, 1, 1, 0]


def test_in_darling_a_wrong_response_counts_in_the_class_and_the_reward_has_a_floor():
    # 3 of 4 are one class: d = 1/3; with all in one, d is 0.1 and not 0
    close(trained("darling", [1, 0, 0, 1], keys="aaab").rewards, [1 / 3, 0, 0, 1])
    close(trained("darling", [1, 0, 0, 0], keys="aaaa").rewards, [0.1, 0, 0, 0])
    close(trained(method_named("darling", floor=0), [1, 0, 0, 0], keys="aaaa").rewards, [0, 0, 0, 0])
    assert advantages("darling", [1, 1, 1, 1], keys="aaaa").tolist() == [0] * 4
    assert advantages("darling", [0, 0, 0, 0], keys="abcd").tolist() == [0] * 4


def test_darling_with_a_classifier_of_pairs():
    # 1-2 and 2-3 share a letter, so 1, 2 and 3 are one class: d = 1/3, 1/3, 1/3, 1
    method = method_named("darling", same="own_methods:share_a_letter")
    assert method.needs == {"responses"}
    done = trained(method, [1, 1, 1, 1], keys="abcd", texts=["ab", "bc", "cd", "xy"])
    close(done.rewards, [1 / 3, 1 / 3, 1 / 3, 1])
    chained = trained(method, [1, 1, 1, 1], texts=["ab", "cd", "xy", "bc"])  # 4 joins 1 and 2
    close(chained.rewards, [1 / 3, 1 / 3, 1, 1 / 3])
    with pytest.raises(DiverError, match=r"method.same 'math:sqrt', problem '.*': TypeError: .*one argument"):
        trained(method_named("darling", same="math:sqrt"), [1, 1], texts=["ab", "cd"])


def test_the_classifier_of_darling_sees_the_text_within_the_horizon():
    """A token is a letter. All three share the last one, which is beyond two tokens: then each is a class, d = 1."""
    rollouts = tuple(Rollout(t, tokens=[*map(ord, t)], reward=Reward(1.0)) for t in ("abz", "cdz", "xyz"))
    for horizon, d in ((None, 0.1), (2, 1.0)):
        method = method_named("darling", same="own_methods:share_a_letter", diversity={"horizon": horizon})
        (done,) = method.apply([Group(Problem("p", "", ""), rollouts)], 0.0, lambda ids: "".join(map(chr, ids)))
        close(done.rewards, [d] * 3)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("darling", {"same": "own_methods:absent"}, "method.same: 'own_methods:absent' cannot be imported"),
        ("darling", {"same": "own_methods:__doc__"}, "method.same: 'own_methods:__doc__' is not a function of two"),
        ("darling", {"floor": 2}, "method.floor: must be between 0 and 1, not 2"),
        ("outcome-batch", {"coef": -1}, "method.coef: must be at least 0, not -1"),
    ],
)
def test_settings_out_of_range(name, settings, message):
    with pytest.raises(DiverError) as error:
        method_named(name, **settings)
    assert message in str(error.value)


# --- DAPO


def sampled(outcomes, lengths):
    rows = zip(outcomes, lengths, strict=True)
    return Group(Problem("p", "?", ""), tuple(Rollout("", num_tokens=n, reward=Reward(r)) for r, n in rows))


def test_dapo_by_hand():
    # with a limit of 100 the penalty begins at 80: the source's rewards are 1, 1 - 1/2, -1 - 1, -1
    method = method_named("dapo").limited(100)
    (done,) = method.apply([sampled([1, 1, 0, 0], [80, 90, 120, 10])], 0.0)
    r = np.array([1, 0.5, -2, -1])
    close(done.advantages, (r - r.mean()) / r.std())
    assert done.outcomes.tolist() == [1, 1, 0, 0]


def test_dapo_leaves_out_groups_by_their_outcome_not_by_their_reward():
    method = method_named("dapo").limited(100)
    groups = [sampled([1, 1], [100, 10]), sampled([0, 0], [100, 10]), sampled([1, 0], [10, 10])]
    assert [group.advantages.tolist() for group in method.apply(groups, 0.0)] == [[1, -1]]


def test_dapo_is_clip_higher_with_the_two():
    method = method_named("dapo")
    assert method.loss == ClipLoss(clip_low=0.2, clip_high=0.28) and method.loss.aggregation == "token-mean"
    assert (method.selection.filter_groups, method.selection.max_num_gen_batches) == (True, 10)
    assert (method.overlong.buffer, method.overlong.penalty) == (0.2, 0.5)  # 4,096 of 20,480; 1 of 1 and -1


# --- what holds for all


BOTH = st.lists(st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from("abc")), min_size=4, max_size=10)


@given(BOTH, st.randoms())
@pytest.mark.parametrize("method", [method_named("darling"), method_named("outcome-batch"), CON, MEAN], ids=str)
def test_the_mean_is_0_where_it_is_declared_and_the_order_does_not_matter(method, rows, random):
    state = {"counts": {"p": {"a": 7, "b": 2}}}

    def found(rows):
        outcomes, keys = zip(*rows, strict=True)
        copied = {"counts": {"p": dict(state["counts"]["p"])}}
        return advantages(method, list(outcomes), keys=keys, state=copied)

    whole = found(rows)
    assert method.zero_mean == (method.name in ("darling", "outcome-ucb-mean"))
    if method.zero_mean:
        assert abs(whole.sum()) < 1e-9
    order = random.sample(range(len(rows)), len(rows))
    close(found([rows[i] for i in order]), whole[order])


@given(BOTH)
@pytest.mark.parametrize("name", ["outcome-batch", "outcome-ucb-con", "outcome-ucb-mean"])
def test_the_bonus_is_added_to_the_advantage_in_proportion_to_its_coefficient(name, rows):
    outcomes, keys = zip(*rows, strict=True)
    methods = [method_named(name, mask_answer=False, coef=coef) for coef in (0, 0.2, 0.4)]
    grpo, once, twice = (
        advantages(method, list(outcomes), keys=keys, state={"counts": {"p": {"a": 5}}}) for method in methods
    )
    close(grpo, advantages("clip-higher", list(outcomes)))
    close(twice - grpo, 2 * (once - grpo))


def test_what_is_not_given_to_apply_is_named():
    """Without keys every response would be the same answer, and without the run's state nothing would be counted."""
    group = Group(Problem("p", "?", ""), (Rollout("a", tokens=[97], reward=Reward(1.0), key="a"),) * 2)
    with pytest.raises(DiverError, match="method 'outcome-ucb-con' counts over the run: give the same `state`"):
        CON.apply([group], 0.0)
    assert CON.apply([group], 0.0, state={})
    for name in ("darling", "outcome-batch"):
        assert method_named(name).apply([group], 0.0)
        with pytest.raises(DiverError, match="problem 'p': every rollout needs a key: diver.grading.with_keys"):
            method_named(name).apply([group.with_each(key=["a", None])], 0.0)


def test_what_they_ask_for():
    assert method_named("darling").needs == method_named("outcome-batch").needs == {"keys"}
    assert CON.needs == MEAN.needs == {"keys", "state"} and not CON.per_token
    asked = method_named("outcome-ucb-con")
    assert asked.needs == {"keys", "state", "tokens", "decode"} and asked.per_token
    assert not method_named("outcome-ucb-mean").zero_mean
