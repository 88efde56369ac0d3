import dataclasses
import json
import math

import numpy as np
import pytest
from by_hand import KNOWN
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import zscore

from diver.core.types import DiverError, Group, Problem, Progress, Reward, Rollout
from diver.losses import ClipCovLoss, ClipLoss, HighEntropyLoss, KlCovLoss
from diver.methods import METHODS, Method, Selection, check_needs, method_named
from diver.methods.diver import DiverMix, DiversityReward, Schedule, Shaping
from diver.methods.grpo import Grpo
from diver.methods.pass_at_k import PassAtK

# The first two are the same; the third shares no pair of words with them, and its formula is its own.
# TD: (0 + 1) / 2, (1 + 0) / 2, (1 + 1) / 2. ED: 0, 0, 1.
SAME = r"we add \( a + b = c \)"
OTHER = r"rather multiply $ d * e = f $ now"
TD, ED = [0.5, 0.5, 1.0], [0.0, 0.0, 1.0]


def group(outcomes, responses=(SAME, SAME, OTHER), tokens=None, name="p"):
    rewards = [None if r is None else Reward(r) for r in outcomes]
    tokens = tokens or [None] * len(outcomes)
    rows = zip(responses, rewards, tokens, strict=True)
    return Group(Problem(name, "?", "1"), tuple(Rollout(response=o, reward=r, tokens=t) for o, r, t in rows))


def apply(method, group, progress=0.0):
    return method.apply([group], progress)[0]


# --- names are the paper's settings


def test_a_name_and_nothing_else_is_the_papers_setting():
    mix = method_named("diver-mix")
    assert mix == DiverMix()
    assert mix.diversity_rewards == {"textual": DiversityReward(), "equational": DiversityReward()}
    assert mix.combine == "mean"
    assert (mix.shaping.coef, mix.shaping.clip_max, mix.shaping.discount) == (0.1, 0.65, 1.0)
    assert mix.shaping.schedule == Schedule(kind="cosine", start=0, end=1, unit="run", final=0)
    assert mix.loss == ClipLoss(clip_low=0.2, clip_high=0.28, kl_coef=0.0, entropy_coef=0.0)
    assert mix.loss.aggregation == "token-mean" and mix.divisor == "std"
    assert dict(method_named("diver-td").diversity_rewards) == {"textual": DiversityReward()}
    assert dict(method_named("diver-ed").diversity_rewards) == {"equational": DiversityReward()}
    assert method_named("clip-higher").loss == ClipLoss() == ClipLoss(clip_low=0.2, clip_high=0.28)
    assert method_named("grpo").loss == ClipLoss(clip_low=0.2, clip_high=0.2)
    assert method_named("pass-at-k") == PassAtK(k=4, form="analytic", sets=None, loss=ClipLoss())
    assert method_named("clip-cov") == Grpo(
        name="clip-cov", loss=ClipCovLoss(clip_low=1.0, clip_high=1.0, fraction=2e-4, low=1.0, high=5.0)
    )
    assert method_named("kl-cov") == Grpo(name="kl-cov", loss=KlCovLoss(fraction=2e-3, coef=1.0))
    assert method_named("entropy-bonus").loss == ClipLoss(entropy_coef=0.001)
    assert method_named("high-entropy").loss == HighEntropyLoss(top_entropy_fraction=0.2)
    not_centred = {name for name in KNOWN if not method_named(name).zero_mean}
    assert not_centred == {
        *("pkpo", "difficulty-weight", "w-reinforce", "psr", "nsr", "xrpo", "ds-grpo", "qae"),
        *("uniqueness-aware", "outcome-batch", "outcome-ucb-con", "outcome-ucb-mean", "gigpo"),
    }
    assert not method_named("ucpo", overlong={"buffer": 0.5}).zero_mean  # sum |A| of up to 0.06 in random groups


@pytest.mark.parametrize("name", METHODS)
def test_the_resolved_settings_of_every_method_read_back(name):
    method = method_named(name)
    assert method.name == name
    assert method_named(**json.loads(json.dumps(dataclasses.asdict(method)))) == method


