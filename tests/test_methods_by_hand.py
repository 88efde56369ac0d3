"""The methods that reward outcomes only, and those that need log-probs: by hand, from the papers' formulas."""

import dataclasses
import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import diver
from diver.core.settings import settings
from diver.core.types import DiverError, Group, Problem, Progress, Reward, Rollout
from diver.losses import ClipLoss
from diver.methods import METHODS, method_named
from diver.methods.grpo import ClipHigher

E2 = math.exp(2)
SQRT3 = math.sqrt(3)


def decode(tokens):
    """Tokens are the bytes of a text."""
    return bytes(tokens).decode("utf-8", "replace")


def trained(method, outcomes, logprobs=None, keys=None, texts=None, state=None, progress=0.0):
    """The group of problem p that is trained on, or None."""
    size = len(outcomes)
    method = method_named(method) if isinstance(method, str) else method
    texts = texts or ["a"] * size
    tokens = [list(text.encode()) for text in texts]
    logprobs = logprobs or [[-0.5 - i] * len(ids) for i, ids in enumerate(tokens)]
    tokens = [ids if len(ids) == len(lp) else [0] * len(lp) for ids, lp in zip(tokens, logprobs, strict=True)]
    rollouts = tuple(
        Rollout(text, tokens=ids, logprobs=np.array(lp, np.float32), key=key, reward=Reward(r))
        for text, ids, lp, key, r in zip(texts, tokens, logprobs, keys or "abcdefghijkl"[:size], outcomes, strict=True)
    )
    state = {} if state is None else state
    return next(iter(method.apply([Group(Problem("p", "?", ""), rollouts)], progress, decode, state)), None)


def advantages(*args, **options):
    group = trained(*args, **options)
    return np.empty(0) if group is None else group.advantages


@pytest.mark.parametrize(
    ("method", "settings", "correct", "wrong"),  # of one correct in four: p = 1/4, std sqrt(3)/4
    [
        ("dr-grpo", {}, 3 / 4, -1 / 4),
        # exp(2 r) is e^2 and 1, their mean (e^2 + 3) / 4
        ("rs-grpo", {}, (4 * E2 / (E2 + 3) - 1) / 2, (4 / (E2 + 3) - 1) / 2),
        ("rs-grpo", {"beta": math.log(5)}, (5 / 2 - 1) / math.log(5), (1 / 2 - 1) / math.log(5)),
        ("pkpo", {"k": 2}, 2, 0),  # 2 C(3, 1) / C(3, 1)
        ("pkpo", {}, 4, 0),  # 4 C(3, 3) / C(3, 3)
        ("pkpo", {"k": 1}, 1, 0),
        ("f-grpo", {}, math.sqrt(3 / 4) * SQRT3, -math.sqrt(3 / 4) / SQRT3),
        ("f-grpo", {"gamma": 2}, 9 / 16 * SQRT3, -9 / 16 / SQRT3),
        # w(1/4) = 0.4 + 1.1 / (1 + e^-5), w(3/4) = 0.4 + 1.1 / 2
        ("mmpo", {}, 3 / 4 * (1 + 2 * 3 / 4 + 3 * 9 / 16 + 4 * 27 / 64), -1 / 4 * (1 + 3 / 2 + 27 / 16 + 27 / 16)),
        ("mmpo", {"moments": 1}, 3 / 4, -1 / 4),  # dr-grpo
        ("bbg", {}, SQRT3, -1 / SQRT3),  # u(1) / u(1)
        ("difficulty-weight", {}, (0.4 + 1.1 / (1 + math.exp(-5))) * SQRT3, -0.95 / SQRT3),
        ("w-reinforce", {}, 0.1, -1),
    ],
)
def test_one_correct_of_four(method, settings, correct, wrong):
    found = advantages(method_named(method, **settings), [0, 1, 0, 0])
    np.testing.assert_allclose(found, [wrong, correct, wrong, wrong], rtol=1e-12)


def test_psr_and_nsr_train_on_the_correct_and_on_the_wrong_ones_only():
    assert advantages("psr", [0, 1, 0, 1]).tolist() == [1, 1]
    assert advantages("nsr", [0, 1, 0, 0]).tolist() == [-1, -1, -1]
    assert trained("psr", [0, 0]) is trained("nsr", [1, 1]) is None


