"""What the paper's Theorem 1 covers, what it does not, and what conditional shaping guarantees instead.

docs/diver.md states the results that are held here. An MDP is (P, R, gamma): P float64 [S, A, S], R [S, A, S];
the states past `live` are terminal: nothing follows them, so their value is 0.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diver.methods.diver import DiversityReward, Shaping, diversity_reward, intrinsic_reward, shape

LAMBDA = 0.1


def optimal_actions(P, R, gamma, live, tolerance=1e-9):
    """bool [live, A]: the actions that some optimal policy takes, by value iteration."""
    V = np.zeros(P.shape[0])
    while True:
        Q = np.einsum("sat,sat->sa", P[:live], R[:live] + gamma * V)
        if np.abs(Q.max(1) - V[:live]).max() < 1e-12:
            return Q.max(1, keepdims=True) - Q < tolerance
        V[:live] = Q.max(1)


def potential_based(R, d, gamma, ratio=LAMBDA):
    """R + lambda * (gamma d(s') - d(s)) (Eq. 6)."""
    return R + ratio * (gamma * d[None, None, :] - d[:, None, None])


def continuing(rng, gamma, states=6, actions=3):
    P = rng.dirichlet(np.full(states, 0.5), (states, actions))
    R = rng.normal(size=(states, actions, states))
    P[:, 1], R[:, 1] = P[:, 0], R[:, 0]  # ties: two actions that are the same
    return P, R, gamma, states


def episodic(rng, gamma, live=5, ends=3, actions=3):
    """Every step leads to a later state, so an episode ends; reward 0 or 1 when it does, as for a verified response."""
    S = live + ends
    P = np.zeros((S, actions, S))
    for s in range(live):
        P[s, :, s + 1 :] = rng.dirichlet(np.full(S - s - 1, 0.5), actions)
    R = np.zeros((S, actions, S))
    R[:, :, live:] = rng.integers(0, 2, ends)
    return P, R, gamma, live


# --- Eq. 8: the intrinsic rewards of a response telescope


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0.01, 1))
def test_the_sum_of_potential_differences_telescopes(d, gamma):
    T = len(d) - 1
    summed = sum(gamma**t * (gamma * d[t + 1] - d[t]) for t in range(T))
    assert summed == pytest.approx(gamma**T * d[T] - d[0], abs=1e-9)
    # with d(q) = 0, that is what the product pays for
    assert summed + d[0] == pytest.approx(intrinsic_reward(np.array(d[-1:]), np.array([T]), gamma)[0], abs=1e-9)


def test_with_gamma_where_equation_7_puts_it_the_sum_does_not_telescope():
    # d = 0, 1, 1 and gamma = 1/2. Eq. 8: (1/2 - 0) + 1/2 (1/2 - 1) = 1/4 = gamma^2 d_2.
    # Eq. 7 reads gamma d_t - d_{t+1}: (0 - 1) + 1/2 (1/2 - 1) = -5/4, and d_0 - d_2 = -1 for gamma = 1: a charge.
    d, gamma = [0.0, 1.0, 1.0], 0.5
    assert sum(d[t] - d[t + 1] for t in range(2)) == -1
    assert sum(gamma**t * (gamma * d[t + 1] - d[t]) for t in range(2)) == 0.25
    assert sum(gamma**t * (gamma * d[t] - d[t + 1]) for t in range(2)) == -1.25


# --- Theorem 1, where it holds


@pytest.mark.parametrize("gamma", [0.5, 0.9])
def test_continuing_processes_keep_their_optimal_policies(gamma):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        P, R, gamma, live = continuing(rng, gamma)
        d = rng.uniform(size=P.shape[0])
        before = optimal_actions(P, R, gamma, live)
        np.testing.assert_array_equal(before, optimal_actions(P, potential_based(R, d, gamma, 5.0), gamma, live))
        assert (before[:, 0] == before[:, 1]).all()


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_episodes_keep_their_optimal_policies_where_the_terminal_potential_is_zero(gamma):
    for seed in range(200):
        rng = np.random.default_rng(seed)
        P, R, gamma, live = episodic(rng, gamma)
        d = rng.uniform(size=P.shape[0])
        d[live:] = 0
        before = optimal_actions(P, R, gamma, live)
        np.testing.assert_array_equal(before, optimal_actions(P, potential_based(R, d, gamma, 5.0), gamma, live))