def test_overrides_are_merged_key_by_key():
    method = method_named(
        "diver-mix",
        shaping={"coef": 1, "schedule": {"kind": "linear"}},
        diversity_rewards={"textual": {"clip_max": 0.9}},
    )
    assert method.shaping == Shaping(coef=1.0, schedule=Schedule(kind="linear"))
    assert method.diversity_rewards == {"textual": DiversityReward(clip_max=0.9), "equational": DiversityReward()}
    assert method_named("grpo", loss={"kl_coef": 0.01}).loss == ClipLoss(clip_low=0.2, clip_high=0.2, kl_coef=0.01)
    assert method_named("diver-td", shaping=Shaping(coef=0.3)).shaping.coef == 0.3
    # another loss begins with its own settings, not with those of the method's
    assert method_named("grpo", loss={"name": "kl-cov", "coef": 2}).loss == KlCovLoss(coef=2.0)
    assert method_named("clip-cov", loss={"name": "clip"}).loss == ClipLoss()


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        (
            "diver-mx",
            {},
            "method.name: unknown choice 'diver-mx', did you mean 'diver-mix'?",
        ),
        ("diver-td", {"shapin": {}}, "method.shapin: unknown key, did you mean 'shaping'?"),
        (
            "grpo",
            {"shaping": {}},
            "method.shaping: grpo has no shaping; diver-mix, diver-td, diver-ed have one",
        ),
        (
            "pass-at-k",
            {"divisor": "sample-std"},
            "method.divisor: pass-at-k has no divisor; grpo, clip-higher, dapo have one",
        ),
        (
            "diver-td",
            {"shaping": {"coeff": 1}},
            "method.shaping.coeff: unknown key, did you mean 'coef'? choices: coef",
        ),
        (
            "diver-td",
            {"diversity_rewards": {"textual": {"weigth": 1}}},
            "method.diversity_rewards.textual.weigth: unknown key, did you mean 'weight'",
        ),
        ("diver-ed", {"shaping": {"schedule": {"kind": "cos"}}}, "method.shaping.schedule.kind: should be 'constant'"),
        ("diver-ed", {"shaping": {"coef": "0.1"}}, "method.shaping.coef: should be a valid number, not '0.1'"),
        ("diver-ed", {"shaping": {"coef": math.nan}}, "method.shaping.coef: should be a finite number, not nan"),
        ("diver-ed", {"shaping": {"coef": -1}}, "method.shaping.coef: must be at least 0, not -1"),
        ("diver-ed", {"shaping": 3}, "method.shaping: should be a table, not 3"),
        (
            "pass-at-k",
            {"diversity_rewards": {"textual": {}}},
            "method.diversity_rewards: pass-at-k has no diversity_rewards; diver-mix",
        ),
        ("pass-at-k", {"k": 0}, "method.k: must be at least 1, not 0"),
        ("pass-at-k", {"sets": 0}, "method.sets: must be at least 1, not 0"),
        ("pass-at-k", {"sets": 4}, "method: sets would have no effect: form = 'analytic'"),
        ("grpo", {"threshold": 0.0}, "method.threshold: must be above 0, the outcome of a wrong response, not 0"),
        (
            "grpo",
            {"selection": {"samples": 4}},
            "method.selection: samples would have no effect: keep is 'all'; choose 'most' or 'least'",
        ),
        (
            "grpo",
            {"selection": {"max_num_gen_batches": 3}},
            "method.selection: max_num_gen_batches would have no effect: no group is left out; set filter_groups",
        ),
        (
            "grpo",
            {"overlong": {"penalty": 1.0, "max_tokens": 40}},
            "method.overlong: penalty, max_tokens would have no effect: buffer is 0; give one, such as 0.2",
        ),
        (
            "diver-mix",
            {"shaping": {"length_limit": 40}},
            "method.shaping: length_limit would have no effect: condition is not 'all-length-penalty'",
        ),
        (
            "diver-mix",
            {"shaping": {"schedule": {"kind": "constant", "start": 0.5, "final": 0.1}}},
            "method.shaping.schedule: start, final would have no effect: kind is 'constant'",
        ),
        ("difficulty-weight", {"low": 2.0}, "method: low and high must be 0 <= low <= high, not 2.0 and 1.5"),
        ("difficulty-weight", {"steepness": -1.0}, "method.steepness: must be at least 0, not -1"),
        ("pass-at-k", {"selection": {"outcomes": "wrong"}}, "method: selection.outcomes leaves groups of fewer than k"),
        ("max-at-k", {"selection": {"outcomes": "wrong"}}, "method: selection.outcomes leaves groups of fewer than k"),
        ("max-at-k", {"k": 1}, "method.k: must be at least 2, not 1"),
        ("poly-epo", {"selection": {"outcomes": "wrong"}}, "method: selection.outcomes leaves groups of fewer than k"),
        ("poly-epo", {"overlong": {"buffer": 0.5}}, "poly-epo has advantages of outcomes alone"),
        ("poly-epo", {"k": 1}, "method.k: must be at least 2, not 1"),
        ("qae", {"quantile": 1.0}, "method.quantile: must be above 0 and below 1, not 1"),
        ("uniqueness-aware", {"alpha": 1.5}, "method.alpha: must be between 0 and 1, not 1.5"),
        ("sapo", {"loss": {"tau_negative": 0}}, "method.loss.tau_negative: must be above 0, not 0"),
        ("dppo", {"loss": {"delta": 0}}, "method.loss.delta: must be above 0, not 0"),
        ("dppo", {"loss": {"max_ratio": 1}}, "method.loss.max_ratio: must be above 1, not 1"),
        ("pkpo", {"selection": {"outcomes": "correct"}}, "method: selection.outcomes leaves groups of fewer than k"),
        (
            "outcome-batch",
            {"divisor": "mean", "overlong": {"buffer": 0.5}},
            "method: divisor = 'mean' needs rewards of at least 0; the penalty of `overlong` is negative",
        ),
        ("evol-rl", {"divisor": "mean"}, "method: divisor = 'mean' needs rewards of at least 0"),
        ("pass-at-k", {"form": "exact"}, "method.form: should be 'analytic' or 'bootstrap'"),
        ("grpo", {"selection": {"samples": 0}}, "method.selection.samples: must be at least 1, not 0"),
        ("grpo", {"loss": {"clip_low": 2}}, "method.loss.clip_low: must be between 0 and 1, not 2"),
        (
            "high-entropy",
            {"loss": {"top_entropy_fraction": 0}},
            "method.loss.top_entropy_fraction: must be above 0 and at most 1, not 0",
        ),
        ("kl-cov", {"loss": {"clip_low": 0.2}}, "method.loss.clip_low: unknown key"),
        (
            "grpo",
            {"loss": {"name": "cov"}},
            "method.loss.name: unknown choice 'cov', did you mean 'kl-cov'? choices: clip, high-entropy, clip-cov",
        ),
        ("clip-cov", {"loss": {"fraction": 0}}, "method.loss.fraction: must be above 0 and at most 1, not 0"),
        ("clip-cov", {"loss": {"low": 5}}, "low must be below high, not low = 5.0, high = 5.0"),
        ("kl-cov", {"loss": {"fraction": 2}}, "method.loss.fraction: must be above 0 and at most 1, not 2"),
        ("kl-cov", {"loss": {"coef": -1}}, "method.loss.coef: must be at least 0, not -1"),
        ("entropy-advantage", {"loss": {"alpha": -1}}, "method.loss.alpha: must be at least 0, not -1"),
        (
            "entropy-advantage",
            {"loss": {"kappa": 1}},
            "method.loss: kappa must be above 1, not 1.0: a negative advantage",
        ),
        ("grpo", {"tolerance": -1}, "method.tolerance: must be at least 0, not -1"),
        (
            "diver-td",
            {"diversity_rewards": {"textual": {"weight": 0}}},
            "method: diversity_rewards: at least one weight must be above 0",
        ),
        (
            "diver-td",
            {"diversity_rewards": {"textul": {}}},
            "diversity metric: unknown choice 'textul', did you mean 'textual'?",
        ),
        ("no_such_module:Method", {}, "method.name: 'no_such_module:Method' cannot be imported (ModuleNotFoundError"),
        ("math:sqrt", {}, "method.name: 'math:sqrt' is not a subclass of Method decorated with @settings"),
        ("grpo", {"loss": {"name": "math:sqrt"}}, "method.loss.name: 'math:sqrt' is not a subclass of PolicyLoss"),
    ],
)
def test_bad_settings_name_their_dotted_key(name, overrides, message):
    with pytest.raises(DiverError) as error:
        method_named(name, **overrides)
    assert message in str(error.value) and "\n" not in str(error.value)