def test_pkpo_of_each_number_of_correct_responses():
    # k = 2: 2 C(4 - c, 1) / C(3, 1); k = 3: 3 C(4 - c, 2) / C(3, 2)
    groups = [[1] * c + [0] * (4 - c) for c in range(5)]
    assert [advantages(method_named("pkpo", k=2), g)[0] for g in groups] == pytest.approx([0, 2, 4 / 3, 2 / 3, 0])
    assert [advantages(method_named("pkpo", k=3), g)[0] for g in groups] == pytest.approx([0, 3, 1, 0, 0])
    with pytest.raises(DiverError, match="method.k is 5 with G = 4: k must be at most G"):
        advantages(method_named("pkpo", k=5), groups[1])


@pytest.mark.parametrize("size", [2, 5, 8])
@pytest.mark.parametrize("p", [Fraction(1, 10), Fraction(3, 5)])
def test_pkpo_is_an_unbiased_gradient_of_pass_at_k(size, p):
    """A policy that is correct with probability p: d log pi / dp is 1/p of a correct response,
    and Pass@k = 1 - (1 - p)^k."""
    for k in range(1, size + 1):
        expected = Fraction(0)
        for c in range(1, size + 1):
            a = advantages(method_named("pkpo", k=k), [1] * c + [0] * (size - c))
            mean = Fraction(float(a.sum())).limit_denominator(10**6) / size / p
            expected += math.comb(size, c) * p**c * (1 - p) ** (size - c) * mean
        assert float(expected) == pytest.approx(float(k * (1 - p) ** (k - 1)), rel=1e-9)


def test_max_at_k_by_hand():
    """The pairs of 1, 1/2 and 0 are worth 1, 1 and 1/2; their mean is 1 for the first response, 3/4 for the others."""
    plain = method_named("max-at-k", k=2, divisor="none")
    np.testing.assert_allclose(advantages(plain, [0.5, 1, 0]), [-1 / 12, 1 / 6, -1 / 12])
    root = math.sqrt(2)
    np.testing.assert_allclose(advantages(method_named("max-at-k", k=2), [0, 0.5, 1]), [-1 / root, -1 / root, root])
    assert advantages(method_named("max-at-k", k=3), [0.7] * 6).tolist() == [0] * 6
    with pytest.raises(DiverError, match="method.k is 4 with G = 4: k must be below G, or no group has a signal"):
        advantages("max-at-k", [1, 0, 0, 0])


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=3, max_size=9))
def test_max_at_k_is_the_mean_over_all_sets(rewards):
    for k in range(2, len(rewards)):
        sets = [*combinations(range(len(rewards)), k)]
        best = [max(rewards[i] for i in members) for members in sets]
        of_each = [np.mean([b for b, s in zip(best, sets, strict=True) if i in s]) for i in range(len(rewards))]
        found = advantages(method_named("max-at-k", k=k, divisor="none"), rewards)
        np.testing.assert_allclose(found, np.array(of_each) - np.mean(best), atol=1e-9)


@pytest.mark.parametrize("correct", range(1, 6))
def test_max_at_k_of_outcomes_0_and_1_is_pass_at_k_over_its_standard_deviation(correct):
    """Two values over their standard deviation are GRPO's; with 5 of 8 correct, no 4 are wrong."""
    r = np.array([1.0] * correct + [0.0] * (8 - correct))
    a = advantages("pass-at-k", r)
    found = advantages("max-at-k", r)
    np.testing.assert_allclose(found, a / a.std() if a.any() else a, atol=1e-12)
    np.testing.assert_allclose(found, advantages("grpo", r) * (correct <= 4), atol=1e-12)


def test_qae_by_hand():
    """The 0.4-quantile of five is 0.6 of the way from the second to the third: 0 with one or two correct, 0.6 with
    three, 1 with four; the standard deviations are 0.4, sqrt 0.24, sqrt 0.24 and 0.4."""
    groups = [[1] * c + [0] * (5 - c) for c in range(6)]
    root = math.sqrt(0.24)
    expected = [
        [0] * 5,
        [2.5, 0, 0, 0, 0],
        [1 / root] * 2 + [0] * 3,
        [0.4 / root] * 3 + [-0.6 / root] * 2,
        [0] * 4 + [-2.5],
        [0] * 5,
    ]
    np.testing.assert_allclose([advantages("qae", group) for group in groups], expected, atol=1e-12)
    median = method_named("qae", quantile=0.5, divisor="none")
    np.testing.assert_allclose(advantages(median, [1, 0.5, 0.25, 0]), [0.625, 0.125, -0.125, -0.375])


