import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import zscore

from diver.losses.objective import ClipCov, KlCov, Loss
from diver.methods import METHODS, Method, PassAtK, Selection, select
from diver.methods.shaping import Bonus, Schedule, Shaping
from diver.types import DiverError, Group, Problem, Progress, Reward, Rollout

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
    mix = Method.named("diver-mix")
    assert mix == Method()
    assert mix.pays == {"textual": Bonus(), "equational": Bonus()} and mix.combine == "mean"
    assert (mix.shaping.ratio, mix.shaping.bound, mix.shaping.discount) == (0.1, 0.65, 1.0)
    assert mix.shaping.schedule == Schedule(kind="cosine", start=0, end=1, unit="run", final=0)
    assert (mix.loss.clip_low, mix.loss.clip_high, mix.loss.beta, mix.loss.entropy) == (0.2, 0.28, 0, 0)
    assert mix.loss.aggregation == "token-mean" and mix.std == "population"
    assert dict(Method.named("diver-td").pays) == {"textual": Bonus()}
    assert dict(Method.named("diver-ed").pays) == {"equational": Bonus()}
    assert not Method.named("clip-higher").pays and Method.named("clip-higher").loss == Loss()
    assert not Method.named("grpo").pays and Method.named("grpo").loss == Loss(clip_high=0.2)
    assert Method.named("pass-at-k") == Method(name="pass-at-k", pays={}, estimator="pass-at-k")
    assert Method.named("pass-at-k").pass_at_k == PassAtK(k=4, form="analytic", sets=None)
    clip_cov, kl_cov = Method.named("clip-cov"), Method.named("kl-cov")
    assert clip_cov == Method(name="clip-cov", pays={}, loss=Loss(surrogate="clip-cov", clip_low=1.0, clip_high=1.0))
    assert clip_cov.loss.clip_cov == ClipCov(share=2e-4, low=1.0, high=5.0)
    assert kl_cov == Method(name="kl-cov", pays={}, loss=Loss(surrogate="kl-cov"))
    assert kl_cov.loss.kl_cov == KlCov(share=2e-3, coefficient=1.0)
    assert Method.named("entropy-bonus") == Method(name="entropy-bonus", pays={}, loss=Loss(entropy=0.001))
    assert Method.named("high-entropy") == Method(name="high-entropy", pays={}, loss=Loss(entropy_share=0.2))


@pytest.mark.parametrize("name", METHODS)
def test_the_resolved_settings_of_every_method_read_back(name):
    method = Method.named(name)
    assert method.name == name
    assert Method.named(**json.loads(json.dumps(dataclasses.asdict(method)))) == method