# --- apply: diversity, shaping, advantage


@pytest.mark.parametrize(
    ("name", "shaped"),
    [
        ("grpo", [1.0, 0.0, 1.0]),
        ("diver-td", [1.05, 0.0, 1.065]),  # 0.5, and 1 clipped to 0.65
        ("diver-ed", [1.0, 0.0, 1.065]),
        ("diver-mix", [1.025, 0.0, 1.065]),  # (0.5 + 0) / 2, (0.65 + 0.65) / 2
    ],
)
def test_rewards_and_advantages_by_hand(name, shaped):
    done = apply(method_named(name), group([1.0, 0.0, 1.0]))
    assert done.rewards == pytest.approx(shaped, abs=1e-15)
    assert done.outcomes.tolist() == [1, 0, 1]
    np.testing.assert_allclose(done.advantages, zscore(shaped), rtol=1e-12)
    # every method measures both diversities, whatever it rewards
    assert [r.diversity["textual"] for r in done.rollouts] == TD
    assert [r.diversity["equational"] for r in done.rollouts] == ED


def test_lambda_follows_the_schedule_and_ends_at_grpo():
    mix = method_named("diver-mix")
    half = apply(mix, group([1.0, 0.0, 1.0]), Progress(50, 100))
    assert half.rewards == pytest.approx([1.0125, 0.0, 1.0325], abs=1e-15)
    end = apply(mix, group([1.0, 0.0, 1.0]), Progress(100, 100))
    np.testing.assert_array_equal(end.advantages, apply(method_named("grpo"), group([1.0, 0.0, 1.0])).advantages)