WEIGHT = {  # A = (r - p) w(p), with G = 8
    "grpo": lambda p: 1 / math.sqrt(p * (1 - p)),
    "dr-grpo": lambda p: 1,
    "max-rl": lambda p: 1 / p,
    "rs-grpo": lambda p: (E2 - 1) / (2 * (1 + p * (E2 - 1))),
    "mmpo": lambda p: sum(k * (1 - p) ** (k - 1) for k in (1, 2, 3, 4)),
    "f-grpo": lambda p: math.sqrt(1 - p) / math.sqrt(p * (1 - p)),
    # sets of 4 without a correct response: C(8 - c, 4) of C(8, 4) = 70
    "pass-at-k": lambda p: math.sqrt((f := math.comb(round(8 - 8 * p), 4)) / (70 - f)) / (1 - p),
}


@pytest.mark.parametrize("method", WEIGHT)
@pytest.mark.parametrize("correct", range(1, 8))
def test_with_outcomes_of_0_and_1_a_centred_method_is_a_weight_of_the_solve_rate(method, correct):
    r, p = np.array([1.0] * correct + [0.0] * (8 - correct)), correct / 8
    np.testing.assert_allclose(advantages(method, r), (r - p) * WEIGHT[method](p), atol=1e-12)


def slope_of_pass_at_k(correct, size, k):
    """The mean of k (1 - p)^(k - 1) over a density proportional to p^correct (1 - p)^wrong: the integrals of the powers
    of p, term by term."""

    def integral(failures):
        return sum(Fraction((-1) ** i * math.comb(failures, i), correct + i + 1) for i in range(failures + 1))

    return k * integral(size - correct + k - 1) / integral(size - correct)


@pytest.mark.parametrize(("size", "k"), [(8, 16), (4, 2), (5, 1), (3, 40)])
def test_bbg_is_the_mean_slope_over_the_posterior(size, k):
    for correct in range(1, size):
        group = [1] * correct + [0] * (size - correct)
        weight = slope_of_pass_at_k(correct, size, k) / slope_of_pass_at_k(1, size, k)
        found = advantages(method_named("bbg", k=k, tau=0), group)
        np.testing.assert_allclose(found, float(weight) * advantages("grpo", group), rtol=1e-12)


def test_bbg_leaves_out_saturated_groups():
    """8 responses, k = 16: with 3 correct the slope is .190 and with 4 it is .047, and the limit is .01 * 9 = .09."""
    slopes = [float(slope_of_pass_at_k(correct, 8, 16)) for correct in (3, 4)]
    assert slopes == pytest.approx([0.190, 0.047], abs=5e-4)
    groups = [[1] * correct + [0] * (8 - correct) for correct in (3, 4)]
    assert [advantages("bbg", group).any() for group in groups] == [True, False]


@pytest.mark.parametrize("outcomes", [[1.0] * 4, [0.0] * 4, [1.0], [0.0]])
@pytest.mark.parametrize("name", ["bbg", "mmpo", "rs-grpo"])
def test_groups_all_correct_all_wrong_or_of_one_response_have_exact_zeros(name, outcomes):
    assert advantages(name, outcomes).tolist() == [0] * len(outcomes)


@pytest.mark.parametrize("moments", [1, 2, 4, 9])
@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(2, 3)])
def test_mmpo_is_the_gradient_of_the_attempts_until_the_first_success(moments, rate):
    """12 responses at the rate p. The score d log pi / dp is 1/p of a correct response and -1/(1 - p) of a wrong one,
    and the expected number of attempts, cut at T + 1, is the sum of (1 - p)^k for k = 0 .. T."""
    correct = int(12 * rate)
    a = advantages(method_named("mmpo", moments=moments), [1] * correct + [0] * (12 - correct))
    gradient = (a[:correct].sum() / float(rate) - a[correct:].sum() / float(1 - rate)) / 12
    slope = sum(-k * (1 - rate) ** (k - 1) for k in range(moments + 1))
    assert gradient == pytest.approx(-float(slope), rel=1e-12)