def test_overrides_are_merged_key_by_key():
    method = Method.named(
        "diver-mix", shaping={"ratio": 1, "schedule": {"kind": "linear"}}, pays={"textual": {"bound": 0.9}}
    )
    assert method.shaping == Shaping(ratio=1.0, schedule=Schedule(kind="linear"))
    assert method.pays == {"textual": Bonus(bound=0.9), "equational": Bonus()}
    assert Method.named("grpo", loss={"beta": 0.01}).loss == Loss(clip_high=0.2, beta=0.01)
    assert Method.named("diver-td", shaping=Shaping(ratio=0.3)).shaping.ratio == 0.3


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        (
            "diver-mx",
            {},
            "method.name: unknown choice 'diver-mx', did you mean 'diver-mix'? choices: grpo, clip-higher",
        ),
        ("grpo", {"shapin": {}}, "method.shapin: unknown key, did you mean 'shaping'?"),
        ("grpo", {"shaping": {"ratoi": 1}}, "method.shaping.ratoi: unknown key, did you mean 'ratio'? choices: ratio"),
        (
            "grpo",
            {"pays": {"textual": {"weigth": 1}}},
            "method.pays.textual.weigth: unknown key, did you mean 'weight'",
        ),
        ("grpo", {"shaping": {"schedule": {"kind": "cos"}}}, "method.shaping.schedule.kind: should be 'constant'"),
        ("grpo", {"shaping": {"ratio": "0.1"}}, "method.shaping.ratio: should be a valid number, not '0.1'"),
        ("grpo", {"shaping": {"ratio": math.nan}}, "method.shaping.ratio: should be a finite number, not nan"),
        ("grpo", {"shaping": {"ratio": -1}}, "method.shaping: ratio (lambda) must be at least 0, not -1.0"),
        ("grpo", {"shaping": 3}, "method.shaping: should be a table, not 3"),
        ("grpo", {"estimator": "gae"}, "method.estimator: should be 'grpo' or 'pass-at-k', not 'gae'"),
        (
            "diver-mix",
            {"estimator": "pass-at-k"},
            "method: estimator pass-at-k sees only whether a response is correct",
        ),
        ("pass-at-k", {"pass_at_k": {"k": 0}}, "method.pass_at_k: k must be at least 1, not 0"),
        ("pass-at-k", {"pass_at_k": {"sets": 0}}, "method.pass_at_k: sets must be at least 1, not 0"),
        ("pass-at-k", {"pass_at_k": {"form": "exact"}}, "method.pass_at_k.form: should be 'analytic' or 'bootstrap'"),
        ("grpo", {"selection": {"samples": 0}}, "method.selection: samples must be at least 1, not 0"),
        ("grpo", {"loss": {"clip_low": 2}}, "method.loss: clip_low must be between 0 and 1, not 2.0"),
        ("grpo", {"loss": {"entropy_share": 0}}, "method.loss: entropy_share must be above 0 and at most 1, not 0.0"),
        (
            "kl-cov",
            {"loss": {"entropy_share": 0.2}},
            'entropy_share below 1 goes with surrogate = "clip" only, not "kl-cov"',
        ),
        ("grpo", {"loss": {"surrogate": "cov"}}, "method.loss.surrogate: should be 'clip', 'clip-cov' or 'kl-cov'"),
        ("clip-cov", {"loss": {"clip_cov": {"share": 0}}}, "clip_cov: share must be above 0 and at most 1, not 0.0"),
        ("clip-cov", {"loss": {"clip_cov": {"low": 5}}}, "low must be below high, not low = 5.0, high = 5.0"),
        ("kl-cov", {"loss": {"kl_cov": {"share": 2}}}, "kl_cov: share must be above 0 and at most 1, not 2.0"),
        ("kl-cov", {"loss": {"kl_cov": {"coefficient": -1}}}, "kl_cov: coefficient must be at least 0, not -1.0"),
        ("grpo", {"tolerance": -1}, "method: tolerance must be at least 0, not -1.0"),
        ("diver-td", {"pays": {"textual": {"weight": 0}}}, "method: pays: at least one weight must be above 0"),
        ("diver-td", {"pays": {"textul": {}}}, "no diversity metric 'textul'"),
    ],
)
def test_bad_settings_name_their_dotted_key(name, overrides, message):
    with pytest.raises(DiverError) as error:
        Method.named(name, **overrides)
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
    done = apply(Method.named(name), group([1.0, 0.0, 1.0]))
    assert done.rewards == pytest.approx(shaped, abs=1e-15)
    assert done.outcomes.tolist() == [1, 0, 1]
    np.testing.assert_allclose(done.advantages, zscore(shaped), rtol=1e-12)
    # every method measures both diversities, its own pay aside
    assert [r.diversity["textual"] for r in done.rollouts] == TD
    assert [r.diversity["equational"] for r in done.rollouts] == ED


def test_lambda_follows_the_schedule_and_ends_at_grpo():
    mix = Method.named("diver-mix")
    half = apply(mix, group([1.0, 0.0, 1.0]), Progress(50, 100))
    assert half.rewards == pytest.approx([1.0125, 0.0, 1.0325], abs=1e-15)
    end = apply(mix, group([1.0, 0.0, 1.0]), Progress(100, 100))
    np.testing.assert_array_equal(end.advantages, apply(Method.named("grpo"), group([1.0, 0.0, 1.0])).advantages)


@given(st.floats(1e-4, 100), st.floats(1e-4, 100))
def test_in_an_all_correct_group_the_advantage_does_not_depend_on_lambda(one, other):
    first, second = (
        apply(Method.named("diver-mix", shaping={"ratio": ratio}), group([1.0, 1.0, 1.0])) for ratio in (one, other)
    )
    np.testing.assert_allclose(first.advantages, second.advantages, atol=1e-8)
    np.testing.assert_allclose(first.advantages, zscore([0.25, 0.25, 0.65]), atol=1e-8)