# --- Theorem 1, where it does not hold: the diversity of a finished response is a terminal potential


def counterexample():
    """One question (state 0) and two ways to answer it; three finished responses (states 1, 2, 3).

    action 0, the usual way: always the correct response 1, whose diversity is 0.
    action 1, the odd way:   the correct response 2 with probability 0.95, else the wrong response 3; both have d = 1.
    """
    P = np.zeros((4, 2, 4))
    P[0, 0] = [0, 1, 0, 0]
    P[0, 1] = [0, 0, 0.95, 0.05]
    R = np.zeros((4, 2, 4))
    R[:, :, 1] = R[:, :, 2] = 1
    return P, R, np.array([0.0, 0.0, 1.0, 1.0])


def test_counterexample_terminal_diversity_changes_the_optimal_policy():
    # Q(usual) = 1 and Q(odd) = 0.95: the usual way is optimal.
    # Shaped with lambda = 0.1, gamma = 1: Q'(usual) = 1 + 0.1 (0 - 0) = 1, Q'(odd) = 0.95 + 0.1 (1 - 0) = 1.05.
    P, R, d = counterexample()
    assert optimal_actions(P, R, 1.0, live=1).tolist() == [[True, False]]
    assert optimal_actions(P, potential_based(R, d, 1.0), 1.0, live=1).tolist() == [[False, True]]
    # The proof writes Q'(s', a') = Q(s', a') - lambda d(s') for every s'; a terminal s' has value 0, not -lambda d(s').
    assert optimal_actions(P, potential_based(R, np.where(np.arange(4) < 1, d, 0), 1.0), 1.0, live=1).tolist() == [
        [True, False]
    ]


def test_counterexample_holds_for_the_reward_that_is_used():
    # clipped at 0.65 and paid to correct responses only: Q'(odd) = 0.95 (1 + 0.1 * 0.65) = 1.01175, still above 1.
    P, R, d = counterexample()
    rewards = shape(
        R[0, 0], diversity_reward({"d": d}, {"d": DiversityReward()}, 0.65), LAMBDA, Shaping(), np.zeros(len(d))
    )
    shaped = np.array([reward.total for reward in rewards])
    assert P[0] @ shaped == pytest.approx([1.0, 1.01175])


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_some_random_episodes_change_their_optimal_policy_where_it_is_not_zero(gamma):
    changed = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        P, R, gamma, live = episodic(rng, gamma)
        d = rng.uniform(size=P.shape[0])
        before = optimal_actions(P, R, gamma, live)
        changed += not np.array_equal(before, optimal_actions(P, potential_based(R, d, gamma, 0.5), gamma, live))
    assert 50 < changed < 150  # 80 with gamma = 0.9, 96 with gamma = 1


def test_a_terminal_potential_equal_for_all_responses_changes_nothing_at_gamma_1():
    for seed in range(50):
        rng = np.random.default_rng(seed)
        P, R, gamma, live = episodic(rng, 1.0)
        d = rng.uniform(size=P.shape[0])
        d[live:] = 0.7
        before = optimal_actions(P, R, gamma, live)
        np.testing.assert_array_equal(before, optimal_actions(P, potential_based(R, d, gamma, 5.0), gamma, live))


# --- What conditional shaping guarantees: whatever d is, the group included, its bonus lies in [0, lambda sigma]