@pytest.mark.parametrize("tau", [0.1, 0.3, 2.0])
@pytest.mark.parametrize("rewards", [[1, 0, 0, 0], [1, 1, 1, 0, 0], [0.25, 1, 0], [1] * 4, [0] * 4, [1]])
def test_softmax_grpo_is_rs_grpo_times_beta(rewards, tau):
    """Its release: M softmax(r / tau) - 1."""
    odds = [math.exp(reward / tau) for reward in rewards]
    release = [len(rewards) * x / sum(odds) - 1 for x in odds]
    found = advantages(method_named("rs-grpo", beta=1 / tau), rewards) / tau
    np.testing.assert_allclose(found, release, rtol=1e-9, atol=1e-12)


# --- with the sampler's log-probs


def test_unlikeliness_by_hand():
    # log-probs of the responses -2, -3, -4, -0.5: ranks 1, 2, 3, 0 of four; by their means the second would be the last
    done = trained("unlikeliness", [1.0, 1.0, 0.0, 1.0], [[-1, -1], [-3], [-2, -2], [-0.5]])
    shaped = [1 - 0.25 * 3 / 4, 1 - 0.25 * 2 / 4, 0, 1 - 0.25 * 4 / 4]
    assert done.rewards == pytest.approx(shaped) and done.outcomes.tolist() == [1, 1, 0, 1]
    np.testing.assert_allclose(done.advantages, (shaped - np.mean(shaped)) / np.std(shaped))


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_unlikeliness_has_no_signal_where_all_outcomes_are_equal(outcome):
    assert advantages("unlikeliness", [outcome] * 4).tolist() == [0] * 4


@pytest.mark.parametrize(
    ("logprobs", "told"),
    [
        (
            [[-1.0, -2.0], [-1.0, 0.0]],
            r"rollout 1 needs log-probs, one for each of its 1 tokens, without padding: got \[2\]",
        ),
        ([[-1.0, -2.0], None], "rollout 1 needs log-probs, one for each of its 1 tokens, without padding: got None"),
        ([[-1.0, math.nan], [-1.0]], "rollout 0 has log-probs that are not finite, or above 0"),
        ([[-1.0, -math.inf], [-1.0]], "rollout 0 has log-probs that are not finite, or above 0"),
        ([[-1.0, -2.0], [0.7]], "rollout 1 has log-probs that are not finite, or above 0"),  # a probability
    ],
)
@pytest.mark.parametrize("method", ["unlikeliness", "ucpo", "cde", "xrpo", "ds-grpo"])
def test_log_probs_that_are_none_of_the_tokens_are_refused(method, logprobs, told):
    rows = zip([[5, 6], [7]], logprobs, strict=True)
    rollouts = tuple(Rollout("a", tokens=ids, logprobs=lp, reward=Reward(1.0)) for ids, lp in rows)
    with pytest.raises(DiverError, match=rf"method '{method}', problem 'p': {told}"):
        method_named(method).apply([Group(Problem("p", "?", ""), rollouts)], 0.0)


@pytest.mark.parametrize("method", ["cde", "unlikeliness", "darling", "diver-mix", "rs-grpo"])
@pytest.mark.parametrize("wrong", [-1.0, 1.5])
def test_a_formula_that_means_0_by_wrong_refuses_other_outcomes(method, wrong):
    """With -1 for wrong darling would punish a wrong answer more the rarer it is,
    and cde give it three times the bonus. lambda and beta are in units of reward, whatever an environment pays."""
    with pytest.raises(DiverError, match=rf"rollout 2 has the outcome {wrong:g}; give one from 0 \(wrong\) to 1"):
        advantages(method, [1.0, 0.5, wrong, 0.0])


def test_equal_log_probs_share_their_rank():
    # 1 - 0.25 (2 - 1/2) / 2 for both
    done = trained("unlikeliness", [1.0, 1.0], [[-1.0], [-1.0]])
    assert done.rewards.tolist() == [0.8125, 0.8125]


def test_ucpo_by_hand():
    # of the two correct q is 3/4 and 1/4, so 1/q is shared 1/4 to 3/4; GRPO's advantages are 1 and -1
    logprobs = [[math.log(0.6)] * 3, [math.log(0.2)], [-9.0], [-0.1]]
    expected = [2 * (0.8 / 2 + 0.2 / 4), 2 * (0.8 / 2 + 0.2 * 3 / 4), -1, -1]
    np.testing.assert_allclose(advantages("ucpo", [1, 1, 0, 0], logprobs), expected, rtol=1e-6)
    even = advantages(method_named("ucpo", tau=1), [1, 1, 0, 0], logprobs)
    np.testing.assert_allclose(even, [0.5, 1.5, -1, -1], rtol=1e-6)
    assert advantages("ucpo", [0, 0]).tolist() == advantages("ucpo", [1, 1]).tolist() == [0, 0]
    with pytest.raises(DiverError, match=r"problem 'p': correct responses need equal outcomes, not \[1.0, 0.6\]"):
        advantages("ucpo", [1, 0.6, 0, 0])
    assert advantages("ucpo", [1, 1, 0.4, 0]).sum() == pytest.approx(0)  # wrong ones may differ