@given(st.floats(1e-4, 100), st.floats(1e-4, 100))
def test_in_an_all_correct_group_the_advantage_does_not_depend_on_lambda(one, other):
    first, second = (
        apply(method_named("diver-mix", shaping={"coef": coef}), group([1.0, 1.0, 1.0])) for coef in (one, other)
    )
    np.testing.assert_allclose(first.advantages, second.advantages, atol=1e-8)
    np.testing.assert_allclose(first.advantages, zscore([0.25, 0.25, 0.65]), atol=1e-8)


def test_until_lambda_is_zero():
    none = apply(method_named("diver-mix", shaping={"coef": 0}), group([1.0, 1.0, 1.0]))
    assert none.advantages.tolist() == [0, 0, 0]
    assert none.rollouts[2].diversity == {"textual": 1.0, "equational": 1.0}


def test_pass_at_k_training_by_hand():
    """Of 3 pairs, 2 have the correct response: R = 2/3, s = sqrt(2)/3;
    the wrong ones are in a failed pair half the time."""
    a = apply(method_named("pass-at-k", k=2), group([1, 0, 0])).advantages
    np.testing.assert_allclose(a, np.array([1 / 3, -1 / 6, -1 / 6]) / (math.sqrt(2) / 3))
    assert apply(method_named("pass-at-k", k=2), group([1, 0, 1])).advantages.tolist() == [0, 0, 0]
    low = method_named("pass-at-k", k=2, threshold=0.1)
    assert apply(low, group([0.2, 0, 0])).advantages.tolist() == a.tolist()
    with pytest.raises(ValueError, match="k must be from 1 to the 3 responses"):
        apply(method_named("pass-at-k"), group([1, 0, 0]))