def test_until_lambda_is_zero():
    none = apply(Method.named("diver-mix", shaping={"ratio": 0}), group([1.0, 1.0, 1.0]))
    assert none.advantages.tolist() == [0, 0, 0]
    assert none.rollouts[2].diversity == {"textual": 1.0, "equational": 1.0}


def test_pass_at_k_training_by_hand():
    """Of 3 pairs, 2 have the correct response: R = 2/3, s = sqrt(2)/3; the wrong ones are in a failed pair half the time."""
    a = apply(Method.named("pass-at-k", pass_at_k={"k": 2}), group([1, 0, 0])).advantages
    np.testing.assert_allclose(a, np.array([1 / 3, -1 / 6, -1 / 6]) / (math.sqrt(2) / 3))
    assert apply(Method.named("pass-at-k", pass_at_k={"k": 2}), group([1, 0, 1])).advantages.tolist() == [0, 0, 0]
    low = Method.named("pass-at-k", pass_at_k={"k": 2}, shaping={"threshold": 0.1})
    assert apply(low, group([0.2, 0, 0])).advantages.tolist() == a.tolist()
    with pytest.raises(ValueError, match="k must be from 1 to the 3 responses"):
        apply(Method.named("pass-at-k"), group([1, 0, 0]))


def test_the_bootstrap_of_a_problem_a_step_and_their_responses_is_always_the_same():
    method = Method.named("pass-at-k", pass_at_k={"k": 2, "form": "bootstrap", "sets": 2})

    def drawn(step, name="p", texts=("one", "two", "three")):
        return apply(method, group([1, 0, 0], texts, name=name), Progress(step, 100)).advantages.tolist()

    assert [drawn(step) for step in range(20)] == [drawn(step) for step in range(20)]
    assert len({tuple(drawn(step)) for step in range(20)}) > 1
    assert [drawn(step) for step in range(20)] != [drawn(step, "another") for step in range(20)]
    other_seed = [drawn(step, texts=("four", "five", "six")) for step in range(20)]
    assert [drawn(step) for step in range(20)] != other_seed


def test_in_an_all_wrong_group_nothing_is_paid():
    done = apply(Method.named("diver-mix"), group([0.0, 0.0, 0.0]))
    assert done.rewards.tolist() == done.advantages.tolist() == [0, 0, 0]


def test_gamma_and_the_length_penalty_use_policy_tokens():
    tokens = [range(0), range(1), range(2)]
    done = apply(Method.named("diver-td", shaping={"discount": 0.5}), group([1.0] * 3, tokens=tokens))
    # 0.5^0 * 0.5, 0.5^1 * 0.5, 0.5^2 * 1
    assert done.rewards == pytest.approx([1.05, 1.025, 1.025])
    penal = Method.named("diver-td", shaping={"condition": "all-length-penalty", "length_limit": 2})
    done = apply(penal, group([1.0, 0.0, 0.0], tokens=tokens))
    assert [r.reward.length for r in done.rollouts] == pytest.approx([0, -0.0325, -0.065])
    assert done.rewards == pytest.approx([1.05, 0.0175, 0.0])
    with pytest.raises(ValueError, match="no policy tokens"):
        apply(penal, group([1.0, 0.0, 0.0]))


@pytest.mark.parametrize("bad", [None, math.nan, math.inf])
def test_an_outcome_that_is_missing_or_not_finite_is_named(bad):
    with pytest.raises(ValueError, match=r"problem 'sum-7', rollout 1: the outcome is (nan|inf)"):
        apply(Method.named("grpo"), group([1.0, bad, 0.0], name="sum-7"))


def test_a_group_of_one_has_neither_diversity_nor_advantage():
    done = apply(Method.named("diver-td"), group([1.0], [SAME]))
    assert (done.rewards.tolist(), done.advantages.tolist()) == ([1.0], [0.0])


def test_groups_are_not_changed_and_keep_their_order():
    before = [group([1.0, 0.0, 1.0], name=name) for name in "ab"]
    after = Method.named("diver-mix").apply(before, 0.0)
    assert [g.problem.id for g in after] == ["a", "b"]
    assert all(math.isnan(r.advantage) and not r.diversity for g in before for r in g.rollouts)
    again = Method.named("diver-mix").apply(after, 0.0)
    assert [g.rewards.tolist() for g in again] == [g.rewards.tolist() for g in after]