def test_xrpo_by_hand():
    # l is ln 2 above the mean of the group, then ln 2 below: eta is 2, 1/2, 1, 1; GRPO's advantages are 1 and -1
    logprobs = [[-1 + math.log(2)], [-1 - math.log(2)] * 2, [-1.0], [-1.0] * 3]
    small = method_named("xrpo", novelty=0.8)
    np.testing.assert_allclose(advantages(small, [1, 1, 0, 0], logprobs), [1, 1 + 0.8 / 2, -1, -1], rtol=1e-6)
    np.testing.assert_allclose(advantages("xrpo", [0, 0, 1, 1], logprobs), [-1, -1, 1, 1])  # wrong ones gain nothing
    # 2.5 / 2 is more than half of its advantage
    np.testing.assert_allclose(advantages("xrpo", [1, 1, 0, 0], logprobs), [1, 1 + 1 / 2, -1, -1])
    assert advantages("xrpo", [1, 1], [[-1.0], [-3.0]]).tolist() == [0, 0]


def test_ds_grpo_by_hand():
    # the sums are -3, -4, -3, -7; GRPO's advantages 1 and -1
    logprobs = [[-1, -2], [-4], [-1, -1, -1], [-7]]
    expected = [1 + 0.003, 1 + 0.004, -1 - 0.003, -1 - 0.007]
    np.testing.assert_allclose(advantages("ds-grpo", [1, 1, 0, 0], logprobs), expected, rtol=1e-12)
    one_sided = method_named("ds-grpo", gamma_p=0.1, gamma_n=0)
    np.testing.assert_allclose(advantages(one_sided, [1, 1, 0, 0], logprobs), [1.3, 1.4, -1, -1])
    np.testing.assert_allclose(advantages(one_sided, [1, 1, 1, 1], logprobs), [0.3, 0.4, 0.3, 0.7])
    assert advantages(one_sided, [0, 0, 0, 0], logprobs).tolist() == [0] * 4


def test_cde_by_hand():
    # B is 0.2, 0.5, 0.1, 1.0, and the bonus at most 1/3; in the source's rewards of 1 and -1
    logprobs = [[-0.2], [-0.4, -0.6], [-0.1] * 3, [-1.0]]
    r = np.array([1 + 0.2, 1 + 1 / 3, -1 + 0.1, -1 + 1 / 3])
    done = trained("cde", [1, 1, 0, 0], logprobs)
    np.testing.assert_allclose(done.advantages, (r - r.mean()) / r.std(), rtol=1e-6)
    np.testing.assert_allclose(done.rewards, (r + 1) / 2, rtol=1e-6)
    assert done.outcomes.tolist() == [1, 1, 0, 0]
    weaker = trained(method_named("cde", alpha=0.5, kappa=4), [1, 1, 0, 0], logprobs)
    np.testing.assert_allclose(2 * weaker.rewards - 1, [1.1, 1.25, -0.95, -0.75], rtol=1e-6)
    all_correct = 2 * trained("cde", [1, 1, 1, 1], logprobs).rewards - 1
    np.testing.assert_allclose(all_correct, [1.2, 4 / 3, 1.1, 4 / 3], rtol=1e-6)


def test_the_bonus_of_cde_ends_half_way():
    logprobs = [[-0.2], [-0.5], [-0.1], [-1.0]]
    method = method_named("cde")
    assert [method.shaping_coef(Progress(step, 10)) for step in (0, 4, 5, 9)] == [1, 1, 0, 0]
    assert advantages(method, [1, 1, 0, 0], logprobs, progress=Progress(5, 10)).tolist() == [1, 1, -1, -1]
    assert advantages(method, [1, 1, 1, 1], logprobs, progress=0.6).tolist() == [0] * 4
    linear = method_named("cde", schedule={"kind": "linear", "end": 1.0})
    shaped = trained(linear, [1, 0, 0, 0], logprobs, progress=0.75).rewards
    np.testing.assert_allclose(2 * shaped - 1, [1.05, -1 + 1 / 12, -0.975, -1 + 1 / 12], rtol=1e-6)