def test_the_bootstrap_of_a_problem_a_step_and_their_responses_is_always_the_same():
    method = method_named("pass-at-k", k=2, form="bootstrap", sets=2)

    def drawn(step, name="p", texts=("one", "two", "three")):
        return apply(method, group([1, 0, 0], texts, name=name), Progress(step, 100)).advantages.tolist()

    assert [drawn(step) for step in range(20)] == [drawn(step) for step in range(20)]
    assert len({tuple(drawn(step)) for step in range(20)}) > 1
    assert [drawn(step) for step in range(20)] != [drawn(step, "another") for step in range(20)]
    other_seed = [drawn(step, texts=("four", "five", "six")) for step in range(20)]
    assert [drawn(step) for step in range(20)] != other_seed


def test_in_an_all_wrong_group_nothing_is_rewarded():
    done = apply(method_named("diver-mix"), group([0.0, 0.0, 0.0]))
    assert done.rewards.tolist() == done.advantages.tolist() == [0, 0, 0]


def test_gamma_and_the_length_penalty_use_policy_tokens():
    tokens = [range(0), range(1), range(2)]
    done = apply(method_named("diver-td", shaping={"discount": 0.5}), group([1.0] * 3, tokens=tokens))
    # 0.5^0 * 0.5, 0.5^1 * 0.5, 0.5^2 * 1
    assert done.rewards == pytest.approx([1.05, 1.025, 1.025])
    penal = method_named("diver-td", shaping={"condition": "all-length-penalty", "length_limit": 2})
    done = apply(penal, group([1.0, 0.0, 0.0], tokens=tokens))
    assert [r.reward.length for r in done.rollouts] == pytest.approx([0, -0.0325, -0.065])
    assert done.rewards == pytest.approx([1.05, 0.0175, 0.0])
    with pytest.raises(ValueError, match="no policy tokens"):
        apply(penal, group([1.0, 0.0, 0.0]))


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_an_outcome_that_is_missing_or_not_finite_is_named(bad):
    with pytest.raises(ValueError, match=r"problem 'sum-7', rollout 1: the outcome is (nan|inf)"):
        apply(method_named("grpo"), group([1.0, bad, 0.0], name="sum-7"))


def test_a_group_of_one_has_neither_diversity_nor_advantage():
    done = apply(method_named("diver-td"), group([1.0], [SAME]))
    assert (done.rewards.tolist(), done.advantages.tolist()) == ([1.0], [0.0])


def test_groups_are_not_changed_and_keep_their_order():
    before = [group([1.0, 0.0, 1.0], name=name) for name in "ab"]
    after = method_named("diver-mix").apply(before, 0.0)
    assert [g.problem.id for g in after] == ["a", "b"]
    assert all(math.isnan(r.advantage) and not r.diversity for g in before for r in g.rollouts)
    again = method_named("diver-mix").apply(after, 0.0)
    assert [g.rewards.tolist() for g in again] == [g.rewards.tolist() for g in after]


# --- selection


def test_select_by_hand():
    scores = [{"textual": s, "equational": s} for s in (0.3, 0.9, 0.3, 0.1, 0.9, 0.3)]
    six = Group(Problem("p", "?", "1"), tuple(Rollout(str(i), diversity=d) for i, d in enumerate(scores)))
    assert np.flatnonzero(Selection(keep="most").select(six, 0.5)).tolist() == [0, 1, 4]
    assert np.flatnonzero(Selection(keep="least").select(six, 0.5)).tolist() == [0, 2, 3]


def test_the_kept_rollouts_have_advantages_over_themselves():
    words = ["a b c d", "a b c d", "e f g h", "i j k l"]  # TD 2/3, 2/3, 1, 1
    four = group([1.0, 0.0, 1.0, 0.0], words)
    most = apply(method_named("clip-higher", selection={"keep": "most"}), four)
    assert most.responses == words[2:] and most.advantages.tolist() == [1, -1]
    assert [r.diversity["textual"] for r in most.rollouts] == [1, 1]
    least = apply(method_named("clip-higher", selection={"keep": "least"}), group([1.0, 1.0, 0.0, 0.0], words))
    assert least.responses == words[:2] and least.advantages.tolist() == [0, 0]
    assert [r.diversity["textual"] for r in least.rollouts] == pytest.approx([2 / 3, 2 / 3])