# --- selection


def test_select_by_hand():
    score = np.array([0.3, 0.9, 0.3, 0.1, 0.9, 0.3])
    assert select(score, 3, "most") == [0, 1, 4]
    assert select(score, 3, "least") == [0, 2, 3]


def test_the_kept_rollouts_have_advantages_over_themselves():
    words = ["a b c d", "a b c d", "e f g h", "i j k l"]  # TD 2/3, 2/3, 1, 1
    four = group([1.0, 0.0, 1.0, 0.0], words)
    most = apply(Method.named("clip-higher", selection={"keep": "most"}), four)
    assert most.responses == words[2:] and most.advantages.tolist() == [1, -1]
    assert [r.diversity["textual"] for r in most.rollouts] == [1, 1]
    least = apply(Method.named("clip-higher", selection={"keep": "least"}), group([1.0, 1.0, 0.0, 0.0], words))
    assert least.responses == words[:2] and least.advantages.tolist() == [0, 0]
    assert [r.diversity["textual"] for r in least.rollouts] == pytest.approx([2 / 3, 2 / 3])


def test_selection_needs_whole_multiples():
    assert (Selection().multiplier, Selection(keep="most", samples=3).multiplier) == (1, 3)
    with pytest.raises(ValueError, match="multiple of 2"):
        apply(Method.named("grpo", selection={"keep": "most"}), group([1.0, 0.0, 1.0]))


# --- metrics


def test_metrics_by_hand():
    method = Method.named("diver-mix")
    groups = method.apply([group([1.0, 0.0, 1.0]), group([1.0, 1.0, 1.0]), group([0.0, 0.0, 0.0])], 0.5)
    assert method.metrics(groups, 0.5) == pytest.approx(
        {
            "reward/outcome": 5 / 9,
            # lambda is 0.05: 0.0125 for each of the three correct SAME, 0.0325 for each of the two correct OTHER
            "reward/shaped": (5 + 3 * 0.0125 + 2 * 0.0325) / 9,
            "diversity/textual": 2 / 3,
            "diversity/equational": 1 / 3,
            "shaping/coef": 0.05,
            "shaping/clipped": 4 / 10,  # of 5 paid responses x 2 metrics, both of each correct OTHER
            "group/solve_all": 1 / 3,
            "group/solve_none": 1 / 3,
        }
    )


def test_metrics_of_a_method_that_pays_nothing():
    method = Method.named("grpo")
    metrics = method.metrics(method.apply([group([1.0, 0.0, 1.0])], 0.0), 0.0)
    assert (metrics["shaping/coef"], metrics["shaping/clipped"]) == (0, 0)
    assert metrics["diversity/textual"] == pytest.approx(2 / 3)
    assert metrics["reward/shaped"] == metrics["reward/outcome"] == 2 / 3


def test_solve_rates_come_from_outcomes_never_from_the_shaped_reward():
    method = Method.named("diver-td", shaping={"condition": "all", "ratio": 5.0})
    done = method.apply([group([0.0, 0.0, 0.0])], 0.0)
    assert (done[0].rewards > 1).all()
    assert method.metrics(done, 0.0)["group/solve_none"] == 1


def test_with_a_selection_the_outcome_is_that_of_everything_sampled():
    method = Method.named("clip-higher", selection={"keep": "most"})
    sampled = [group([1.0, 0.0, 1.0, 1.0], ["a b c d", "a b c d", "e f g h", "i j k l"])]
    metrics = method.metrics(method.apply(sampled, 0.0), 0.0, sampled)
    assert (metrics["reward/outcome"], metrics["reward/shaped"], metrics["group/solve_all"]) == (0.75, 1.0, 0)
    with pytest.raises(ValueError, match="at least one group"):
        method.metrics([], 0.0)


def test_groups_that_can_never_have_a_signal_are_refused():
    Method.named("pass-at-k").check_group(5, "G")
    Method.named("diver-mix").check_group(2, "G")
    with pytest.raises(DiverError, match="method.pass_at_k.k is 4 with G = 4: k must be below G"):
        Method.named("pass-at-k").check_group(4, "G")