def best_are_correct(condition, ratio, lengths=(0,), sigma=0.65):
    """Whether the responses of highest r' are correct ones, in every group of 4 in whatever order:
    d lies in a grid past sigma."""
    shaping = Shaping(condition=condition, clip_max=sigma)
    responses = itertools.product([0.0, 1.0], [0.0, 0.3, sigma, 1.0], lengths)
    for group in itertools.combinations_with_replacement(responses, 4):
        outcomes, d, tokens = map(np.array, zip(*group, strict=True))
        clipped = diversity_reward({"d": d}, {"d": DiversityReward()}, sigma)
        total = np.array([r.total for r in shape(outcomes, clipped, ratio, shaping, tokens)])
        if outcomes.any() and not outcomes[total == total.max()].all():
            return False
    return True


@pytest.mark.parametrize(
    ("condition", "ratio", "holds"),  # sigma = 0.65, so lambda sigma = 0.065, 0.975, 1.04, 13
    [
        ("correct", 0.1, True),
        ("correct", 1.6, True),
        ("correct", 20.0, True),  # r' >= 1 if correct, 0 if wrong, whatever lambda is
        ("all", 0.1, True),
        ("all", 1.5, True),  # lambda sigma < 1
        ("all", 1.6, False),  # a wrong response with d = 1 gets 1.04, a correct one with d = 0 gets 1
        ("wrong", 1.5, True),
        ("wrong", 1.6, False),
    ],
)
def test_every_optimal_response_is_a_correct_one(condition, ratio, holds):
    assert best_are_correct(condition, ratio) is holds


@pytest.mark.parametrize(("ratio", "holds"), [(0.1, True), (0.76, True), (0.78, False)])
def test_with_the_length_penalty_lambda_sigma_must_be_below_one_half(ratio, holds):
    # long correct responses lose up to lambda sigma, short wrong ones gain up to lambda sigma: 0.494 and 0.507
    assert best_are_correct("all-length-penalty", ratio, lengths=(0, 8192)) is holds


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 1.5, 10.0]), st.sampled_from(["correct", "all"]))
def test_a_shaped_optimal_policy_keeps_this_much_of_the_best_accuracy_of_any_policy_class(seed, ratio, condition):
    # correct: J <= J' <= (1 + lambda sigma) J, so J(pi') >= J'(pi') / (1 + lambda sigma) >= J(pi*) / (1 + lambda sigma)
    # all:     J <= J' <= J + lambda sigma, so J(pi') >= J(pi*) - lambda sigma
    rng = np.random.default_rng(seed)
    outcomes, sigma = rng.integers(0, 2, 6).astype(float), 0.65
    policies = rng.dirichlet(np.full(6, 0.3), 20)  # a class of 20 distributions over 6 responses
    d = rng.uniform(size=(20, 6))  # d depends on the group, so on the policy
    shaped = [
        [
            r.total
            for r in shape(
                outcomes,
                diversity_reward({"d": row}, {"d": DiversityReward()}, sigma),
                ratio,
                Shaping(condition=condition),
                np.zeros(6),
            )
        ]
        for row in d
    ]
    accuracy = policies @ outcomes
    chosen = accuracy[(policies * shaped).sum(1).argmax()]
    best = accuracy.max()
    assert chosen >= (best / (1 + ratio * sigma) if condition == "correct" else best - ratio * sigma) - 1e-12


def test_that_bound_is_tight():
    # the usual way: accuracy 1 and d = 0. The odd way: accuracy p and d = 1, clipped to 0.65, so p * 1.065.
    # It is chosen when p > 1 / 1.065 = 0.93897.
    d = np.array([0.0, 1.0, 1.0])
    clipped = diversity_reward({"d": d}, {"d": DiversityReward()}, 0.65)
    rewards = shape(np.array([1.0, 1.0, 0.0]), clipped, LAMBDA, Shaping(), np.zeros(3))
    usual, odd_correct, odd_wrong = (reward.total for reward in rewards)
    assert [p * odd_correct + (1 - p) * odd_wrong > usual for p in (0.938, 0.940)] == [False, True]