def test_selection_needs_whole_multiples():
    assert (Selection().multiplier, Selection(keep="most", samples=3).multiplier) == (1, 3)
    with pytest.raises(ValueError, match="multiple of 2"):
        apply(method_named("grpo", selection={"keep": "most"}), group([1.0, 0.0, 1.0]))


# --- metrics


def test_metrics_by_hand():
    method = method_named("diver-mix")
    groups = method.apply([group([1.0, 0.0, 1.0]), group([1.0, 1.0, 1.0]), group([0.0, 0.0, 0.0])], 0.5)
    assert method.metrics(groups, 0.5) == pytest.approx(
        {
            "reward/outcome": 5 / 9,
            # lambda is 0.05: 0.0125 for each of the three correct SAME, 0.0325 for each of the two correct OTHER
            "reward/shaped": (5 + 3 * 0.0125 + 2 * 0.0325) / 9,
            # as below; 0 of the group none correct
            "advantage/abs_mean": (8**0.5 + 2.82802) / 9,
            "diversity/textual": 2 / 3,
            "diversity/equational": 1 / 3,
            "shaping/coef": 0.05,
            "shaping/clipped": 4 / 10,  # of 5 rewarded responses x 2 metrics, both of each correct OTHER
            "group/solve_all": 1 / 3,
            "group/solve_none": 1 / 3,
            # all correct, 1.0125 1.0125 1.0325: |A| sums to 2 sqrt 2; mixed, 1.0125 0 1.0325:
            # 1.36333 / 0.48208 = 2.82802
            "advantage/solve_all_frac": 8**0.5 / (8**0.5 + 2.82802),
        }
    )


def test_a_metric_of_weight_0_is_not_measured():
    """Its encoder, which is not there, is not loaded."""
    method = method_named("diver-mix", diversity_rewards={"embedding": {"weight": 0.0}})
    assert "embedding" not in method.metric_names and method.needs == method_named("diver-mix").needs
    made = Group(Problem("p", "", ""), tuple(Rollout(text, reward=Reward(1.0)) for text in ("a b", "c d", "a b")))
    assert [{*r.diversity} for r in method.apply([made], 0.0)[0].rollouts] == [{"textual", "equational"}] * 3


def test_a_steep_difficulty_weight_is_a_step():
    """Of three correct and one wrong p is 3/4, below .8: correct ones count high (1.5),
    wrong ones 1 - p, below it, too."""
    made = Group(Problem("p", "", ""), tuple(Rollout("x", reward=Reward(r)) for r in (1.0, 1.0, 1.0, 0.0)))
    plain = method_named("grpo").apply([made], 0.0)[0].advantages
    steep = method_named("difficulty-weight", steepness=1e6, midpoint=0.8).apply([made], 0.0)[0].advantages
    assert steep.tolist() == pytest.approx((1.5 * plain).tolist())
    usual = method_named("difficulty-weight", steepness=1e6, midpoint=0.1).apply([made], 0.0)[0].advantages
    assert usual.tolist() == pytest.approx((0.4 * plain).tolist())


def test_a_metric_of_weight_0_is_not_among_the_clipped_rewards():
    """Of TD alone: 1 of each correct OTHER, above 0.65, 0.24 of each correct SAME."""
    method = method_named("diver-mix", diversity_rewards={"equational": {"weight": 0.0}})
    groups = method.apply([group([1.0, 0.0, 1.0]), group([1.0, 1.0, 1.0])], 0.5)
    assert method.metrics(groups, 0.5)["shaping/clipped"] == 2 / 5