def test_the_log_probs_are_asked_for():
    for method in ("unlikeliness", "ucpo", "xrpo", "ds-grpo", "cde"):
        assert method_named(method).needs == {"logprobs"}
        with pytest.raises(DiverError, match="needs logprobs"):
            diver.advantages(["", ""], [1, 0], [0, 0], method)


def test_the_settings_that_sources_give():
    symmetric = ClipLoss(clip_low=0.2, clip_high=0.2)
    for name in ("max-rl", "f-grpo", "ucpo", "cde", "darling"):
        assert method_named(name).loss == symmetric, name
    for name in ("difficulty-weight", "w-reinforce", "psr", "nsr"):
        assert method_named(name).loss == dataclasses.replace(symmetric, entropy_coef=0.001), name
    assert method_named("unlikeliness").loss == dataclasses.replace(symmetric, kl_coef=0.1)
    assert (method_named("f-grpo").gamma, method_named("xrpo").novelty, method_named("xrpo").limit) == (0.5, 2.5, 0.5)


# --- what holds for all


@settings
class Uncentred(ClipHigher):
    """Inherits that its advantages sum to 0, and they do not."""

    def advantages(self, group, context):
        return np.where(group.outcomes >= self.threshold, 1.0, -0.1)


def test_advantages_that_do_not_sum_to_what_is_declared_are_refused():
    """A trainer that subtracts the mean would train on others."""
    with pytest.raises(DiverError, match=r"its advantages sum to 2.9, so `zero_mean` must be False"):
        advantages(Uncentred(), [1, 1, 1, 0])


HERE = (
    "bbg mmpo dr-grpo rs-grpo qae pkpo f-grpo difficulty-weight w-reinforce unlikeliness ucpo xrpo ds-grpo cde".split()
)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=4, max_size=12), st.randoms())
@pytest.mark.parametrize("name", HERE)
def test_the_mean_is_0_where_it_is_declared_and_the_order_does_not_matter(name, outcomes, random):
    method = method_named(name)
    size = len(outcomes)
    logprobs = [[-random.random()] for _ in outcomes]
    found = advantages(method, outcomes, logprobs)
    if method.zero_mean:
        assert abs(found.sum()) < 1e-9
    order = random.sample(range(size), size)
    again = advantages(method, [outcomes[i] for i in order], [logprobs[i] for i in order])
    np.testing.assert_allclose(again, found[order], atol=1e-9)


@pytest.mark.parametrize("name", [name for name in METHODS if not method_named(name).zero_mean and name != "gigpo"])
def test_where_it_is_not_declared_the_mean_is_not_0(name):
    logprobs = [[-200.0] * 9, *[[-100.0]] * 4]
    given = {"keys": "abbbb", "texts": [r"\boxed{1}", *"bbbb"], "state": {"counts": {"p": {"a": 100}}}}
    assert abs(advantages(name, [1, 0, 0, 0, 0], logprobs, **given).sum()) > 0.1


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("rs-grpo", {"beta": 0}, "method.beta: must be above 0, not 0"),
        ("pkpo", {"k": 0}, "method.k: must be at least 1, not 0"),
        ("f-grpo", {"gamma": -1}, "method.gamma: must be at least 0, not -1"),
        ("mmpo", {"moments": 0}, "method.moments: must be at least 1, not 0"),
        ("bbg", {"tau": -1}, "method.tau: must be at least 0, not -1"),
        ("w-reinforce", {"positive": -1}, "at least 0, and not both 0"),
        ("nsr", {"negative": 0}, "at least 0, and not both 0"),
        ("unlikeliness", {"beta": 2}, "method.beta: must be between 0 and 1, not 2"),
        ("xrpo", {"limit": -1}, "method.limit: must be at least 0, not -1"),
        ("ds-grpo", {"gamma_n": -1}, "method.gamma_n: must be at least 0, not -1"),
        ("cde", {"kappa": 0}, "method.kappa: must be above 0, not 0"),
        ("cde", {"alpha": -1}, "method.alpha: must be at least 0, not -1"),
        ("ucpo", {"tau": -1}, "method.tau: must be between 0 and 1, not -1"),
    ],
)
def test_settings_out_of_range(name, settings, message):
    with pytest.raises(DiverError) as error:
        method_named(name, **settings)
    assert message in str(error.value)