def test_metrics_of_a_method_without_a_diversity_reward():
    method = method_named("grpo")
    metrics = method.metrics(method.apply([group([1.0, 0.0, 1.0])], 0.0), 0.0)
    assert (metrics["shaping/coef"], metrics["shaping/clipped"]) == (0, 0)
    assert metrics["diversity/textual"] == pytest.approx(2 / 3)
    assert metrics["reward/shaped"] == metrics["reward/outcome"] == 2 / 3


def test_the_part_of_the_advantage_that_is_of_groups_all_correct():
    """Without a diversity reward such a group has A = 0; with no signal at all the part is 0, not unknown."""
    solved, mixed, failed = [group([1.0] * 3)], [group([1.0, 0.0, 1.0])], [group([0.0] * 3)]
    grpo, diver = method_named("grpo"), method_named("diver-mix")
    parts = [
        method.metrics(method.apply(groups, 0.5), 0.5)["advantage/solve_all_frac"]
        for method, groups in ((grpo, solved + mixed), (diver, solved), (diver, mixed), (diver, failed))
    ]
    assert parts == [0, 1, 0, 0]


def test_a_selection_makes_no_group_all_correct():
    """psr keeps the one correct response of the first: its group is not all correct.
    The second, all wrong, is left out."""
    mixed, failed, solved = group([0.0, 1.0, 0.0]), group([0.0] * 3, name="q"), group([1.0] * 3, name="r")
    psr, sampled = method_named("psr"), [mixed, failed, solved]
    metrics = psr.metrics(psr.shaped(sampled, 0.0), 0.0)
    assert metrics["advantage/solve_all_frac"] == 3 / 4 and metrics["group/solve_all"] == 1 / 3


def test_solve_rates_come_from_outcomes_never_from_the_shaped_reward():
    method = method_named("diver-td", shaping={"condition": "all", "coef": 5.0})
    done = method.apply([group([0.0, 0.0, 0.0])], 0.0)
    assert (done[0].rewards > 1).all()
    assert method.metrics(done, 0.0)["group/solve_none"] == 1


def test_with_a_selection_the_outcome_is_that_of_everything_sampled():
    method = method_named("clip-higher", selection={"keep": "most"})
    sampled = [group([1.0, 0.0, 1.0, 1.0], ["a b c d", "a b c d", "e f g h", "i j k l"])]
    metrics = method.metrics(method.shaped(sampled, 0.0), 0.0)
    assert (metrics["reward/outcome"], metrics["reward/shaped"], metrics["group/solve_all"]) == (0.75, 1.0, 0)
    with pytest.raises(ValueError, match="at least one"):
        method.metrics([], 0.0)


def test_groups_that_can_never_have_a_signal_are_refused():
    method_named("pass-at-k").check_group_size(5, "G")
    method_named("diver-mix").check_group_size(2, "G")
    with pytest.raises(DiverError, match="method.k is 4 with G = 4: k must be below G"):
        method_named("pass-at-k").check_group_size(4, "G")


def test_what_a_method_needs_depends_on_its_settings():
    assert method_named("grpo").needs == frozenset() and method_named("diver-td").needs == {"responses"}
    assert method_named("grpo", selection={"keep": "most"}).needs == {"responses"}
    on_tokens = method_named("diver-td", shaping={"discount": 0.9})
    policy = {"tokenize": "policy"}
    assert on_tokens.needs == method_named("diver-td", diversity=policy).needs == {"responses", "tokens"}
    assert method_named("diver-td", diversity={"horizon": 5}).needs == {"responses", "tokens", "decode"}
    assert method_named("grpo", diversity={"horizon": 5}).needs == {"tokens", "decode"}  # TD and ED are always measured
    check_needs(on_tokens, "an engine", ("responses", "tokens"))
    with pytest.raises(DiverError, match="method 'diver-td' needs tokens, which an engine does not provide"):
        check_needs(on_tokens, "an engine", ("responses",))


def test_a_method_without_advantages_says_so():
    with pytest.raises(TypeError, match="define advantages"):
        apply(Method(name="mine"), group([1.0, 0.0, 1.0]))
